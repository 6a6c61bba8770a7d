"""Commits are rehearsed once, where that pays, and without any of it reaching the query."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from config.settings import Settings
from stack import wait_until
from streaming import rehearsal
from streaming.rehearsal import COMMITS, LEAST_BATCH_S, Rehearsal

PLAN: Any = SimpleNamespace()


class Query:
    """A query that commits a batch each time that somebody looks, as far as it may."""

    def __init__(self, most: int) -> None:
        self.most, self.batch, self.isActive = most, -1, True

    @property
    def lastProgress(self) -> dict[str, int] | None:  # noqa: N802, Spark's name
        self.batch = min(self.batch + 1, self.most - 1)
        return {"batchId": self.batch} if self.batch >= 0 else None

    def stop(self) -> None:
        self.isActive = False

    def exception(self) -> str:
        return "it ended"


class Spark:
    """A session that runs two tasks, and notes what is asked of it."""

    def __init__(self) -> None:
        self.levels: list[str] = []
        self.set: dict[str, str] = {}
        info = SimpleNamespace(numRunningTasks=lambda: 2)
        tracker = SimpleNamespace(getExecutorInfos=lambda: [info])
        context = SimpleNamespace(statusTracker=lambda: tracker)
        self.sparkContext = SimpleNamespace(
            setLogLevel=self.levels.append, _jsc=SimpleNamespace(sc=lambda: context)
        )
        self.conf = SimpleNamespace(set=self.set.__setitem__)

    def newSession(self) -> SimpleNamespace:  # noqa: N802, Spark's name
        return SimpleNamespace(conf=self.conf)


class Stage:
    """Where a rehearsal takes place: what it started, and with what."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.spark = folder, Spark()
        self.queries: list[Query] = []
        self.started: list[tuple[Any, ...]] = []
        self.most = COMMITS

    def made(self, **changes: Any) -> Rehearsal:
        settings = Settings(data_dir=self.folder, _env_file=None, **changes)  # type: ignore[call-arg]
        spark: Any = self.spark
        return Rehearsal(spark, settings, self._start)

    def _start(self, *arguments: Any) -> Any:
        self.started.append(arguments)
        self.queries.append(Query(self.most))
        return self.queries[-1]

    def over(self) -> bool:
        return bool(self.queries) and not self.queries[0].isActive


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(rehearsal, "AFTER_S", 0.0)
    monkeypatch.setattr(rehearsal, "LOOK_S", 0.001)
    return Stage(tmp_path)


def test_it_ends_after_its_commits_and_takes_place_once(stage: Stage) -> None:
    made = stage.made()
    made.begin(PLAN)
    wait_until(stage.over, 10, "it does not end")
    made.begin(PLAN)
    wait_until(lambda: stage.spark.levels == ["OFF", "WARN"], 10, "the log stays off")
    made.end()
    [(_, _, plan, folder, batch_s)] = stage.started
    assert (plan, batch_s) == (PLAN, rehearsal.BATCH_S)
    assert folder.is_relative_to(stage.folder / "spark" / "local")  # which a start empties
    assert stage.queries[0].batch == COMMITS - 1


def test_it_is_broken_off_with_the_job(stage: Stage) -> None:
    stage.most = 2
    made = stage.made()
    made.begin(PLAN)
    wait_until(lambda: bool(stage.queries) and stage.queries[0].batch == 1, 10, "no commits")
    made.end()
    assert stage.over()
    assert stage.spark.levels == ["OFF"]


@pytest.mark.parametrize(
    "changes",
    [
        {"batch_s": LEAST_BATCH_S - 1},
        {"spark_master": "local[9]"},
        {"spark_master": "spark://tally:7077"},
    ],
)
def test_it_does_not_take_place_where_it_does_not_pay(
    stage: Stage, changes: dict[str, Any]
) -> None:
    made = stage.made(**changes)
    made.begin(PLAN)
    made.end()
    assert stage.started == []


def test_a_rehearsal_that_fails_is_no_failure_of_the_job(stage: Stage) -> None:
    failed = threading.Event()

    def start(*_: Any) -> Any:
        failed.set()
        raise OSError("no room")

    spark: Any = stage.spark
    begin: Callable[..., Any] = start
    settings = Settings(data_dir=stage.folder, _env_file=None)  # type: ignore[call-arg]
    made = Rehearsal(spark, settings, begin)
    made.begin(PLAN)
    assert failed.wait(10)
    made.end()
    assert stage.spark.levels == []
