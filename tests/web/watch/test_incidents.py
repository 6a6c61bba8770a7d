"""Incidents: begun and ended by what the job says, listed, shown with their timeline, reported."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import MINUTE_MS, now_ms
from dashboard.watch.annotations import acknowledgements
from dashboard.watch.annotations.models import Label
from dashboard.watch.incidents.models import Incident
from support.web.web_fixtures import make_user
from support.web.world import World

pytestmark = pytest.mark.django_db


def calm(world: World, asset: str) -> None:
    """Every agent says that it is over, for as long as the hold wants it."""
    world.report(asset, "clear")
    world.later(5 * MINUTE_MS)
    world.report(asset, "clear")
    world.write()


@pytest.fixture
def attacked(world: World) -> World:
    """A site under attack, one that was, and one that never was."""
    world.report("past", "suspicious")
    world.report("past", "under-attack")
    world.report("fine", "clear")
    world.write()
    world.report("shop", "under-attack")
    world.write()
    calm(world, "past")
    return world


def states(client: Client, query: str = "") -> list[str]:
    """The assets of the list's rows, newest first."""
    page = client.get(f"/incidents/by-asset/{query}")
    assert page.status_code == 200
    return [each.asset for each in page.context["page"].rows]


def test_an_incident_lasts_from_the_first_bad_state_to_the_next_good_one(attacked: World):
    past, shop = Incident.objects.real().order_by("began_at")
    assert (past.asset, past.worst, past.changes) == ("past", "under-attack", past.changes)
    assert past.ended_at is not None
    assert past.ended_at > past.began_at
    assert (shop.asset, shop.state, shop.ended_at) == ("shop", "under-attack", None)


def test_a_purge_ends_it(attacked: World):
    attacked.command("purge", "shop")
    attacked.write()
    assert Incident.objects.get(asset="shop").ended_at is not None


def test_who_acknowledges_first_is_kept(attacked: World, user: User):
    attack = scenarios()["attack"]
    for who in (user, make_user("admin")):
        acknowledgements.acknowledge(attack, ["shop"], who, "on it", now_ms() + MINUTE_MS, now_ms())
    shop = Incident.objects.get(asset="shop")
    assert shop.acknowledged_by == user.username
    assert shop.acknowledged_at is not None
    assert shop.acknowledged_at >= shop.began_at


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["shop", "past"]),
        ("?status=open", ["shop"]),
        ("?status=ended", ["past"]),
        ("?q=ho", ["shop"]),
        ("?scenario=attack&worst=under-attack", ["shop", "past"]),
        ("?start=2020-01-01T00:00&end=2020-01-02T00:00", []),
        ("?scenario=connectivity", []),
    ],
)
def test_the_list_is_filtered(attacked: World, client: Client, query: str, expected: list[str]):
    assert states(client, query) == expected


def test_the_list_says_what_to_expect_while_it_is_empty(world: World, client: Client):
    assert "No incident yet" in client.get("/incidents/by-asset/").content.decode()


def test_a_wrong_filter_is_told_and_kept(attacked: World, client: Client):
    page = client.get("/incidents/by-asset/?status=lost&q=shop")
    assert page.status_code == 422
    body = html.unescape(page.content.decode())
    assert 'value="shop status:lost"' in body
    assert "status: expected open, unacknowledged, acknowledged or ended" in body
    assert client.get("/incidents/by-asset/by-asset.csv?status=lost").status_code == 422


def test_a_file_has_them_all(attacked: World, client: Client):
    answer: Any = client.get("/incidents/by-asset/by-asset.csv")
    lines = b"".join(answer.streaming_content).decode().splitlines()
    assert lines[0].startswith("scenario,asset,worst,state,began_at")
    assert len(lines) == 1 + Incident.objects.real().count()


def test_its_page_and_its_report_have_the_timeline(attacked: World, client: Client, user: User):
    row = Incident.objects.get(asset="shop")
    acknowledgements.write_note("attack", "shop", user, "called *the* customer", now_ms())
    page = client.get(row.get_absolute_url()).content.decode()
    assert "called *the* customer" in page
    assert "Under attack" in page
    report = client.get(f"{row.get_absolute_url()}report.md")
    assert report["Content-Type"].startswith("text/markdown")
    lines = report.content.decode()
    assert re.match(r"# INC-\d+: 2 sites: Under attack, ", lines)
    assert r"shop, note by operator: called \*the\* customer" in lines
    assert "| Ended | ongoing |" in lines


def test_a_reminder_in_the_timeline_is_no_change(attacked: World, client: Client):
    attacked.later(60 * MINUTE_MS)
    calm(attacked, "shop")
    row = Incident.objects.get(asset="shop")
    assert (
        "still **Under attack**"
        in client.get(f"{row.get_absolute_url()}report.md").content.decode()
    )


def test_an_incident_that_nobody_had_is_not_found(world: World, client: Client):
    assert client.get("/incidents/INC-4711/").status_code == 404
    assert client.get("/incidents/INC-4711/report.md").status_code == 404


# ---- by REST --------------------------------------------------------------------------------


def test_rest_lists_them_and_tells_one_with_its_timeline(attacked: World, client: Client):
    first = client.get("/api/v1/incidents/assets?limit=1").json()
    assert [item["asset"] for item in first["items"]] == ["shop"]
    rest = client.get(f"/api/v1/incidents/assets?before={first['next']}").json()
    assert [item["asset"] for item in rest["items"]] == ["past"]
    assert rest["next"] is None
    (past,) = rest["items"]
    assert past["duration_ms"] == past["ended_at"] - past["began_at"]
    incident = client.get(f"/api/v1/incidents/{past['case_id']}").json()
    changes = [moment for moment in incident["timeline"] if moment["kind"] == "change"]
    states = [moment["state"] for moment in changes if moment["asset"] == "past"]
    assert states[-1] == "clear"
    assert len(states) == past["changes"] + 1


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("incidents?status=lost", 422),
        ("incidents?scenario=nope", 404),
        ("incidents/4711", 404),
        ("incidents/99999999999999999999", 404),
        ("incidents/shop", 422),
    ],
)
def test_rest_refuses_what_is_no_filter(attacked: World, client: Client, path: str, status: int):
    assert client.get(f"/api/v1/{path}").status_code == status


# ---- grouped by a label ---------------------------------------------------------------------

MINUTE = MINUTE_MS
BASE = 1_760_000_000_000


def had(asset: str, begin: int, end: int | None, **more: Any) -> Incident:
    """An incident between two minutes after BASE."""
    ended_at = None if end is None else BASE + end * MINUTE
    fields = {"state": "suspicious", "worst": "suspicious"} | more
    return Incident.objects.create(
        scenario="attack", asset=asset, place=f"{asset}{begin}", began_at=BASE + begin * MINUTE,
        ended_at=ended_at, **fields,
    )  # fmt: skip


def of_customer(**assets: str) -> None:
    for asset, value in assets.items():
        Label.objects.create(
            scenario="attack", asset=asset, key="customer", value=value, source="person",
            name="x", at=1,
        )  # fmt: skip


@pytest.fixture
def customers() -> list[Incident]:
    """Acme's incidents overlap, touch, and come later once more; another's and nobody's."""
    of_customer(a="Acme", b="Acme", c="Acme", d="Other GmbH")
    return [
        had("a", 0, 10, acknowledged_at=BASE + 4 * MINUTE, acknowledged_by="ada"),
        had("b", 5, 20, worst="under-attack"),
        had("c", 20, 30),
        had("a", 40, None),
        had("d", 1, 2),
        had("nobody", 0, 50),
    ]


GROUPS = "/incidents/groups/?scenario=attack&label=customer"


def grouped(client: Client, query: str = "") -> list[tuple[str, int, int | None, int, int]]:
    page = client.get(GROUPS + query)
    assert page.status_code == 200
    return [
        (
            each.value, (each.began_at - BASE) // MINUTE,
            each.ended_at and (each.ended_at - BASE) // MINUTE, each.assets, len(each.incidents),
        )
        for each in page.context["grouped"].groups
    ]  # fmt: skip


def test_a_group_lasts_as_long_as_one_of_its_assets_is_in_trouble(customers: Any, client: Client):
    assert grouped(client) == [
        ("Acme", 40, None, 1, 1),
        ("Other GmbH", 1, 2, 1, 1),
        ("Acme", 0, 30, 3, 3),
    ]
    assert grouped(client, "&value=Other+GmbH") == [("Other GmbH", 1, 2, 1, 1)]
    assert grouped(client, "&start=2025-10-09T09:31") == [("Acme", 40, None, 1, 1)]


@pytest.mark.parametrize("member", [0, 1, 2])
def test_every_member_leads_to_the_same_group(customers: Any, client: Client, member: int):
    page = client.get(f"/incidents/{customers[member].pk}/by/customer/")
    group = page.context["group"]
    assert [row.pk for row in group.incidents] == [row.pk for row in customers[:3]]
    assert (group.worst, group.unanswered) == ("under-attack", "4 m 00 s")
    assert f"/incidents/{customers[0].pk}/by/customer/report.md" in page.content.decode()


def test_the_report_of_a_group_has_its_incidents(customers: Any, client: Client):
    report = client.get(f"/incidents/{customers[1].pk}/by/customer/report.md").content.decode()
    assert report.startswith("# customer Acme: Under attack, 2025-10-09 08:53:20 UTC")
    assert "| Lasted | 30 m 00 s |" in report
    assert report.count("| Suspicious |") == 2
    assert "## Cause" in report


def test_an_asset_without_the_label_is_in_no_group(customers: Any, client: Client):
    assert client.get(f"/incidents/{customers[5].pk}/by/customer/").status_code == 404
    assert client.get(f"/incidents/{customers[0].pk}/by/tier/").status_code == 404


def test_without_labels_the_page_says_where_they_come_from(world: World, client: Client):
    assert "No labels yet" in client.get("/incidents/groups/").content.decode()


def test_groups_as_a_file(customers: Any, client: Client):
    answer: Any = client.get(GROUPS.replace("?", "groups.csv?"))
    lines = b"".join(answer.streaming_content).decode().splitlines()
    assert len(lines) == 4
    times = "2025-10-09T08:53:20.000Z,2025-10-09T09:23:20.000Z"
    assert lines[3].startswith(f"attack,customer,Acme,{times},1800000,3,3,")


# ---- what a figure links to -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("label=customer:Acme", ["a", "c", "b", "a"]),
        ("label=customer:", ["nobody"]),
        ("asset=b", ["b"]),
        ("status=acknowledged", ["a"]),
        ("scenario=attack&scenario=orders&q=d", ["d", "nobody"]),
        ("start=2025-10-09T08:56&end=2025-10-09T09:14", ["c", "b", "nobody", "a"]),
        ("start=2025-10-09T08:56&end=2025-10-09T09:14&of_time=began", ["c", "b"]),
        ("start=2025-10-09T08:56&end=2025-10-09T09:14&of_time=ended", ["b", "a"]),
        ("flapping=on", ["a"]),
    ],
)
def test_the_list_is_narrowed_to_what_a_figure_counts(
    customers: Any, client: Client, query: str, expected: list[str]
):
    had("a", 54, 55)  # ends 15 minutes after the one before it: too late to flap
    if query != "flapping=on":
        Incident.objects.filter(place="a54").delete()
    else:
        Incident.objects.filter(place="a40").update(ended_at=BASE + 40 * MINUTE + 1)
    assert states(client, f"?{query}") == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-a", ["c", "b", "d", "nobody"]),
        ("ack:ada", ["a"]),
        ("-ack:ada", ["a", "c", "b", "d", "nobody"]),
        ("ack:no", ["a", "c", "b", "d", "nobody"]),
        ("ack:yes", ["a"]),
        ("ack:*", ["a"]),
        ("customer:A*", ["a", "c", "b", "a"]),
        ("-customer:Acme", ["d", "nobody"]),
        ("-customer:*", ["nobody"]),
        ("-ended:>2025-10-09T09:10", ["a", "d", "a"]),
        ("during:>2025-10-09T09:12 during:<2025-10-09T09:13", ["b", "nobody"]),
        ("worst:under-attack,suspicious -worst:suspicious", ["b"]),
        ("status:open,acknowledged", ["a", "a"]),
    ],
)
def test_a_line_finds_what_it_says(customers: Any, client: Client, line: str, expected: list[str]):
    page = client.get("/incidents/by-asset/", {"q": line})
    assert [each.asset for each in page.context["page"].rows] == expected


def test_a_label_is_told_how_it_is_written(customers: Any, client: Client):
    for query in ("label=tier:gold", "q=tier:gold"):
        page = client.get(f"/incidents/by-asset/?{query}")
        assert page.status_code == 422
        assert "there is no key tier: expected status, scenario" in page.content.decode()


def test_a_time_has_its_count(customers: Any, client: Client):
    page = client.get("/incidents/by-asset/?start=2025-10-09T08:50").content.decode()
    assert re.search(r"6 incidents of 5\s+assets", page)
