"""Claims of jobs on scenarios: who waits, who gives way, and when a scenario has moved."""

from __future__ import annotations

import pytest

from bus.base import TopicSpec
from bus.memory import MemoryBus
from streaming.job.claims import LAPSES_MS, Claims, ScenarioClaimed
from wire.job import Heartbeat, encode
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
        told = Heartbeat(
            bucket, scenario, int(partition), epoch, "driver", "here", 0, 0, 0, 0, 0, 0, 0,
            "kernel", self.now, job=job,
        )  # fmt: skip
        self.bus.producer().send_and_wait(TOPICS.buckets, bucket.encode(), encode(told))
        return told

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
