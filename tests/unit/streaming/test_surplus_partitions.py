"""Partitions that somebody adds to a source topic: read within seconds, forwarded, named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bus.memory import MemoryBus
from streaming.fold.workload import now_ms
from streaming.job import sources
from streaming.state.buckets import BucketId
from streaming.state.storage import LocalPath
from support.run.stack import wait_until
from support.spark.driver_harness import SCENARIOS, TOPICS, Stage

REPORTS = TOPICS.reports("sites")


@pytest.fixture
def stage(tmp_path: LocalPath, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A driver that runs."""
    monkeypatch.setattr(sources, "LOOK_S", 0.05)
    made = Stage(tmp_path, MemoryBus(now_ms), monkeypatch)
    made.file.write_text(SCENARIOS)
    made.begin()
    made.wait_for("running")
    yield made
    made.end()


def test_the_query_starts_again_and_reads_what_was_added(stage: Stage) -> None:
    stage.bus.add_partitions(REPORTS, 4)
    wait_until(lambda: len(stage.plans) == 2, 10, "no second start")
    stage.wait_for("running")
    plan = stage.plans[-1]
    assert plan.rules.keys() == {BucketId("sites", at) for at in range(4)}
    assert plan.partitions == {"sites": 2}
    said = f"{REPORTS} has 4 partitions, and sites has 2: what lies on the others is forwarded"
    assert said in stage.query_reports()[-1].message


def test_a_new_process_reads_them_too(stage: Stage) -> None:
    stage.end()
    stage.bus.add_partitions(REPORTS, 3)
    stage.begin()
    wait_until(lambda: len(stage.plans) == 2, 10, "no second start")
    assert BucketId("sites", 2) in stage.plans[-1].rules


def test_nothing_ticks_there(stage: Stage) -> None:
    stage.bus.add_partitions(REPORTS, 3)
    wait_until(lambda: len(stage.plans) == 2, 10, "no second start")
    stage.end()
    assert stage.bus.offsets([REPORTS])[REPORTS, 2] == (0, 0)


def test_a_topic_that_stays_as_it_is_ends_no_query(stage: Stage) -> None:
    looks = []
    partitions = stage.bus.partitions
    stage.bus.partitions = lambda topic, timeout_s=10: looks.append(topic) or partitions(topic)  # type: ignore[method-assign,func-returns-value]
    wait_until(lambda: len(looks) > 3, 10, "nobody looks")
    assert len(stage.plans) == 1
