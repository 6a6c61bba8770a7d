"""The job's driver: keeps one engine's query running for as long as it takes."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from bus.base import Bus, BusError
from streaming.fold import query as fold_query
from streaming.fold.assignment import EngineAssignment, hand_over, trigger_of
from streaming.fold.progress import ProgressReporter
from streaming.fold.rules import Book
from streaming.fold.workload import Workload, now_ms
from streaming.job.planner import Planned, Planner
from streaming.requests.handler import RequestHandler
from streaming.requests.queue import RequestAuthenticator, RequestQueue
from streaming.requests.rebuild import StateRebuild
from streaming.spark.jvm import EXIT_S, JvmLost, jvm_process
from streaming.spark.restart_policy import first_line, judge
from streaming.state import quarantine
from streaming.state.buckets import Engine, Trigger
from streaming.state.checkpoint import Epoch, LogProblem, drop_uncommitted
from streaming.state.quarantine import ends_at, jump, next_bounded_batch, plan_batch
from wire.job import Status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from config.settings import Settings

log = logging.getLogger("streaming.job.driver")

# Records: some seconds of Real-time Mode, in which new reports would wait behind old ones.
LONG_BACKLOG = 50_000

# Pauses before a restart after an error that passes: doubled each time.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 15.0

# Pause after an error that stays.
PAUSE_STAYING_S = 30.0

# Characters of an error that stays: it may hold a command that corrects it.
LONGEST_WHY = 600

# A query that ran this long starts over with the first pause.
HEALTHY_S = 30.0

# How often a driver that waits looks for requests.
LOOK_S = 0.2

# How often the process shows that it is alive.
BEAT_S = 1.0

# How long a query that is asked to stop may take to end, before its process is given up.
END_S = 30.0

CONTROL = "control.json"


class Runner(Protocol):
    """What keeps one query running."""

    def run(self) -> None:
        """Run until a signal. Raises JvmLost."""


def run_all(
    drivers: Sequence[Runner], stop: threading.Event, beat: Callable[[], None] = lambda: None
) -> None:
    """Run the queries in parallel until `stop` is set, or one of them raises JvmLost.

    beat: called each second while all of them run.
    """
    with ThreadPoolExecutor(len(drivers), "query") as pool:
        running = [pool.submit(driver.run) for driver in drivers]
        while not wait(running, BEAT_S, return_when=FIRST_COMPLETED).done:
            beat()
        wait(running, return_when=FIRST_EXCEPTION)
        stop.set()
    for one in running:
        one.result()


class Driver:
    """Runs one engine's query, and starts it again."""

    def __init__(
        self,
        settings: Settings,
        sharing: EngineAssignment,
        bus: Bus,
        spark: SparkSession,
        stop: threading.Event,
        engine: Engine,
        book: Book | None = None,
    ) -> None:
        """book: what `sharing` was made from; None: what the settings lead to."""
        self._settings, self._spark, self._stop = settings, spark, stop
        self._workload = workload = Workload(settings, sharing, bus, engine, book)
        topics, home = workload.topics, workload.home
        self._report = ProgressReporter(bus, topics.progress, engine, now_ms)
        guard = RequestAuthenticator(bus, topics, workload.keys, workload.demands_signatures)
        self._queue = RequestQueue(
            bus, topics.control, engine, home / CONTROL, now_ms, self._report.answer, guard
        )
        self._report.rebuild = lambda: self._queue.rebuilding
        snapshots = settings.data_dir / "snapshots"
        self._rebuilds = StateRebuild(self._queue, bus, topics, home, snapshots, engine, now_ms)
        self._planner = Planner(workload, bus, self._report, self._rebuilds)
        self._requests = RequestHandler(
            workload, self._queue, self._report, self._rebuilds, self._planner.stop_ticks
        )
        self._interrupted = False
        self._hung = ""
        self._pause = FIRST_PAUSE_S

    @property
    def running(self) -> bool:
        """Return whether its query runs, or has been stopped on purpose."""
        return self._report.running or self._queue.stopped is not None

    def stands_by(self, since: int) -> None:
        """Tell since when (Unix ms) a standby is ready to take over; 0: none is."""
        self._report.stands_by(since)

    def run(self) -> None:
        """Run until `stop` is set. Raises JvmLost, and nothing else."""
        if self._queue.stopped is None:
            self._report.status("starting")
        self._queue.give_up_batch_queries()
        while not self._stop.is_set():
            begun = time.monotonic()
            self._interrupted = False
            try:
                self._requests.finish_rule_changes()
                self._stand_still() if self._queue.stopped else self._run_once()
            except Exception as error:  # noqa: BLE001, nothing but a signal ends the driver
                if self._stop.is_set():
                    break
                self._after(error, time.monotonic() - begun)
            if why := self._requests.new_process or self._hung:
                self._give_up(why)
        self._close()

    def _stand_still(self) -> None:
        """Do nothing until somebody asks for a start: no query runs, and no time passes."""
        self._planner.stop_ticks()
        assert self._queue.stopped is not None
        self._report.stand_still(self._queue.stopped)
        self._workload.publish(self._report, {})
        self._queue.settle("done", "states stand as they are until it is started")
        while (
            self._queue.stopped and not self._requests.new_process and not self._stop.wait(LOOK_S)
        ):
            self._requests.carry_out()

    def _run_once(self) -> None:
        planned = self._planner.plan()
        self._step_over(planned)
        trigger = trigger_of(self._workload.engine, self._settings.wanted_trigger)
        if trigger == "real-time" or self._rebuilds.under_way(planned.epoch):
            self._catch_up(planned)
        if not self._due_to_end():
            self._run_query(planned, trigger, "running")

    def _step_over(self, planned: Planned) -> None:
        """Have the query go on behind what was set aside, if that lies before it."""
        plan, epoch, _ = planned
        begun = self._planner.begins(epoch, plan.start)
        names = {place: self._workload.bucket(place) for place in begun}
        held = {place: self._report.asides.get(name, ()) for place, name in names.items()}
        while not self._due_to_end() and (batch := next_bounded_batch(begun, held)):
            plan_batch(epoch.path, batch.ends, fold_query.batch_metadata(self._spark))
            complete = planned._replace(lost=[])
            self._run_query(complete, "leg", "catching-up", one_by_one=batch.close)
            if ends_at(epoch.path, batch.ends):
                jump(epoch.path, batch.ends | batch.jumps)
            begun = self._planner.begins(epoch, plan.start)

    def _catch_up(self, planned: Planned) -> None:
        """Drain a long backlog in micro-batches, which are faster; and get over lost records.

        So is what was asked to be read again, however little it is.

        A log that begins past the checkpoint ends Real-time Mode, whatever the query is set to.
        """
        while (
            planned.lost
            or self._rebuilds.under_way(planned.epoch)
            or self._planner.backlog(planned.plan, planned.epoch) > LONG_BACKLOG
        ):
            self._run_query(planned, "catch-up", "catching-up")
            planned = planned._replace(lost=[])
            if self._due_to_end():
                return

    def _run_query(
        self, planned: Planned, trigger: Trigger, status: Status, *, one_by_one: bool = False
    ) -> None:
        plan, epoch, lost = planned
        if trigger != "leg":
            drop_uncommitted(epoch.path)
        query = fold_query.start(
            self._spark,
            self._settings,
            plan,
            epoch.path,
            engine=self._workload.engine,
            trigger=trigger,
            loss_known=bool(lost),
            one_by_one=one_by_one,
        )
        words = [*lost, *self._workload.overlay_problems(), *self._planner.unbounded]
        message = "; ".join([*words, *quarantine.in_words(self._report.asides)])
        self._report.runs(status, trigger, message, epoch.path)
        self._queue.settle("done")
        try:
            fold_query.watch(query, self._due_to_end, partial(self._on_batch, epoch))
            self._rebuilds.look(epoch)
        finally:
            if self._stop.is_set():
                self._spark.sparkContext.setLogLevel("OFF")  # of every task that is broken off
            if query.isActive:
                self._end(query)
            if self._stop.is_set() or self._interrupted:
                self._planner.starts.forget()

    def _on_batch(self, epoch: Epoch, figures: Mapping[str, Any]) -> None:
        self._report.batch(figures)
        self._rebuilds.look(epoch)

    def _end(self, query: StreamingQuery) -> None:
        """Stop the query, and wait for one that was asked to stop: it must not overlap its next.

        A batch that is broken off is read again at the next start, and gives the same versions.
        """
        give_up = time.monotonic() + END_S
        while True:
            try:
                query.stop()
            except Exception as error:
                if not self._interrupted:
                    raise
                if time.monotonic() > give_up:
                    self._hung = f"the query was stopped, and does not end: {error}"
                    raise
                log.debug("the query does not end yet: %s", error)
            if not self._interrupted or not query.isActive:
                return

    def _due_to_end(self) -> bool:
        """Return whether a signal or a request ends what runs now."""
        if not self._stop.is_set() and not self._interrupted:
            self._interrupted = self._requests.carry_out()
        return self._stop.is_set() or self._interrupted

    def _wait(self, seconds: float) -> None:
        """Wait so long, or until a signal or a request."""
        end = time.monotonic() + seconds
        while not self._due_to_end() and (left := end - time.monotonic()) > 0:
            self._stop.wait(min(left, LOOK_S))

    # ---- after an error -------------------------------------------------------------------------

    def _after(self, error: Exception, ran_s: float) -> None:
        """Tell of an error and wait as long as it calls for."""
        self._check_jvm(error)
        text = f"{type(error).__name__}: {error}"
        self._check_rule(text)
        log.debug("the query ended", exc_info=error)
        verdict = judge(text)
        self._report.restarts += 1
        if not verdict.passes:
            why = f"{verdict.advice} ({first_line(text, LONGEST_WHY)})"
            self._report.status("waiting", why, text)
            self._queue.settle("failed", why)
            self._wait(PAUSE_STAYING_S)
            return
        self._pause = FIRST_PAUSE_S if ran_s > HEALTHY_S else self._pause
        self._report.status("restarting", f"in {self._pause:g} s: {first_line(text)}", text)
        self._wait(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE_S)

    def _check_rule(self, text: str) -> None:
        """Hand a scenario over to the Python engine where the kernel has met a rule in Python."""
        match = re.search(r"NeedsPython: ([a-z0-9-]+)", text)
        if match is not None:
            hand_over(self._workload.home.parent, match[1])
            self._give_up(
                f"{match[1]}: its log holds a rule in Python: "
                "it goes over to the Python engine at the next start"
            )

    def _check_jvm(self, error: Exception) -> None:
        if isinstance(error, BusError | LogProblem):
            return
        process = jvm_process(self._spark)
        if process is not None and isinstance(error, OSError):
            with suppress(TimeoutExpired):
                process.wait(EXIT_S)  # it no longer answers: it is about to end
        if process is not None and process.poll() is not None:
            self._give_up(f"Spark's JVM ended with {process.returncode}", str(error))

    def _give_up(self, why: str, error: str = "") -> NoReturn:
        """End the driver, for a new process to begin."""
        self._report.status("failed", why, error)
        self._close()
        raise JvmLost(why)

    def _close(self) -> None:
        self._planner.stop_ticks()
        self._requests.close()
        self._queue.close()
        if self._stop.is_set():
            self._report.status("stopped")
        self._report.close()
