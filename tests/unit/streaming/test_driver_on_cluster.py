"""The driver on a cluster whose executors a test plays."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bus.memory import MemoryBus
from streaming.spark import executors
from streaming.spark.executors import Executor
from support.run.stack import wait_until
from support.spark.driver_harness import SCENARIOS, Stage

FIELDS: dict[str, Any] = {"spark_master": "spark://m:7077", "trigger": "real-time"}


class PlayedCluster(Stage):
    """A driver on a cluster; `roll` is what is known of its executors."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(folder, MemoryBus(lambda: int(time.time() * 1000)), monkeypatch)
        self.roll: list[Executor] = []
        monkeypatch.setattr(executors, "known_executors", lambda _spark: self.roll)
        monkeypatch.setattr(executors, "STEADY_S", 0.0)
        monkeypatch.setattr(executors, "SETTLE_S", 0.3)
        monkeypatch.setattr(executors, "LOOK_S", 0.02)

    def message(self) -> str:
        """The newest message."""
        return self.query_reports()[-1].message


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedCluster]:
    made = PlayedCluster(tmp_path, monkeypatch)
    made.file.write_text(SCENARIOS)
    yield made
    made.end()


def ready(id_: str, cores: int) -> Executor:
    return Executor(id_, f"host-{id_}", cores, looked=True)


BLIND = Executor("1", "host-1", 4, True, "absent", "/srv/checkpoint", "no such file")


def test_with_too_few_slots_it_runs_in_micro_batches_and_returns_by_itself(
    stage: PlayedCluster,
) -> None:
    stage.roll = [ready("0", 3)]
    stage.begin(**FIELDS)
    stage.wait_for("running")
    assert stage.triggers == ["micro-batch"]
    assert "needs 4 slots, the cluster has 3" in stage.message()
    stage.roll = [ready("0", 3), ready("1", 3)]
    wait_until(lambda: stage.triggers == ["micro-batch", "real-time"], 20, f"{stage.triggers}")
    wait_until(lambda: "slots" not in stage.message(), 20, "the message stays")
    assert [query.isActive for query in stage.queries] == [False, True]


def test_slots_that_are_lost_in_real_time_mode_are_no_reason_to_wait(stage: PlayedCluster) -> None:
    stage.roll = [ready("0", 3), ready("1", 3)]
    stage.begin(**FIELDS)
    stage.wait_for("running")
    stage.roll = [ready("0", 3)]
    stage.queries[-1].error = RuntimeError("[CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT] needs 4")
    wait_until(lambda: stage.triggers == ["real-time", "micro-batch"], 20, f"{stage.triggers}")
    assert "waiting" not in [report.status for report in stage.query_reports()]
    assert not [report for report in stage.query_reports() if "local[N]" in report.message]


def test_no_query_starts_while_an_executor_does_not_see_the_checkpoint(
    stage: PlayedCluster,
) -> None:
    stage.roll = [ready("0", 8), BLIND]
    stage.begin(**FIELDS)
    stage.wait_for("waiting")
    assert stage.message().startswith("executor 1 on host-1 does not see the checkpoint")
    assert (stage.queries, stage.rules()) == ([], 0)
    stage.roll = [ready("0", 8)]
    stage.wait_for("running")
    assert stage.triggers == ["real-time"]


def test_an_executor_that_comes_later_and_sees_nothing_is_told_and_stops_nothing(
    stage: PlayedCluster,
) -> None:
    stage.roll = [ready("0", 8)]
    stage.begin(**FIELDS)
    stage.wait_for("running")
    stage.roll = [ready("0", 8), BLIND]
    stage.queries[-1].lastProgress = {"batchId": 1}  # type: ignore[assignment]
    wait_until(lambda: "host-1 does not see" in stage.message(), 20, "it is not told")
    assert stage.status() == "running"
    assert stage.queries[-1].isActive
