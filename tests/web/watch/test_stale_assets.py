"""Stale assets: what a row tells of its last report, counted and listed by ranges of an index."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test import Client

from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.core.states.models import AssetState
from dashboard.core.states.rows import quarter_of
from dashboard.watch.bulk import forms
from dashboard.watch.bulk.forms import Reason
from dashboard.watch.bulk.models import Run
from domain.records import Report
from support.web.world import World

pytestmark = pytest.mark.django_db

HOUR = 3_600_000
MINUTE = 60_000


def names(reason: Reason, age: int, now: int, scenario: str = "attack") -> list[str]:
    page = forms.stale_page(scenarios()[scenario], reason, age, now)
    total = forms.count_stale(scenarios()[scenario], reason, age, now)
    assert total.n == len(page.rows)
    return [line.asset for line in page.rows]


def test_what_each_reason_finds(world: World) -> None:
    world.report("old", "clear")
    world.report("kept", "received", "desk", scenario="orders")
    world.command("set", "pinned", state="clear")
    world.later(2 * HOUR)
    world.report("new", "clear")
    world.report("fresh", "received", "desk", scenario="orders")
    world.command("set", "lately", state="clear")
    world.write()
    now = world.bus._clock()
    assert set(names("silent", HOUR, now)) == {"old", "pinned"}  # nobody ever reported on that
    assert names("silent", 3 * HOUR, now) == []
    assert set(names("voteless", HOUR, now)) == {"old", "pinned", "lately"}
    assert names("pinned", HOUR, now) == ["pinned"]
    assert names("silent", HOUR, now, "orders") == ["kept"]  # its votes do not expire
    assert names("voteless", HOUR, now, "orders") == []


def test_a_silent_agent_tells_when_it_last_reported(world: World) -> None:
    world.report("a", "clear", "waf-1")
    world.later(30_000)
    world.report("a", "clear", "waf-2")
    world.later(70_000)  # the first has fallen silent
    world.write()
    line = forms.stale_page(scenarios()["attack"], "silent", 0, world.bus._clock()).rows[0]
    assert (line.agents, line.reported_at) == (1, line.record.votes[1].time)
    world.later(60_000)
    world.write()
    line = forms.stale_page(scenarios()["attack"], "voteless", HOUR, world.bus._clock()).rows[0]
    first, second = line.record.votes
    assert None not in (first.silent, second.silent)
    assert (line.agents, line.reported_at, line.last_known) == (0, None, second.time)


def test_a_users_vote_is_no_report(world: World) -> None:
    world.command("vote", "a", state="clear")
    world.write()
    assert AssetState.objects.get().reported_at is None
    assert names("voteless", HOUR, now_ms()) == ["a"]


def test_page_after_page_until_there_is_none(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forms, "PAGE", 2)
    for n in range(3):
        world.report(f"expired-{n}", "clear")
    world.later(20 * MINUTE)
    world.job.put("attack", Report("silent", "waf-1", "clear"))
    world.write()
    earlier = now_ms() - 3 * HOUR
    rows = AssetState.objects.filter(asset="silent")
    rows.update(reported_at=earlier, reported_in=quarter_of(earlier))
    monkeypatch.setattr("dashboard.watch.bulk.views.now_ms", lambda: now_ms() + 4 * HOUR)
    shown, address = [], "/stale/?why=silent&n=2&unit=hours"
    while address:
        body = client.get(address).content.decode()
        shown += re.findall(r'name="asset" value="([^"]+)"', body)
        after = re.search(r'href="(\?[^"]+after=[^"]+)"', body)
        address = f"/stale/{after[1]}".replace("&amp;", "&") if after else ""
    assert sorted(shown) == ["expired-0", "expired-1", "expired-2", "silent"]


def test_chosen_and_all_are_reviewed_to_be_purged(world: World, client: Client) -> None:
    for n in range(3):
        world.report(f"old-{n}", "clear")
    world.later(2 * HOUR)
    world.report("new", "clear")
    world.write()
    asked = {"scenario": "attack", "why": "voteless", "n": "1", "unit": "hours", "kind": "purge"}
    asked |= {"reason": "gone for good", "unchanged": "on"}
    chosen = client.post("/bulk/review/", {**asked, "by": "names", "asset": ["old-0", "old-2"]})
    every = client.post("/bulk/review/", {**asked, "by": "stale", "asset": ["old-0"]})
    assert (chosen.status_code, every.status_code) == (302, 302)
    runs = {run.chosen: set(run.items.values_list("asset", flat=True)) for run in Run.objects.all()}
    assert runs == {
        "2 by name": {"old-0", "old-2"},
        "no live vote": {"old-0", "old-1", "old-2"},
    }


def test_without_a_reason_the_form_is_shown_with_what_was_chosen(
    world: World, client: Client
) -> None:
    asked = {"scenario": "attack", "kind": "purge", "by": "names", "asset": ["a"], "reason": ""}
    response = client.post("/bulk/review/", asked)
    assert response.status_code == 422
    assert ">a</textarea>" in response.content.decode().replace(">\na", ">a")


def test_where_nothing_is_stale_it_says_so(world: World, client: Client) -> None:
    body = client.get("/stale/").content.decode()
    assert "No site on this board matches" in body
    assert client.get("/stale/?n=0").status_code == 422


def test_it_is_read_by_an_index(world: World) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("SQLite's plan")
    for reason in ("silent", "voteless"):
        for each in forms.stale_ranges(scenarios()["attack"], reason, HOUR, now_ms()):
            index = "voteless" if each.order.column == "voteless_in" else "last_reports"
            assert index in each.rows.order_by(each.order.column, "pk")[:100].explain()
            assert index in each.rows.order_by().values("pk")[:9].explain()
    (pinned,) = forms.stale_ranges(scenarios()["attack"], "pinned", HOUR, now_ms())
    assert "overrides" in pinned.rows.explain()
