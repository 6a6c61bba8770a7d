"""Reports that came too late: taken in once, summed up by agent, and said why; clocks ahead."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest
from django.test import Client

from dashboard.board.live.live_view import live_view
from dashboard.core.common.scenarios import scenarios, topics
from dashboard.core.common.times import HOUR_MS, now_ms, span
from dashboard.core.job.models import BucketStatus
from dashboard.core.states.models import EventCount, SinkOffset
from dashboard.watch.agents import models
from dashboard.watch.agents.models import Agent, AgentHour, LateHour, LateMark, LateMinute
from dashboard.watch.agents.reports import (
    KINDS,
    NONE,
    Late,
    LatePeriod,
    clock_now,
    lately,
    of_the_day,
    reason,
)
from dashboard.watch.agents.statistics import listed, one, walk
from domain.records import Leave, Report
from support.web.heartbeats import heartbeat, materialise
from support.web.pages import text_of
from support.web.retention import apply_all
from support.web.world import World
from wire.job import ClockBehind, Heartbeat, LatenessReport, QueryReport, encode

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("stopped_clock")]

MINUTE = 60_000


def beat(offset: int, *agents: LatenessReport, **more: Any) -> Heartbeat:
    """A heartbeat of attack/0 at an offset."""
    sums = {
        kind: sum(getattr(each, kind) for each in agents) for kind in ("stale", "late", "silent")
    }
    fields = {"offset": offset, "records": 9, "agents": agents, **sums}
    return heartbeat(now_ms(), **fields | more)


def kept() -> dict[str, tuple[int, ...]]:
    """What is kept of the agents, over all hours."""
    rows = LateHour.objects.values_list("agent", "stale", "late", "silent", "rare", "age")
    return {agent: tuple(figures) for agent, *figures in rows}


def totals() -> dict[str, int]:
    rows = EventCount.objects.filter(topic="attack/0", name__in=KINDS)
    return dict(rows.values_list("name", "n"))


# ---- taken in -----------------------------------------------------------------------------------


def test_what_heartbeats_tell_is_added_up_by_agent_and_hour(world: World) -> None:
    waf = LatenessReport("waf-1", stale=3, silent=2, age=90_000)
    materialise(
        world,
        beat(10, waf, LatenessReport("waf-2", late=1)),
        beat(20, LatenessReport("waf-1", silent=1, rare=1, age=80_000)),
        beat(30, LatenessReport("", stale=7, age=70_000)),
    )
    materialise(world, beat(40, LatenessReport("waf-2", late=1, rare=4)))
    assert kept() == {
        "waf-1": (3, 0, 3, 1, 80_000),
        "waf-2": (0, 2, 0, 4, 0),
        "": (7, 0, 0, 0, 70_000),
    }
    assert totals() == {"stale": 10, "late": 2, "silent": 3}
    assert LateMark.objects.get().offset == 40


def test_what_was_refused_or_taken_in_doubt_is_added_up_too(world: World) -> None:
    now = now_ms() // MINUTE * MINUTE
    ahead = LatenessReport("waf-1", doubtful=2, ahead=370_000)
    materialise(
        world,
        beat(10, ahead, LatenessReport("waf-2", refused=3), log_time=now - MINUTE, at=now - MINUTE),
        beat(
            20, LatenessReport("waf-1", doubtful=1, detail=1, ahead=360_000), log_time=now, at=now
        ),
    )
    attack = scenarios()["attack"]
    late = of_the_day(attack, None, now)
    assert late["waf-1"] == Late(doubtful=3, detail=1, ahead=360_000, last=now)
    assert late["waf-2"] == Late(refused=3, last=now - MINUTE)
    recent = lately(attack, ["waf-1"], now)["waf-1"]
    assert recent.sums == late["waf-1"]
    minute = now // MINUTE
    assert recent.runs == {
        "doubtful": LatePeriod(minute - 1, minute, 2),
        "detail": LatePeriod(minute, minute, 1),
    }
    assert recent.run("doubtful").since == now - MINUTE
    assert totals() == {"refused": 3, "doubtful": 3, "detail": 1}


def test_what_reports_were_like_of_late_is_told_for_a_votes_lifetime(world: World) -> None:
    attack, at = scenarios()["attack"], now_ms()
    assert attack.vote_lifetime is not None
    materialise(world, beat(10, LatenessReport("waf-1", refused=1), log_time=at, at=at))
    end = at + attack.vote_lifetime
    assert lately(attack, None, end - MINUTE)
    assert not lately(attack, None, end + 2 * MINUTE)


@pytest.mark.parametrize("together", [True, False])
def test_a_heartbeat_that_is_told_again_is_counted_once(world: World, together: bool) -> None:
    first, second = (
        beat(10, LatenessReport("waf-1", stale=1, age=1)),
        beat(20, LatenessReport("waf-1", late=1)),
    )
    again = [beat(10, LatenessReport("waf-1", stale=1, age=1), epoch=2), beat(20, epoch=2)]
    runs: list[Iterable[Heartbeat]] = [[first, second], [first, second], again]
    if together:
        materialise(world, *(each for run in runs for each in run))
    else:
        for run in runs:
            materialise(world, *run)
    assert kept() == {"waf-1": (1, 1, 0, 0, 1)}
    assert totals() == {"stale": 1, "late": 1}
    assert BucketStatus.objects.get(bucket="attack/0").epoch == 2
    materialise(world, beat(30, LatenessReport("waf-1", stale=1, age=1), epoch=2))
    assert totals() == {"stale": 2, "late": 1}


def test_a_topic_that_is_read_again_is_counted_once(world: World) -> None:
    materialise(world, beat(10, LatenessReport("waf-1", stale=1, age=1)))
    SinkOffset.objects.update(next_offset=0)
    world.materialise()
    assert kept() == {"waf-1": (1, 0, 0, 0, 1)}


@pytest.mark.parametrize(
    "wrong",
    [
        LatenessReport("x" * 256, stale=1),
        LatenessReport("a\0b", stale=1),
        LatenessReport("a", stale=2**63),
    ],
)
def test_what_no_column_takes_is_refused_with_its_heartbeat(
    world: World, wrong: LatenessReport
) -> None:
    materialise(world, beat(10, wrong), beat(20, LatenessReport("waf-1", late=1)))
    assert kept() == {"waf-1": (0, 1, 0, 0, 0)}


def test_names_that_are_nobodys_are_left_out(world: World) -> None:
    materialise(
        world,
        beat(10, LatenessReport("user:olga", silent=1, age=9), LatenessReport("waf-1", late=1)),
    )
    assert kept() == {"waf-1": (0, 1, 0, 0, 0)}


def test_a_bucket_whose_clock_is_ahead_counts_in_the_hour_of_the_jobs_own(world: World) -> None:
    now = now_ms()
    materialise(world, beat(10, LatenessReport("waf-1", late=1), log_time=now + 23 * HOUR_MS))
    assert LateHour.objects.get().hour == now // HOUR_MS


def test_hours_are_forgotten_as_others_are() -> None:
    now = now_ms()
    oldest = (now - models.HOURS_KEPT_MS) // HOUR_MS
    for hour in (oldest - 1, oldest):
        fields = {"stale": 1, "late": 0, "silent": 0, "rare": 0, "age": 1, "last": 1}
        LateHour.objects.create(scenario="attack", agent="a", hour=hour, **fields)
        AgentHour.objects.create(scenario="attack", agent="a", hour=hour, records=1, changes=1)
    oldest_minute = (now - models.MINUTES_KEPT_MS) // MINUTE
    for minute in (oldest_minute - 1, oldest_minute):
        LateMinute.objects.create(scenario="attack", agent="a", minute=minute, **fields)
    assert apply_all(models.KEPT, now) == 3
    assert LateMinute.objects.get().minute == oldest_minute
    assert LateHour.objects.get().hour == AgentHour.objects.get().hour == oldest


# ---- why ----------------------------------------------------------------------------------------

NOW = 100 * HOUR_MS


@pytest.mark.parametrize(
    ("late", "clock", "seen", "says"),
    [
        (NONE, -400, NOW, ""),
        # its newest report is as old as those that were lost: so are all of them
        (Late(silent=9, age=240_000, last=NOW), -241_000, NOW, "clock behind by 4 min"),
        # dropped before any record told of it
        (Late(stale=9, age=7_200_000, last=NOW), None, 0, "clock behind by 2 h"),
        # since its clock went wrong no vote of its has been seen
        (Late(stale=9, age=7_200_000, last=NOW), -300, NOW - HOUR_MS, "clock behind by 2 h"),
        # its clock is right: it has sent what it had to keep
        (Late(silent=9, age=240_000, last=NOW - 2 * MINUTE), -300, NOW,
         "reports came 4 min late or more, as from a spool"),
        (Late(rare=3, last=NOW), -300, NOW, "reports too rarely: its votes expire in between"),
        (Late(rare=3, last=NOW), -50_000, NOW,
         "clock behind by 50 s, so its votes expire early"),
        (Late(late=3, last=NOW), -300, NOW, "reports came twice or out of order"),
    ],
)  # fmt: skip
def test_why_reports_come_too_late(late: Late, clock: int | None, seen: int, says: str) -> None:
    assert reason(late, clock_now(late, clock, seen)) == says


@pytest.mark.parametrize(
    ("ms", "says"),
    [(0, "0 s"), (90_000, "90 s"), (119_999, "119 s"), (240_000, "4 min"), (7_199_999, "119 min"),
     (23 * HOUR_MS, "23 h"), (47 * HOUR_MS, "47 h"), (72 * HOUR_MS, "3 days")],
)  # fmt: skip
def test_spans(ms: int, says: str) -> None:
    assert span(ms) == says


# ---- what the console shows ---------------------------------------------------------------------


def put(world: World, asset: str, agent: str, state: str, age: int) -> None:
    """A report that is so old when it is appended."""
    world.job.put("attack", Report(asset, agent, state, world.bus._clock() - age))


def test_an_agent_whose_clock_is_behind_is_told_from_one_that_is_right(
    world: World, client: Client
) -> None:
    attack = scenarios()["attack"]
    assert attack.vote_lifetime is not None
    behind = attack.vote_lifetime + 5 * MINUTE
    for at in range(3):
        put(world, f"shop-{at}", "right", "clear", 100)
        put(world, f"shop-{at}", "behind", "clear", behind)
    world.write()
    walk(now_ms())
    rows = {row.agent: row for row in listed(attack, {}, now_ms())[0]}
    assert rows["right"].late == NONE
    assert (rows["right"].why, rows["right"].off) == ("", "")
    assert (rows["behind"].late.silent, rows["behind"].votes) == (3, 0)
    assert rows["behind"].silent_on == 3
    assert rows["behind"].silent_since is not None
    assert rows["behind"].why == f"clock behind by {span(behind)}"
    assert rows["behind"].off == f"{span(behind)} behind"
    assert rows["right"].silent_since is None
    page = client.get("/agents/?scenario=attack").content.decode()
    said = f"Its reports come late: its clock is {span(behind)} behind"
    assert said in text_of(page)
    for name in ("status", "too late", "clock"):
        assert f'data-name="{name}"' in page
    own = text_of(client.get("/agents/attack/behind/").content.decode())
    assert said in own
    answer = client.get("/api/v1/scenarios/attack/agents")
    agents = {each["agent"]: each for each in answer.json()["items"]}
    assert answer.json()["known"] == 2
    assert agents["behind"]["late"] == {
        "stale": 0, "late": 0, "silent": 3, "rare": 0, "age_ms": agents["behind"]["late"]["age_ms"],
        "refused": 0, "doubtful": 0, "ahead_ms": None, "detail": 0, "forwarded": 0,
    }  # fmt: skip
    assert [fault["kind"] for fault in agents["behind"]["faults"]] == ["behind", "partly"]
    assert agents["right"]["faults"] == []
    assert agents["behind"]["late"]["age_ms"] >= behind
    assert agents["behind"]["clock_ms"] <= -behind
    assert agents["right"]["why"] == ""
    assert agents["right"]["late"]["age_ms"] is None


def test_an_agent_of_which_no_record_tells_is_listed_all_the_same(
    world: World, client: Client
) -> None:
    materialise(world, beat(10, LatenessReport("<b>lost</b>", stale=5, age=3 * HOUR_MS)))
    row = one(scenarios()["attack"], "<b>lost</b>", {}, now_ms())
    assert row is not None
    assert (row.last_seen, row.why) == (0, "clock behind by 3 h")
    page = client.get("/agents/?scenario=attack").content.decode()
    assert "&lt;b&gt;lost&lt;/b&gt;" in page
    assert "<b>lost" not in page
    assert client.get(row.url).status_code == 200
    assert "lost" not in client.get("/agents/?scenario=connectivity").content.decode()


def test_what_came_more_than_a_day_ago_is_not_told(world: World) -> None:
    long_ago = now_ms() - 25 * HOUR_MS
    materialise(
        world, beat(10, LatenessReport("waf-1", stale=5, age=9), log_time=long_ago, at=long_ago)
    )
    assert kept()
    assert of_the_day(scenarios()["attack"], None, now_ms()) == {}


def test_an_agent_that_left_has_no_silent_vote(world: World) -> None:
    world.report("shop", "clear", "waf-1")
    world.later(scenarios()["attack"].vote_lifetime or 0)
    world.write()
    walk(now_ms())
    assert Agent.objects.get(agent="waf-1").silent == 1
    world.job.leave("attack", Leave("shop", "waf-1"))
    world.write()
    walk(now_ms() + 1)
    agent = Agent.objects.get(agent="waf-1")
    assert (agent.silent, agent.silent_since, agent.votes) == (0, None, 0)


def test_a_time_from_a_clock_ahead_is_not_kept_for_ever(world: World) -> None:
    world.report("shop", "clear", "waf-1")
    world.write()
    Agent.objects.update(last_seen=now_ms() + 23 * HOUR_MS, gap=7_000)
    world.report("shop", "under-attack", "waf-1")
    world.write()
    agent = Agent.objects.get(agent="waf-1")
    assert agent.last_seen <= now_ms()
    assert agent.gap == 7_000


def test_metrics_count_what_came_too_late_was_refused_or_taken_in_doubt(
    world: World, client: Client
) -> None:
    agents = (
        LatenessReport("waf-1", stale=3, silent=2, late=1, age=9),
        LatenessReport("waf-2", refused=4, doubtful=5, detail=6),
        LatenessReport("", refused=1),
    )
    materialise(world, beat(10, *agents))
    said = client.get("/metrics").content.decode()
    numbers = {"stale": 3, "silent": 2, "late": 1, "refused": 5, "doubtful": 5, "detail": 6}
    for kind, n in numbers.items():
        labels = f'kind="{kind}",partition="0",scenario="attack"'
        assert f"tallyboard_late_reports_total{{{labels}}} {n}.0" in said


# ---- a bucket's clock ahead ---------------------------------------------------------------------


def test_since_when_a_clock_is_ahead_is_kept_until_it_is_not(world: World) -> None:
    now = now_ms()

    def since(offset: int, log_time: int, at: int) -> int | None:
        materialise(world, beat(offset, log_time=log_time, at=at))
        return BucketStatus.objects.get(bucket="attack/0").ahead_since

    assert since(10, now + 5_000, now) is None
    assert since(11, now + HOUR_MS, now + 1_000) == now + 1_000
    assert since(12, now + HOUR_MS, now + 2_000) == now + 1_000
    assert since(13, now + HOUR_MS, now + HOUR_MS) is None


def test_a_clock_ahead_is_told_by_banner_row_readiness_rest_and_metric(
    world: World, client: Client
) -> None:
    now = now_ms()
    materialise(world, beat(10, log_time=now + 23 * HOUR_MS, at=now))
    live_view().signs.record_heartbeat(
        encode(beat(10, log_time=now + 23 * HOUR_MS, at=now)), (topics().buckets, 0), 1, now
    )
    live_view().signs.reached(now_ms())
    page = client.get("/partitions/").content.decode()
    (row,) = re.findall(r'<tr data-key="attack.reports/0".*?</tr>', page, re.DOTALL)
    assert "clock ahead by 23 h" in text_of(row)
    assert re.search(r'c-red".*?#i-warning.*?<span class="word">ahead</span>', row)
    assert "No time passes in attack/0: its clock is 23 h ahead since" in text_of(page)
    assert 'href="/job/#missing"' in page
    ready = client.get("/readyz")
    assert ready.status_code == 503
    assert f"bucket attack/0: its clock is {23 * 3600} s ahead" in ready.json()["missing"]
    partitions = client.get("/api/v1/partitions").json()["partitions"]
    partition = next(
        each for each in partitions if (each["scenario"], each["partition"]) == ("attack", 0)
    )
    assert (partition["ahead_s"], partition["signs"][0]) == (23 * 3600.0, "ahead")
    metric = 'tallyboard_bucket_ahead_seconds{partition="0",scenario="attack"} 82800.0'
    assert metric in client.get("/metrics").content.decode()


# ---- a broker's clock behind --------------------------------------------------------------------


def test_a_brokers_clock_behind_is_told_by_banner_readiness_and_metric(
    world: World, client: Client
) -> None:
    now = now_ms()
    progress = QueryReport(
        "kernel", now, "running", 1, clocks_behind={"attack/0": ClockBehind(599_997, now - 12_000)}
    )
    world.job.producer.send_and_wait(topics().progress, b"kernel", encode(progress))
    materialise(world, beat(10, log_time=now - 12_000))
    signs = live_view().signs
    signs.record_heartbeat(
        encode(beat(10, log_time=now - 12_000)), (topics().buckets, 0), 1, now_ms()
    )
    signs.record_progress(encode(progress))
    signs.reached(now_ms())
    page = text_of(client.get("/partitions/").content.decode())
    assert "A broker's clock is 10 min behind in attack/0 since" in page
    assert "States are late in attack/0" not in page
    missing = client.get("/readyz").json()["missing"]
    assert "bucket attack/0: the broker's clock is 600 s behind" in missing
    metrics = client.get("/metrics").content.decode()
    metric = 'tallyboard_broker_behind_seconds{partition="0",scenario="attack"} 599.997'
    assert metric in metrics
