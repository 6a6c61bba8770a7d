"""Claims of jobs on scenarios: who waits, who gives way, and when a scenario has moved."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from bus.base import TopicSpec
from bus.memory import MemoryBus
from streaming.job import planner, sources
from streaming.job.claims import LAPSES_MS, Claims, ScenarioClaimed
from streaming.state.buckets import known, remember
from streaming.state.storage import LocalPath
from support.run.stack import wait_until
from support.spark.driver_harness import SCENARIOS, Stage, values
from wire.job import Heartbeat, encode
from wire.source import encode_tick
from wire.topics import Topics

TOPICS = Topics()


class Log:
    """A topic of heartbeats, and a clock."""

    def __init__(self) -> None:
        self.now = 1_800_000_000_000
        self.bus = MemoryBus(clock=lambda: self.now)
        self.bus.ensure_topics([TopicSpec(TOPICS.buckets, 1, {})])

    def beat(self, job: str, bucket: str = "attack/0", epoch: int = 1) -> Heartbeat:
        """Append a heartbeat."""
        scenario, _, partition = bucket.partition("/")
        heartbeat = Heartbeat(
            bucket, scenario, int(partition), epoch, "driver", "here", 0, 0, 0, 0, 0, 0, 0,
            "kernel", self.now, job=job,
        )  # fmt: skip
        self.bus.producer().send_and_wait(TOPICS.buckets, bucket.encode(), encode(heartbeat))
        return heartbeat

    def claims(self, job: str) -> Claims:
        """Return what a job knows of the others."""
        return Claims(self.bus, TOPICS, job, lambda: self.now)


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_scenario_that_nobody_has_carried_is_not_claimed(log: Log):
    log.beat("", "orders/0")
    assert log.claims("edge").former(["attack"]) == set()


def test_a_job_waits_while_another_one_carries_its_scenario(log: Log):
    log.beat("")
    log.now += 4_000
    with pytest.raises(ScenarioClaimed, match=r"^attack is carried by the job, heard 4 s ago$"):
        log.claims("edge").former(["attack"])
    log.beat("shop")
    with pytest.raises(ScenarioClaimed, match="carried by the job shop, heard 0 s ago"):
        log.claims("edge").former(["attack"])


def test_a_claim_lapses_and_the_scenario_has_moved(log: Log):
    log.beat("")
    log.beat("", "attack/1")
    log.now += LAPSES_MS
    assert log.claims("edge").former(["attack"]) == {"attack/0", "attack/1"}
    log.beat("edge")
    assert log.claims("edge").former(["attack"]) == {"attack/1"}
    log.beat("edge", "attack/1")
    assert log.claims("edge").former(["attack"]) == set()


def test_of_two_that_run_the_one_with_the_lower_epoch_gives_way(log: Log):
    edge, main = log.claims("edge"), log.claims("")
    assert not edge.record(log.beat("edge", epoch=3)), "its own"
    assert not edge.gives_way(3)
    assert edge.record(log.beat("", epoch=2))
    assert main.record(log.beat("edge", epoch=3))
    assert (edge.gives_way(3), main.gives_way(2)) == (False, True)


def test_of_two_with_one_epoch_exactly_one_gives_way(log: Log):
    edge, main = log.claims("edge"), log.claims("")
    edge.record(log.beat("", epoch=3))
    main.record(log.beat("edge", epoch=3))
    assert (edge.gives_way(3), main.gives_way(3)) == (False, True)


def test_who_has_waited_for_the_end_of_another_runs_on(log: Log):
    main = log.claims("")
    main.record(log.beat("edge", epoch=3))
    assert main.gives_way(2)
    log.now += LAPSES_MS
    assert main.former(["attack"]) == {"attack/0"}
    assert not main.gives_way(2)


# ---- in a driver --------------------------------------------------------------------------------


class Rivals(Log):
    """The log of a driver, beside whom another job carries the same scenario."""

    def __init__(self) -> None:
        super().__init__()
        self.now = int(time.time() * 1000)
        self.bus.ensure_topics(TopicSpec(*spec) for spec in TOPICS.specs(()))


@pytest.fixture
def rivals() -> Rivals:
    return Rivals()


@pytest.fixture
def stage(rivals: Rivals, tmp_path: LocalPath, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    (tmp_path / "scenarios.toml").write_text(SCENARIOS)
    made = Stage(tmp_path, rivals.bus, monkeypatch)
    yield made
    made.end()


def test_a_driver_waits_for_the_job_that_carries_its_scenario(stage: Stage, rivals: Rivals):
    rivals.beat("edge", "sites/0")
    stage.begin()
    stage.wait_for("waiting")
    message = stage.query_reports()[-1].message
    assert "sites is carried by the job edge, heard 0 s ago" in message
    assert "give both the same TALLYBOARD_JOB_SCENARIOS" in message
    assert stage.queries == []


def test_a_driver_takes_over_what_the_former_job_knew(
    stage: Stage, rivals: Rivals, monkeypatch: pytest.MonkeyPatch
):
    former = stage.folder / "checkpoint" / "jobs" / "edge"
    bounds = {"sites/0": [(7, 9)], "orders/0": [(1, 2)]}
    former.mkdir(parents=True)
    remember(former, bounds)
    rivals.beat("edge", "sites/0", epoch=6)
    rivals.now += LAPSES_MS + 5_000
    monkeypatch.setattr(planner, "now_ms", lambda: rivals.now)
    stage.begin()
    stage.wait_for("running")
    assert stage.query_reports()[-1].epoch == 7, "above the former job's"
    assert known(stage.folder / "checkpoint") == {"sites/0": [(7, 9)]}


def test_a_driver_says_that_a_log_which_moved_is_not_whole(
    stage: Stage, rivals: Rivals, monkeypatch: pytest.MonkeyPatch
):
    rivals.beat("edge", "sites/0")
    topic = TOPICS.reports("sites")
    rivals.bus.ensure_topics([TopicSpec(topic, 2, sources.EXPECTED)])
    for partition in (0, 1):
        rivals.bus.producer().send_and_wait(topic, None, encode_tick(), partition=partition)
    rivals.now += LAPSES_MS + 5_000
    monkeypatch.setattr(planner, "now_ms", lambda: rivals.now)
    whole = rivals.bus.offsets

    def shortened(topics: Iterable[str], *more: Any, **named: Any) -> Any:
        edges = whole(topics, *more, **named)
        return {at: (int(at[0] == topic), end) for at, (_, end) in edges.items()}

    monkeypatch.setattr(rivals.bus, "offsets", shortened)
    stage.begin()
    stage.wait_for("running")
    assert (
        "the log of sites/0, sites/1 no longer begins at its start"
        in stage.query_reports()[-1].message
    )


def test_a_running_driver_gives_way_to_a_higher_epoch(stage: Stage, rivals: Rivals):
    stage.begin(tick_ms=20)
    stage.wait_for("running")
    rivals.beat("edge", "sites/0", epoch=99)
    stage.wait_for("waiting")
    assert "sites is carried by the job edge" in stage.query_reports()[-1].message
    assert not stage.queries[-1].isActive


def test_a_running_driver_leaves_a_lower_epoch_to_give_way(stage: Stage, rivals: Rivals):
    stage.begin(tick_ms=20)
    stage.wait_for("running")
    rivals.beat("edge", "sites/0", epoch=0)
    before = len(values(rivals.bus, TOPICS.reports("sites")))
    wait_until(
        lambda: len(values(rivals.bus, TOPICS.reports("sites"))) > before + 10, 20, "no ticks"
    )
    assert stage.status() == "running"
