"""What recurs every week: maintenance and shifts, made ahead of time, right by the local clocks."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from dashboard.core.common.times import now_ms, unix_ms, utc_datetime
from dashboard.notify.notifications.models import RotaShift
from dashboard.watch.incidents.models import MOST_OPEN, Window
from support.web.rotas import make_rota
from support.web.web_fixtures import bearer, error_of, forget_limits, make_user

pytestmark = pytest.mark.django_db

HOUR, DAY = 3_600_000, 86_400_000
ONE_DAY = timedelta(days=1)


def ms(year: int, month: int, day: int, hour: int, minute: int = 0) -> int:
    return unix_ms(datetime(year, month, day, hour, minute, tzinfo=UTC))


# ---- maintenance --------------------------------------------------------------------------------


def form(weeks: int, **more: str) -> dict[str, str]:
    """Maintenance of an hour from tomorrow on, for so many weeks."""
    forget_limits()
    begin = utc_datetime(now_ms() + DAY).replace(second=0, microsecond=0)
    until = begin.date() + timedelta(weeks=weeks - 1)
    return {
        "name": "racks", "scenario": "attack", "covers": "all", "held": "on",
        "begin": begin.strftime("%Y-%m-%dT%H:%M"),
        "end": (begin + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M"),
        "weekly_until": until.isoformat(),
    } | more  # fmt: skip


def planned() -> list[Window]:
    return list(Window.objects.filter(cancelled_at=None).order_by("begin"))


def test_windows_that_recur_are_ordinary_windows(client: Client) -> None:
    assert client.post("/maintenance/new/", form(4)).status_code == 302
    first, *others = planned()
    assert [each.begin - first.begin for each in others] == [7 * DAY, 14 * DAY, 21 * DAY]
    assert {(each.name, each.held, each.end - each.begin) for each in planned()} == {
        ("racks", True, HOUR)
    }


def test_some_days_are_left_out(client: Client) -> None:
    typed = form(4)
    begin = date.fromisoformat(typed["begin"][:10])
    without = f"{begin + timedelta(weeks=1)}, {begin + timedelta(weeks=9)}"
    client.post("/maintenance/new/", typed | {"weekly_without": without})
    first, *others = planned()
    assert [each.begin - first.begin for each in others] == [14 * DAY, 21 * DAY]


def test_one_of_them_is_changed_alone(client: Client) -> None:
    client.post("/maintenance/new/", form(3))
    _, second, _ = planned()
    page = client.get(f"/maintenance/{second.pk}/edit/").content.decode()
    assert "weekly_until" not in page
    changed = form(3, name="cables") | {"revision": str(second.revision)}
    assert client.post(f"/maintenance/{second.pk}/edit/", changed).status_code == 302
    assert sorted(each.name for each in planned()) == ["cables", "racks", "racks"]


def test_it_is_cancelled_alone_or_with_those_that_follow(client: Client) -> None:
    client.post("/maintenance/new/", form(4))
    Window.objects.create(
        name="racks", scenario="attack", covers="all", begin=now_ms() + 40 * DAY,
        end=now_ms() + 41 * DAY, planned_end=now_ms() + 41 * DAY, created_at=1,
    )  # fmt: skip
    first, second, *_ = planned()
    client.post(f"/maintenance/{first.pk}/cancel/")
    assert len(planned()) == 4
    page = client.get(f"/maintenance/{second.pk}/").content.decode()
    assert "Cancel it and the next 2" in page
    client.post(f"/maintenance/{second.pk}/cancel/", {"do": "all"})
    [other] = planned()
    assert other.created_at == 1, "planned by itself, though of the same name"


def test_a_window_over_the_night_of_the_change_ends_by_the_clock(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.watch.incidents.windows.now_ms", lambda: ms(2027, 10, 1, 0))
    typed = form(1, begin="2027-10-23T20:00", end="2027-10-24T04:00", weekly_zone="Europe/Berlin")
    client.post("/maintenance/new/", typed | {"weekly_until": "2027-11-06"})
    assert [(each.begin, each.end) for each in planned()] == [
        (ms(2027, 10, 23, 20), ms(2027, 10, 24, 4)),
        (ms(2027, 10, 30, 20), ms(2027, 10, 31, 5)),  # 22:00 to 06:00, of nine hours
        (ms(2027, 11, 6, 21), ms(2027, 11, 7, 5)),
    ]
    assert all(each.planned_end == each.end for each in planned())


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("weekly_zone", "Mars/Olympus", "Expected an IANA time zone"),
        ("weekly_without", "Christmas", "Expected days, such as 2026-12-25, 2027-01-01."),
        ("weekly_until", "soon", "Expected a day, such as 2026-11-22."),
        ("weekly_until", "2001-01-01", "Expected a day on or after one on which it begins."),
        ("weekly_every", "0", "greater than or equal to 1"),
    ],
)
def test_what_is_wrong_is_named(client: Client, field: str, value: str, says: str) -> None:
    response = client.post("/maintenance/new/", form(4, **{field: value}))
    assert response.status_code == 422
    assert says in error_of(response, field)
    assert not planned()


def test_too_many_are_refused_together(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_OPEN == 500
    monkeypatch.setattr("dashboard.watch.incidents.models.MOST_OPEN", 3)
    assert client.post("/maintenance/new/", form(4)).status_code == 422
    assert not planned()
    assert client.post("/maintenance/new/", form(3)).status_code == 302


def test_a_program_plans_and_cancels_them_too() -> None:
    forget_limits()
    headers = bearer(make_user("operator"))
    begin = now_ms() + DAY
    until = utc_datetime(begin).date() + timedelta(weeks=2)
    body: dict[str, Any] = {
        "name": "racks", "begin": begin, "duration_ms": HOUR, "weekly_until": until.isoformat(),
        "weekly_zone": "UTC", "all": True,
    }  # fmt: skip

    def post(**more: Any) -> Any:
        return Client().post(
            "/api/v1/maintenance", body | more, content_type="application/json", headers=headers
        )

    made = post()
    assert made.status_code == 200, made.content
    assert len(planned()) == 3
    assert post(weekly_zone="Mars").json()["errors"][0]["field"] == "weekly_zone"
    address = f"/api/v1/maintenance/{made.json()['id']}"
    assert Client().delete(f"{address}?following=true", headers=headers).status_code == 200
    assert not planned()


# ---- shifts -------------------------------------------------------------------------------------


def test_colleagues_take_turns_by_weeks(client: Client) -> None:
    forget_limits()
    rota = make_rota("Nights")
    ada, bob = make_user("admin"), make_user("manager")
    first = utc_datetime(now_ms() + DAY).replace(second=0, microsecond=0)
    for n, user in enumerate((ada, bob)):
        begin = first + timedelta(weeks=n)
        client.post(
            f"/notifications/rotas/{rota.pk}/add/",
            {
                "who": str(user.pk), "begins": begin.strftime("%Y-%m-%dT%H:%M"),
                "ends": (begin + timedelta(days=7)).strftime("%Y-%m-%dT%H:%M"),
                "weekly_until": (first + timedelta(weeks=5)).date().isoformat(),
                "weekly_every": "2", "weekly_zone": "UTC",
            },
        )  # fmt: skip
    at = unix_ms(first) + HOUR
    turns = [rota.on_call(at + n * 7 * DAY) for n in range(6)]
    assert turns == [ada, bob] * 3
    assert RotaShift.objects.count() == 6


@pytest.mark.parametrize(("month", "day"), [(10, 12), (3, 15)])
def test_a_week_on_call_ends_where_the_next_begins_when_clocks_change(
    month: int, day: int, client: Client
) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    first = datetime(2026 if month == 10 else 2027, month, day, 9, tzinfo=berlin)
    rota = make_rota("Weeks")
    begins, ends = (
        each.astimezone(UTC).strftime("%Y-%m-%dT%H:%M") for each in (first, first + 7 * ONE_DAY)
    )
    typed = {
        "who": str(make_user("admin").pk), "begins": begins, "ends": ends,
        "weekly_until": (first + 21 * ONE_DAY).date().isoformat(),
        "weekly_zone": "Europe/Berlin",
    }  # fmt: skip
    assert client.post(f"/notifications/rotas/{rota.pk}/add/", typed).status_code == 302
    shifts = list(RotaShift.objects.order_by("begins_at"))
    nine = [unix_ms(first + n * 7 * ONE_DAY) for n in range(5)]
    assert [(each.begins_at, each.ends_at) for each in shifts] == [*pairwise(nine)]
