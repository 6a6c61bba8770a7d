"""Recounts: asked for, followed, taken in, and held against the hours that are summed up."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.test import Client
from query_results import asked, bring, heard_of, tell
from world import World

from dashboard.core.kafka_gateway import Gateway
from dashboard.core.times import HOUR_MS, now_ms, utc
from dashboard.maintenance.models import ALL, LISTED, Window, WindowAsset
from dashboard.recounts import models as recounts
from dashboard.recounts.models import CountedHour, Recount
from dashboard.recounts.queries import MOST_EXCLUDED, excluded
from dashboard.summaries.models import Gap, HourRow
from wire.batch_query import Recount as Wanted
from wire.batch_query import Recounted, RecountTotals, SummedHour, parameters_of
from wire.job import Answer, Step

pytestmark = [pytest.mark.django_db, pytest.mark.role("admin")]

NOON = now_ms() // HOUR_MS * HOUR_MS - 6 * HOUR_MS


def text_of(at: int) -> str:
    """A time as the form takes it."""
    return utc(at)[:16].replace(" ", "T")


def request(client: Client, **fields: Any) -> Any:
    times = {"since": text_of(NOON), "until": text_of(NOON + 3 * HOUR_MS)}
    return client.post("/summary/recounts/run/", {"scenario": "attack", **times, **fields})


def totals(since: int, until: int) -> RecountTotals:
    return RecountTotals(since, until, {0: (0, 9)}, {}, 9, 2, 1, 1, "kernel", 5)


def summed(begin: int, good: int) -> None:
    """An hour as the worker has it."""
    HourRow.objects.create(
        scenario="attack", begin=begin, end=begin + HOUR_MS, day=1, slot=1, present=1, good=good,
        bad=5, unconfirmed=0, maintenance=0, incidents=1, false_alarms=0,
    )  # fmt: skip


def test_a_recount_is_asked_for_followed_and_compared(world: World, client: Client):
    heard_of(world)
    assert "Nothing yet" in client.get("/summary/recounts/").content.decode()
    answer = request(client)
    row = Recount.objects.get()
    assert answer.url == f"/summary/recounts/{row.pk}/"
    control = asked(world.gateway)[-1]
    wanted = parameters_of(control)
    assert wanted == Wanted("attack", NOON, NOON + 3 * HOUR_MS, "UTC")

    step = Step(1, 2, "records")
    tell(world, Answer(str(row.pk), "recount", "accepted", step=step))
    assert "records" in client.get(answer.url).content.decode()
    summed(NOON, good=7)
    summed(NOON + HOUR_MS, good=8)
    hours = [SummedHour(NOON + n * HOUR_MS, 7, 5, 0, 0, 1) for n in range(3)]
    end = totals(NOON, NOON + 3 * HOUR_MS)
    tell(world, Answer(str(row.pk), "recount", "done", "9 records"))
    bring(
        world,
        Recounted(str(row.pk), 0, hours),
        Recounted(str(row.pk), 1, last=True, totals=end),
    )
    page = client.get(answer.url).content.decode()
    assert "1 of 2" in page
    assert "1 more are not summed up" in page
    found = client.get(answer.url).context["comparison"]
    assert [(kind.what, kind.logged, kind.difference) for kind in found.kinds[:2]] == [
        ("Good", 14, -1),
        ("Bad", 10, 0),
    ]
    assert [(each.begin, each.differences[0]) for each in found.different] == [(NOON + HOUR_MS, -1)]
    HourRow.objects.filter(good=8).update(good=7)
    assert "All 2 hours agree" in " ".join(client.get(answer.url).content.decode().split())
    HourRow.objects.filter(begin=NOON).update(good=3)  # as the job was silent for a part of it
    Gap.objects.create(scenario="attack", begin=NOON - HOUR_MS, end=NOON + 1)
    found = client.get(answer.url).context["comparison"]
    assert (found.hours, found.missing, found.different) == (1, 2, [])


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"since": ""}, "Expected a time, for instance"),
        ({"since": "2020-01-01T00:00"}, "31 days at the most"),
        ({"until": "2100-01-01T00:00"}, "Expected a time that is past"),
        ({"scenario": "none"}, "Select a valid choice"),
        ({"since": "soon"}, "Expected a day and a time"),
    ],
)
def test_what_cannot_be_counted_is_said_and_kept(
    world: World, client: Client, fields: dict[str, str], text: str
):
    heard_of(world)
    answer = request(client, **fields)
    assert answer.status_code == 422
    assert text in answer.content.decode()
    assert not Recount.objects.exists()


def test_without_a_job_nothing_is_asked(gateway: Gateway, client: Client):
    answer = request(client)
    assert answer.status_code == 409
    assert "Is it running?" in answer.content.decode()


def test_maintenance_goes_along(world: World):
    common = {"created_at": 0, "scenario": "attack", "planned_end": NOON + 900}
    everywhere = Window.objects.create(covers=ALL, begin=NOON - 5, end=NOON + 10, **common)
    listed = Window.objects.create(covers=LISTED, begin=NOON + 5, end=NOON + 20, **common)
    WindowAsset.objects.create(window=listed, scenario="attack", asset="shop")
    assert everywhere.excluded
    assert excluded("attack", NOON, NOON + 15) == {
        "": [(NOON, NOON + 10)],
        "shop": [(NOON, NOON + 15)],
    }


def test_more_maintenance_than_a_request_takes_is_refused(world: World, client: Client):
    heard_of(world)
    window = Window.objects.create(
        covers=LISTED, begin=NOON, end=NOON + 9, created_at=0, scenario="attack", planned_end=1
    )
    WindowAsset.objects.bulk_create(
        WindowAsset(window=window, scenario="attack", asset=f"a{n}")
        for n in range(MOST_EXCLUDED + 1)
    )
    answer = request(client)
    assert answer.status_code == 422
    assert "take less time" in answer.content.decode()


def test_a_result_that_nobody_asked_for_here_is_left(world: World):
    bring(world, Recounted(str(uuid.uuid4()), 0, [SummedHour(NOON, 1, 0, 0, 0, 0)]))
    assert not CountedHour.objects.exists()


def test_old_ones_go(world: World, client: Client):
    heard_of(world)
    request(client)
    recounts.KEPT[0].apply(now_ms() + recounts.KEPT_MS + 1)
    assert not Recount.objects.exists()


@pytest.mark.role("operator")
def test_only_admins_count(world: World, client: Client):
    assert client.get("/summary/recounts/").status_code == 403
    assert request(client).status_code == 403
