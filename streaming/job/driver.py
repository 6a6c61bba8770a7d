"""The job's driver, which keeps one engine's query running."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from bus.base import Bus, BusError
from streaming.fold import query as fold_query
from streaming.fold.assignment import EngineAssignment, hand_over, slots, trigger_of
from streaming.fold.progress import ProgressReporter
from streaming.fold.rules import Book
from streaming.fold.workload import Workload, now_ms
from streaming.job.claims import ScenarioClaimed
from streaming.job.planner import Planned, Planner
from streaming.requests.handler import RequestHandler
from streaming.requests.queue import RequestAuthenticator, RequestQueue
from streaming.requests.rebuild import StateRebuild
from streaming.spark.executors import Cluster
from streaming.spark.jvm import JvmLost
from streaming.spark.restart_policy import Verdict, judge
from streaming.spark.run_loop import RunLoop
from streaming.state import quarantine
from streaming.state.buckets import Engine, Trigger
from streaming.state.checkpoint import Epoch, LogProblem, drop_uncommitted, positions
from streaming.state.quarantine import ends_at, jump, next_bounded_batch, plan_batch
from wire.job import Status, Stopped

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from config.settings import Settings

log = logging.getLogger("streaming.job.driver")

# Records: some seconds of Real-time Mode, in which new reports would wait behind old ones.
LONG_BACKLOG = 50_000

# The longest pause before a restart.
LONGEST_PAUSE_S = 15.0

CONTROL = "control.json"


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
        self._cluster = None if settings.one_machine else self._cluster_of(sharing)
        self._blind = ""
        topics, home = workload.topics, workload.home
        self._report = ProgressReporter(bus, topics.progress, workload.query, now_ms)
        guard = RequestAuthenticator(bus, topics, workload.keys, workload.demands_signatures)
        self._queue = RequestQueue(
            bus, topics.control, workload.query, home / CONTROL, now_ms, self._report.answer, guard
        )
        self._report.rebuild = lambda: self._queue.rebuilding
        snapshots = settings.data_dir / "snapshots"
        self._rebuilds = StateRebuild(self._queue, bus, topics, home, snapshots, engine, now_ms)
        self._planner = Planner(workload, bus, self._report, self._rebuilds, spark)
        self._requests = RequestHandler(
            workload, self._queue, self._report, self._rebuilds, self._planner.stop_ticks
        )
        self._loop = RunLoop(
            self,
            self._queue,
            self._report,
            spark,
            stop,
            name="the query was stopped, and",
            longest_pause_s=LONGEST_PAUSE_S,
            elsewhere=(BusError, LogProblem, ScenarioClaimed),
        )

    def _cluster_of(self, sharing: EngineAssignment) -> Cluster:
        def needed() -> int:
            trigger = self._settings.effective_trigger
            needed = slots(sharing.shares, trigger, sharing.state_partitions)
            return needed + self._planner.surplus_partitions

        return Cluster(self._spark, self._settings.spark_master or "", needed)

    @property
    def running(self) -> bool:
        """Return whether its query runs, or has been stopped on purpose."""
        return self._report.running or self._queue.stopped is not None

    def stands_by(self, since: int) -> None:
        """Report since when a standby is ready to take over, Unix ms; 0: none is."""
        self._report.stands_by(since)

    def run(self) -> None:
        """Run until `stop` is set. Raises JvmLost, and nothing else."""
        if self._queue.stopped is None:
            self._report.status("starting")
        self._queue.give_up_batch_queries()
        self._loop.run()

    # ---- what the loop calls --------------------------------------------------------------------

    @property
    def new_process(self) -> str:
        """Return why a request needs a new process, or ''."""
        return self._requests.new_process

    def prepare(self) -> None:
        """Carry out the changes of rule that an earlier driver accepted and did not finish."""
        self._requests.finish_rule_changes()

    def hold(self, stopped: Stopped) -> None:
        """Report that no query runs, and no time passes."""
        self._planner.stop_ticks()
        self._report.stand_still(stopped)
        self._workload.publish(self._report, {})
        self._queue.settle("done", "states stand as they are until it is started")

    def carry_out(self) -> bool:
        """Carry out new requests. Return whether what runs is to end for one, or for another job
        that carries its scenarios."""
        ends = self._requests.carry_out()
        changed = self._planner.gives_way or self._planner.sources_changed
        return ends or (self._report.running and changed)

    def run_once(self) -> None:
        """Run the query until it is due to end. Raises what ended it."""
        if not self._await_executors():
            return
        planned = self._planner.plan()
        self._step_over(planned)
        trigger = trigger_of(self._workload.engine, self._settings.effective_trigger)
        if trigger == "real-time" or self._rebuilds.under_way(planned.epoch):
            self._catch_up(planned)
        short = self._shortage() if trigger == "real-time" else ""
        if not self._loop.due_to_end():
            self._run_query(planned, "micro-batch" if short else trigger, "running", short=short)

    # ---- what a cluster has room for ------------------------------------------------------------

    def _await_executors(self) -> bool:
        """Return once a query may start, or False once it is to end."""
        if self._cluster is None:
            return True
        self._planner.ensure_topics()  # one of them says what is waited for
        return self._cluster.await_executors(
            self._loop.due_to_end, self._stop.wait, self._wait_for_executors
        )

    def _wait_for_executors(self, why: str) -> None:
        self._report.status("waiting", why)
        self._queue.settle("failed", why)

    def _shortage(self) -> str:
        """Return why Real-time Mode cannot run on this cluster; empty if it can."""
        return self._cluster.shortage() if self._cluster else ""

    def _due_to_end(self, short: str) -> bool:
        """Return whether a query is due to end, also as the slots are there that were short."""
        return self._loop.due_to_end() or (bool(short) and not self._shortage())

    # ---- runs -----------------------------------------------------------------------------------

    def _step_over(self, planned: Planned) -> None:
        """Have the query go on behind what was set aside, if that lies before it."""
        plan, epoch, _ = planned
        begun = self._planner.begins(epoch, plan.start)
        names = {place: self._workload.bucket(place) for place in begun}
        held = {place: self._report.asides.get(name, ()) for place, name in names.items()}
        while not self._loop.due_to_end() and (batch := next_bounded_batch(begun, held)):
            number = plan.start.state_partitions
            plan_batch(epoch.path, batch.ends, fold_query.batch_metadata(self._spark, number))
            complete = planned._replace(lost=[])
            self._run_query(complete, "leg", "catching-up", one_by_one=batch.close)
            if ends_at(epoch.path, batch.ends):
                jump(epoch.path, batch.ends | batch.jumps)
            begun = self._planner.begins(epoch, plan.start)

    def _catch_up(self, planned: Planned) -> None:
        """Drain a long backlog, or a log that is read again, in micro-batches, which are faster.

        They also get past lost records: a log that begins past the checkpoint ends Real-time Mode,
        whatever the query is set to. States to begin with are committed as a snapshot there.
        """
        seeded = bool(planned.plan.start.seeds) and not positions(planned.epoch.path)
        while (
            seeded
            or planned.lost
            or self._rebuilds.under_way(planned.epoch)
            or self._planner.backlog(planned.plan, planned.epoch) > LONG_BACKLOG
        ):
            self._run_query(planned, "catch-up", "catching-up")
            planned, seeded = planned._replace(lost=[]), False
            if self._loop.due_to_end():
                return

    def _run_query(
        self,
        planned: Planned,
        trigger: Trigger,
        status: Status,
        *,
        one_by_one: bool = False,
        short: str = "",
    ) -> None:
        """Run one query until it is due to end. short: why it is not in Real-time Mode."""
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
        planner = self._planner
        words = [short, planner.beginning, *lost, *planner.shortened]
        words += [*self._workload.overlay_problems(), *planner.notes]
        words += quarantine.in_words(self._report.asides)
        message = "; ".join(filter(None, words))
        self._blind = ""
        self._report.runs(status, trigger, message, epoch.path)
        self._queue.settle("done")
        try:
            due = partial(self._due_to_end, short)
            fold_query.watch(query, due, partial(self._on_batch, epoch, status, message))
            self._rebuilds.look(epoch)
            if short:  # it ends to begin again in Real-time Mode, and not for a record's sake
                self._planner.starts.forget()
        finally:
            self._loop.end(query)
            if self._stop.is_set() or self._loop.interrupted:
                self._planner.starts.forget()

    def _on_batch(
        self, epoch: Epoch, status: Status, message: str, figures: Mapping[str, Any]
    ) -> None:
        self._report.batch(figures)
        self._rebuilds.look(epoch)
        blind = "; ".join(self._cluster.problems()) if self._cluster else ""
        if blind != self._blind:  # of executors that came later: the query goes on without them
            self._blind = blind
            self._report.status(status, "; ".join(filter(None, [blind, message])))

    def judge(self, error: Exception, text: str) -> Verdict:  # noqa: ARG002 - as pipelines need it
        """Return whether an error passes by itself.

        Hands a scenario over to the Python engine where the kernel has met a rule in Python; raises
        JvmLost then.
        """
        match = re.search(r"NeedsPython: ([a-z0-9-]+)", text)
        if match is not None:
            hand_over(self._workload.home.parent, match[1])
            raise JvmLost(
                f"{match[1]}: its log holds a rule in Python: "
                "it goes over to the Python engine at the next start"
            )
        return judge(text, one_machine=self._settings.one_machine)

    def close(self) -> None:
        """Stop the ticks, and close the queue of requests and the report."""
        self._planner.stop_ticks()
        self._planner.stop_watch()
        self._requests.close()
        self._queue.close()
        if self._stop.is_set():
            self._report.status("stopped")
        self._report.close()
