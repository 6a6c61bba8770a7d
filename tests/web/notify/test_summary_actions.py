"""What people did in a period: the overrides and bulk runs of a summary."""

from __future__ import annotations

import re
from datetime import date
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import Client

from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import DAY_MS, HOUR_MS
from dashboard.notify.summaries import raw_history
from dashboard.notify.summaries.calculation import summary
from dashboard.notify.summaries.figures import BulkRun, OverrideSpan, Question
from dashboard.notify.summaries.models import Presence, Progress, ReportingZone
from dashboard.watch.bulk.models import Item, Run
from dashboard.watch.commands.models import Command
from domain.history.periods import Span, containing
from support.web.clocks import at
from support.web.summaries import sum_up

pytestmark = [pytest.mark.django_db, pytest.mark.role("manager")]

MONDAY = at("2026-03-02")
WEEK = Span(MONDAY, MONDAY + 7 * DAY_MS)
PAGE = "/summary/?period=week&date=2026-03-04"
PIN = {
    "scenario": "attack", "asset": "shop", "kind": "set", "state": "clear", "username": "ada",
    "source": "web", "status": "answered", "outcome": "applied", "created_at": MONDAY,
}  # fmt: skip
MANY = {
    "scenario": "attack", "kind": "set", "state": "suspicious", "reason": "a drill",
    "chosen": "all", "username": "ada", "created_at": MONDAY, "started_at": MONDAY,
}  # fmt: skip


def pinned(**changes: Any) -> Command:
    return Command.objects.create(id=uuid4(), **PIN | changes)


def ran(**changes: Any) -> Run:
    return Run.objects.create(id=uuid4(), **MANY | changes)


def other_scenario() -> str:
    return next(name for name in scenarios() if name != "attack")


def assets_pinned(*names: str) -> list[str]:
    return [each.asset for each in raw_history.overrides(names or ["attack"], WEEK)]


def test_an_override_says_who_why_when_and_until():
    until = MONDAY + 2 * HOUR_MS
    pinned(reason="maintenance", until=until, created_at=MONDAY + HOUR_MS)
    assert raw_history.overrides(["attack"], WEEK) == (
        OverrideSpan(MONDAY + HOUR_MS, "attack", "shop", "clear", "ada", "maintenance", until),
    )


@pytest.mark.parametrize("kind", ["release", "set", "purge"])
def test_a_pin_that_another_command_ended_says_when(kind: str):
    until = MONDAY + 2 * HOUR_MS
    at, other = MONDAY + HOUR_MS, {"kind": kind, "state": "", "created_at": MONDAY + HOUR_MS}
    for changes in (
        {"asset": "bank"},
        {"scenario": other_scenario()},
        {"outcome": "refused: no override"},
        {"created_at": MONDAY - HOUR_MS},
        {"created_at": until},
    ):
        pinned(**other | changes)
    pinned(until=until)
    pin = raw_history.overrides(["attack"], WEEK)[-1]
    assert (pin.until, pin.ended) == (until, None)
    pinned(**other)
    pinned(**other | {"created_at": at + 1})
    pin = raw_history.overrides(["attack"], WEEK)[-1]
    assert (pin.asset, pin.until, pin.ended) == ("shop", until, at)


def test_a_pin_that_a_bulk_run_released_says_when():
    pinned()
    run = ran(kind="release", state="")
    item = {"run": run, "asset": "shop", "command": "c", "answered_at": MONDAY + HOUR_MS}
    Item.objects.create(**item, number=0, outcome="refused")
    assert raw_history.overrides(["attack"], WEEK)[0].ended is None
    Item.objects.create(**item, number=1, outcome="applied")
    assert raw_history.overrides(["attack"], WEEK)[0].ended == MONDAY + HOUR_MS


def test_overrides_come_newest_first_and_from_within_the_period():
    for asset, created in {
        "before": WEEK.begin - 1, "first": WEEK.begin, "middle": WEEK.begin + DAY_MS,
        "last": WEEK.end - 1, "after": WEEK.end,
    }.items():  # fmt: skip
        pinned(asset=asset, created_at=created)
    assert assets_pinned() == ["last", "middle", "first"]
    assert raw_history.overrides_total(["attack"], WEEK) == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "vote"},
        {"kind": "release", "state": ""},
        {"outcome": "refused: unknown state"},
        {"outcome": "no-change"},
        {"status": "sent", "outcome": ""},
        {"status": "unsent", "outcome": "the broker does not answer"},
    ],
)
def test_what_pinned_nothing_is_no_override(changes: dict[str, str]):
    pinned(**changes)
    assert raw_history.overrides(["attack"], WEEK) == ()
    assert raw_history.overrides_total(["attack"], WEEK) == 0


def test_overrides_are_of_the_scenarios_that_are_asked_for():
    other = other_scenario()
    pinned()
    pinned(scenario=other, asset="door")
    assert assets_pinned() == ["shop"]
    assert assets_pinned(other) == ["door"]
    assert sorted(assets_pinned("attack", other)) == ["door", "shop"]
    assert raw_history.overrides_total([other], WEEK) == 1


def test_more_overrides_than_are_listed_are_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(raw_history, "MOST_ACTIONS", 2)
    for hour in range(3):
        pinned(asset=f"site-{hour}", created_at=MONDAY + hour * HOUR_MS)
    assert assets_pinned() == ["site-2", "site-1"]
    assert raw_history.overrides_total(["attack"], WEEK) == 3


def outcomes(run: Run, *outcomes: str) -> None:
    for number, outcome in enumerate(outcomes):
        Item.objects.create(
            run=run, number=number, asset=f"site-{number}", outcome=outcome, command="c"
        )


def test_a_run_says_in_whose_name_why_and_how_many_it_reached():
    """As it goes on by its assets, ended by its tallies."""
    senders = [
        {"name": "ada", "since": MONDAY, "first": 0},
        {"name": "grace", "since": MONDAY, "first": 2},
    ]
    running = ran(matched=4, senders=senders)
    outcomes(running, "applied", "applied", "refused", "ready")
    assert raw_history.runs(["attack"], WEEK) == (
        BulkRun(
            str(running.pk), MONDAY, "attack", "set", "suspicious", "grace", "a drill", 4, 2
        ),
    )  # fmt: skip
    Run.objects.update(tallies={"applied": 3, "refused": 1}, ended_at=MONDAY + HOUR_MS)
    assert raw_history.runs(["attack"], WEEK)[0].applied == 3


def test_runs_come_newest_first_by_their_start_within_the_period():
    """When a run was prepared does not matter; one that never started is none."""
    days = {"before": -1, "first": 0, "second": 2 * DAY_MS, "after": 7 * DAY_MS}
    for why, after in days.items():
        ran(reason=why, started_at=MONDAY + after)
    ran(reason="prepared before", created_at=MONDAY - DAY_MS, started_at=MONDAY + DAY_MS)
    ran(reason="never started", started_at=None)
    reasons = [run.reason for run in raw_history.runs(["attack"], WEEK)]
    assert reasons == ["second", "prepared before", "first"]
    assert raw_history.runs_total(["attack"], WEEK) == 3


def test_runs_are_of_the_scenarios_that_are_asked_for(monkeypatch: pytest.MonkeyPatch):
    other = other_scenario()
    mine, theirs = ran(), ran(scenario=other, kind="purge", state="")
    assert [run.id for run in raw_history.runs(["attack"], WEEK)] == [str(mine.pk)]
    assert [run.id for run in raw_history.runs([other], WEEK)] == [str(theirs.pk)]
    monkeypatch.setattr(raw_history, "MOST_ACTIONS", 1)
    assert len(raw_history.runs(["attack", other], WEEK)) == 1
    assert raw_history.runs_total(["attack", other], WEEK) == 2


def test_a_summary_and_its_page_have_them(client: Client):
    for name in scenarios():
        Presence.objects.create(scenario=name, asset="shop", place="p", begin=MONDAY)
        Progress.objects.mark({name: MONDAY})
    sum_up(WEEK.end, *scenarios())
    pinned(reason="a <b>test</b>", state="under-attack", until=MONDAY + 2 * DAY_MS)
    pinned(kind="release", state="", created_at=MONDAY + 5_000)
    run = ran(senders=[{"name": "grace", "since": MONDAY, "first": 0}])
    report = summary(Question(("attack",), containing("week", date(2026, 3, 4))), WEEK.end)
    assert (report.overrides_total, report.runs_total) == (1, 1)
    assert [each.asset for each in report.overrides] == ["shop"]
    assert [UUID(each.id) for each in report.runs] == [run.pk]
    body = client.get(f"{PAGE}&scenario=attack").content.decode()
    assert "a &lt;b&gt;test&lt;/b&gt;" in body
    assert "<bdi>grace</bdi>" in body
    assert "<td><bdi>Under attack</bdi></td>" in body
    assert "Set to <bdi>Suspicious</bdi>" in body
    assert 'datetime="2026-03-02T00:00:05Z">2026-03-02 00:00:05 UTC</time>' in body
    assert "2026-03-04 00:00:00 UTC" not in body.partition("of-overrides")[2]
    assert f'href="/bulk/{run.pk}/"' in body
    of_other = client.get(f"{PAGE}&scenario={other_scenario()}").content.decode()
    assert "Nobody pinned a state." in of_other
    assert "<bdi>grace</bdi>" not in of_other


def test_its_times_are_in_the_zone_of_the_summary(client: Client):
    ReportingZone.objects.create(name="Asia/Tokyo")
    pinned(until=MONDAY + 2 * DAY_MS)
    body = client.get(f"{PAGE}&scenario=attack").content.decode()
    assert "times in Asia/Tokyo" in body
    assert "2026-03-02 09:00:00 JST</time>" in body
    assert "2026-03-04 09:00:00 JST</time>" in body
    assert not re.search(r"\d UTC<", body.partition("of-overrides")[2])


def test_a_period_without_assets_still_shows_what_people_did(client: Client):
    body = client.get(PAGE).content.decode()
    assert "Nothing to sum up" in body
    assert "overrides-title" not in body
    pinned(reason="before the first report")
    body = client.get(PAGE).content.decode()
    assert "Nothing to sum up" in body
    assert "before the first report" in body
    assert "Nobody sent one command to many assets." in body
