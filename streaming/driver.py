"""The job's driver: keeps the query running for as long as it takes."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

from bus.base import Bus, BusError, TopicPartition, TopicSpec
from domain.scenario import Scenario
from streaming import query as queries
from streaming.checkpoint import Epoch, LogProblem, current_epoch, drop_uncommitted, gaps, positions
from streaming.engines import hand_over, trigger_of
from streaming.errors import first_line, judge
from streaming.processor import Plan
from streaming.progress import Reporting
from streaming.query import Engine, Trigger
from streaming.rules import Rules
from streaming.ticks import Ticker
from wire.job import Status
from wire.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from config.settings import Settings

log = logging.getLogger("streaming.driver")

LONG_BACKLOG = 50_000
"""Records: some seconds of Real-time Mode, in which new reports would wait behind old ones."""

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 15.0
"""Pauses before a restart after an error that passes: doubled each time."""

PAUSE_STAYING_S = 30.0
"""Pause after an error that stays."""

HEALTHY_S = 30.0
"""A query that ran this long starts over with the first pause."""

STOP_S, EXIT_S = 5.0, 2.0
"""How long Spark may take to stop before its JVM is killed, and a JVM without Spark to end."""


class JvmLost(Exception):
    """Spark's JVM is gone, or another share of the work calls for one: start the process anew."""


class Driver:
    """Prepares topics and rules, lets time pass, runs one engine's query, and starts it again."""

    def __init__(
        self,
        settings: Settings,
        scenarios: Mapping[str, Scenario],
        bus: Bus,
        spark: SparkSession,
        stop: threading.Event,
        engine: Engine,
    ) -> None:
        self._settings, self._scenarios, self._bus, self._spark = settings, scenarios, bus, spark
        self._stop, self._engine = stop, engine
        self._topics = Topics(settings.topic_prefix)
        self._home = settings.data_dir / "checkpoint" / engine
        self._report = Reporting(bus, self._topics.progress, engine, _now)
        self._ticker: Ticker | None = None
        self._pause = FIRST_PAUSE_S

    def run(self) -> None:
        """Run until `stop` is set. Raises JvmLost, and nothing else."""
        self._report.status("starting")
        while not self._stop.is_set():
            begun = time.monotonic()
            try:
                self._run_once()
            except Exception as error:  # noqa: BLE001, nothing but a signal ends the driver
                if self._stop.is_set():
                    break
                self._after(error, time.monotonic() - begun)
        self._close()

    def _run_once(self) -> None:
        plan, epoch, passed_over = self._prepare()
        trigger = trigger_of(self._engine, self._settings.trigger)
        if trigger == "real-time":
            self._catch_up(plan, epoch, passed_over)
        if not self._stop.is_set():
            self._run_query(plan, epoch, trigger, "running", passed_over)

    def _catch_up(self, plan: Plan, epoch: Epoch, passed_over: list[str]) -> None:
        """Drain a long backlog in micro-batches, which are faster; and get over lost records.

        A log that begins past the checkpoint ends Real-time Mode, whatever the query is told.
        """
        while passed_over or self._backlog(plan, epoch) > LONG_BACKLOG:
            self._run_query(plan, epoch, "catch-up", "catching-up", passed_over)
            passed_over = []
            if self._stop.is_set():
                return

    def _run_query(
        self, plan: Plan, epoch: Epoch, trigger: Trigger, status: Status, passed_over: list[str]
    ) -> None:
        drop_uncommitted(epoch.path)
        query = queries.start(
            self._spark,
            self._settings,
            plan,
            epoch.path,
            engine=self._engine,
            trigger=trigger,
            loss_known=bool(passed_over),
        )
        self._report.status(status, "; ".join(passed_over))
        try:
            queries.watch(query, self._stop, self._report.batch)
        finally:
            if self._stop.is_set():
                self._spark.sparkContext.setLogLevel("OFF")  # of every task that is broken off
            if query.isActive:
                query.stop()

    def _backlog(self, plan: Plan, epoch: Epoch) -> int:
        """Records between the checkpoint and the log's end."""
        reached = positions(epoch.path)
        edges = self._bus.offsets(self._topics.reports(name) for name in plan.partitions)
        return sum(end - max(begin, reached.get(at, 0)) for at, (begin, end) in edges.items())

    def _prepare(self) -> tuple[Plan, Epoch, list[str]]:
        """Topics, rules and ticks; what the query is to know. Raises BusError or LogProblem."""
        self._bus.wait(10)
        specs = [TopicSpec(*spec) for spec in self._topics.specs(self._scenarios.values())]
        self._bus.ensure_topics(specs, replication=self._settings.replication)
        rules = Rules(self._bus, self._topics, self._home / "rules.json").settle(self._scenarios)
        places = {(self._topics.reports(b.scenario), b.partition) for b in rules}
        if self._ticker is None:
            self._ticker = Ticker(self._bus, places, self._settings.tick_ms)
            self._ticker.start()
        epoch = current_epoch(self._home)
        self._report.epoch = epoch.number
        partitions = {name: s.partitions for name, s in self._scenarios.items()}
        plan = Plan(self._settings.topic_prefix, epoch.number, partitions, rules)
        return plan, epoch, self._gaps(epoch, places)

    def _gaps(self, epoch: Epoch, read: set[TopicPartition]) -> list[str]:
        """What the query will pass over, in words. Raises LogProblem."""
        reached = positions(epoch.path)
        return gaps(reached, self._bus.offsets({topic for topic, _ in reached}), read)

    def _after(self, error: Exception, ran_s: float) -> None:
        """Tell of an error and wait as long as it calls for."""
        self._check_jvm(error)
        text = f"{type(error).__name__}: {error}"
        self._check_rule(text)
        log.debug("the query ended", exc_info=error)
        verdict = judge(text)
        self._report.restarts += 1
        if not verdict.passes:
            self._report.status("waiting", f"{verdict.advice} ({first_line(text)})")
            self._stop.wait(PAUSE_STAYING_S)
            return
        self._pause = FIRST_PAUSE_S if ran_s > HEALTHY_S else self._pause
        self._report.status("restarting", f"in {self._pause:g} s: {first_line(text)}")
        self._stop.wait(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE_S)

    def _check_rule(self, text: str) -> None:
        """Hand a scenario over to the Python engine where the kernel has met a rule in Python."""
        found = re.search(r"NeedsPython: ([a-z0-9-]+)", text)
        if found is not None:
            hand_over(self._home.parent, found[1])
            self._report.status("failed", f"{found[1]}: its log holds a rule in Python")
            self._close()
            raise JvmLost(f"{found[1]} goes over to the Python engine at the next start")

    def _check_jvm(self, error: Exception) -> None:
        if isinstance(error, BusError | LogProblem):
            return
        process = jvm(self._spark)
        if process is not None and process.poll() is not None:
            self._report.status("failed", f"Spark's JVM ended with {process.returncode}")
            self._close()
            raise JvmLost(f"Spark's JVM ended with {process.returncode}") from error

    def _close(self) -> None:
        if self._ticker is not None:
            self._ticker.stop()
        if self._stop.is_set():
            self._report.status("stopped")
        self._report.close()


def run_all(drivers: Sequence[Driver], stop: threading.Event) -> None:
    """Run one query beside the other until `stop` is set, or one of them raises JvmLost."""
    with ThreadPoolExecutor(len(drivers), "query") as pool:
        running = [pool.submit(driver.run) for driver in drivers]
        wait(running, return_when=FIRST_EXCEPTION)
        stop.set()
    for one in running:
        one.result()


def jvm(spark: SparkSession) -> Any:
    """The process of Spark's JVM, a Popen, or None where somebody else started it."""
    return getattr(spark.sparkContext._gateway, "proc", None)  # noqa: SLF001


def _now() -> int:
    return int(time.time() * 1000)


def end_spark(spark: SparkSession, patience_s: float = STOP_S, exit_s: float = EXIT_S) -> None:
    """Stop Spark, with its queries; kill its JVM when that takes longer than `patience_s`.

    exit_s: how long the JVM may then take to end. Raises subprocess.TimeoutExpired.
    """
    process = jvm(spark)
    stopping = threading.Thread(target=_stop_quietly, args=(spark,), daemon=True)
    stopping.start()
    stopping.join(patience_s)
    if process is not None and process.poll() is None:
        process.kill() if stopping.is_alive() else process.stdin.close()
        process.wait(exit_s)


def _stop_quietly(spark: SparkSession) -> None:
    try:
        spark.stop()
    except Exception as error:  # noqa: BLE001, it may be gone already
        log.debug("Spark did not stop: %s", error)
