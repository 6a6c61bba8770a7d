"""A commit rehearsed: beside the running query, a query of its shape that no record passes through.

The first commits of a JVM take seconds, because their code is loaded, interpreted and compiled.
The rehearsal has short batches and a scratch checkpoint, so that all of that has happened by the
time the query commits. It reads one partition of the query's from its end, and writes nothing.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streaming.processor import Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from config.settings import Settings

log = logging.getLogger("streaming.rehearsal")

# The query has caught up by then, and nobody waits for what the processor does meanwhile.
AFTER_S = 10.0

# Commits until their code is compiled, the length of their batches, and when it ends in any case.
COMMITS, BATCH_S, LONGEST_S = 12, 1, 30.0

# Shorter batches than this are through before the rehearsal is.
LEAST_BATCH_S = 60

LOOK_S = 0.2

# How long its tasks may take to end.
END_S = 5.0

_LEAST = "spark.sql.streaming.realTimeMode.minBatchDuration"

# Starts the query of a session, plan and checkpoint, with batches of so many seconds.
Starter = Callable[["SparkSession", "Settings", Plan, Path, int], "StreamingQuery"]


class Rehearsal:
    """A thread that rehearses commits once, for all queries that run in this JVM after it."""

    def __init__(self, spark: SparkSession, settings: Settings, start: Starter) -> None:
        self._spark, self._settings, self._start = spark, settings, start
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, plan: Plan) -> None:
        """Rehearse soon, unless it was done or does not pay. plan: of the query that runs."""
        room = self._settings.spark_master is None  # another master may have none to spare
        pays = room and self._settings.batch_s >= LEAST_BATCH_S
        if pays and self._thread is None:
            self._thread = threading.Thread(
                target=self._run, args=(plan,), name="rehearsal", daemon=True
            )
            self._thread.start()

    def end(self) -> None:
        """Break it off, and wait for it at most three seconds."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(3)

    def _run(self, plan: Plan) -> None:
        if self._over.wait(AFTER_S):
            return
        try:
            self._rehearse(plan)
        except Exception as error:  # noqa: BLE001, without it the first commits are slower
            log.debug("no commit was rehearsed: %s", error)

    def _rehearse(self, plan: Plan) -> None:
        folder = self._settings.data_dir / "spark" / "local" / "rehearsal"
        shutil.rmtree(folder, ignore_errors=True)
        session = self._spark.newSession()
        session.conf.set(_LEAST, f"{BATCH_S}s")
        begun, beside = time.monotonic(), self._tasks()
        query = self._start(session, self._settings, plan, folder, BATCH_S)
        try:
            self._watch(query, begun + LONGEST_S)
        finally:
            self._stop(query, beside)

    def _watch(self, query: Any, until: float) -> None:
        commits = 0
        while commits < COMMITS and time.monotonic() < until and not self._over.wait(LOOK_S):
            if not query.isActive:
                raise RuntimeError(str(query.exception()))
            latest = query.lastProgress
            commits = latest["batchId"] + 1 if latest else 0
        log.debug("%d commits rehearsed", commits)

    def _stop(self, query: Any, beside: int) -> None:
        """Stop the query, without a word from its tasks, which are broken off.

        beside: how many tasks run without it.
        """
        context = self._spark.sparkContext
        context.setLogLevel("OFF")
        query.stop()
        give_up = time.monotonic() + END_S
        while self._tasks() > beside and time.monotonic() < give_up:
            self._over.wait(LOOK_S)
        if not self._over.is_set():
            context.setLogLevel("WARN")

    def _tasks(self) -> int:
        """Return how many tasks run now."""
        jvm: Any = self._spark.sparkContext._jsc  # noqa: SLF001
        return sum(each.numRunningTasks() for each in jvm.sc().statusTracker().getExecutorInfos())
