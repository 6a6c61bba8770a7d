"""When somebody last reported on a scenario: kept for good, by the broker's clock, whatever is read
again."""

from __future__ import annotations

from typing import Any

import pytest

from dashboard.core.common.times import DAY_MS, HOUR_MS, now_ms
from dashboard.watch.agents import reports
from dashboard.watch.agents.findings import news
from dashboard.watch.agents.models import KEPT, Agent, LastReport
from support.web.heartbeats import heartbeat, materialise
from support.web.retention import apply_all
from support.web.world import World
from wire.job import Heartbeat, LatenessReport

pytestmark = pytest.mark.django_db


def beat(at: int, *agents: LatenessReport, **more: Any) -> Heartbeat:
    """A heartbeat of attack/0 that was sent at a time."""
    return heartbeat(at, **{"offset": at, "records": 9, "agents": agents} | more)


def last() -> dict[str, int]:
    return dict(LastReport.objects.values_list("scenario", "at"))


def test_a_report_is_kept_with_its_time_and_a_command_is_none(world: World) -> None:
    world.command("set", "mail", state="clear")
    world.write()
    assert last() == {}
    before = now_ms()
    world.report("shop", "clear")
    world.write()
    assert list(last()) == ["attack"]
    assert before - 1_000 <= last()["attack"] <= now_ms()


def test_heartbeats_with_records_alone_are_no_report(world: World) -> None:
    """So a rule's record looks, which the job reads at its start."""
    materialise(world, beat(now_ms()))
    assert last() == {}
    assert news(now_ms()).last == {}


def test_reports_that_leave_no_record_are_reports(world: World) -> None:
    now = now_ms()
    for each in (
        LatenessReport("waf-1", stale=1),
        LatenessReport("waf-1", refused=2),
        LatenessReport("", late=1),
    ):
        now += 1
        materialise(world, beat(now, each))
        assert last() == {"attack": now}, each
    materialise(world, beat(now + 1, LatenessReport("user:ada", late=1)))
    assert last() == {"attack": now}, "an operator's vote is no agent's"


def test_a_clock_that_is_ahead_does_not_say_when_it_was(world: World) -> None:
    now = now_ms()
    materialise(world, beat(now, LatenessReport("waf-1", late=1), log_time=now + HOUR_MS))
    assert last() == {"attack": now}


def test_what_is_read_again_changes_nothing(world: World) -> None:
    reports.keep_last_reports({"attack": 7_000, "orders": 5_000})
    reports.keep_last_reports({"attack": 6_000}, {"attack": 6_500, "orders": 5_001})
    assert last() == {"attack": 7_000, "orders": 5_001}


def test_it_outlives_every_agent(world: World) -> None:
    world.report("192.0.2.1", "challenge", scenario="clients")
    world.write()
    at = last()["clients"]
    Agent.objects.update(votes=0)
    apply_all(KEPT, now_ms() + 400 * DAY_MS)
    assert not Agent.objects.exists()
    assert last() == {"clients": at}
    assert news(now_ms()).last["clients"].at == at
    assert news(now_ms()).last["clients"].off == "login-guard"


def test_of_several_boards_those_are_found_on_which_nobody_reported(world: World) -> None:
    reports.keep_last_reports({"clients": 5_000})
    assert LastReport.objects.missing({"clients", "customers"}) == {"customers"}
    assert LastReport.objects.missing([]) == set()
