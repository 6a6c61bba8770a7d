"""One pipeline in the run loop: its query, its requests, its errors."""

from __future__ import annotations

import json
import logging
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from bus.base import Bus, BusError
from streaming.fold.epochs import name_logs, start_of
from streaming.fold.query import end_of
from streaming.fold.workload import now_ms
from streaming.job.ticks import Ticker
from streaming.pipelines import query as queries
from streaming.pipelines.declaration import DeclarationError, Pipeline
from streaming.pipelines.emitter import Counts
from streaming.pipelines.graph import graph_of
from streaming.pipelines.report import PipelineFigures, PipelineReporter
from streaming.requests.queue import RequestAuthenticator, RequestQueue
from streaming.spark.executors import Cluster
from streaming.spark.restart_policy import Verdict, judge
from streaming.spark.run_loop import RunLoop
from streaming.state.checkpoint import (
    Epoch,
    check_logs,
    current_epoch,
    drop_uncommitted,
    gaps,
    next_epoch,
    positions,
)
from streaming.state.storage import LocalPath
from wire.job import Control, Stopped
from wire.pipeline import query_name
from wire.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from config.settings import Settings

log = logging.getLogger("streaming.pipelines.supervisor")

# The longest pause before a restart.
LONGEST_PAUSE_S = 30.0
# How often requests are looked for, and how often the figures are reported.
LOOK_S, REPORT_S = 0.2, 2.0
CONTROL, TOTALS = "control.json", "totals.json"


class PipelineSupervisor:
    """Runs one pipeline until a signal."""

    new_process = ""
    """Why only a new process can go on: no request to a pipeline calls for one."""

    def __init__(
        self,
        settings: Settings,
        pipeline: Pipeline,
        bus: Bus,
        spark: SparkSession,
        stop: threading.Event,
        home: LocalPath,
        known: Sequence[str],
        guard: RequestAuthenticator | None,
    ) -> None:
        """home: the pipeline's own folder; known: topics that patterns may match, unprefixed."""
        self._settings, self._pipeline, self._bus = settings, pipeline, bus
        self._spark, self._stop, self._home, self._known = spark, stop, home, known
        self._topics = Topics(settings.topic_prefix)
        self._figures = PipelineFigures(
            home / TOTALS, queries.tick_topic(pipeline, settings.topic_prefix)
        )
        self._report = PipelineReporter(
            bus, self._topics.pipelines, pipeline, self._figures, now_ms
        )
        self._queue = RequestQueue(
            bus,
            self._topics.control,
            query_name(pipeline.name),
            home / CONTROL,
            now_ms,
            self._report.answer,
            guard,
        )
        self._loop = RunLoop(
            self,
            self._queue,
            self._report,
            spark,
            stop,
            name=pipeline.name,
            longest_pause_s=LONGEST_PAUSE_S,
        )
        self._batch = -1
        master = settings.pipelines_master
        alone = settings.model_copy(update={"spark_master": master}).one_machine
        self._cluster = None if alone else Cluster(spark, master or "", lambda: 1)

    def run(self) -> None:
        """Run until `stop` is set. Raises JvmLost, and nothing else."""
        self._report.stopped = self._queue.stopped
        self._loop.run()

    # ---- the query ------------------------------------------------------------------------------

    def run_once(self) -> None:
        """Run the query until it is due to end. Raises what ended it."""
        if self._cluster and not self._cluster.await_executors(
            self._loop.due_to_end, self._stop.wait, partial(self._report.status, "waiting")
        ):
            return
        self._bus.ensure_topics(
            queries.sink_specs(self._pipeline, self._settings.topic_prefix),
            replication=self._settings.replication,
        )
        places = queries.locate(self._pipeline, self._bus, self._settings.topic_prefix, self._known)
        epoch = current_epoch(self._home)
        drop_uncommitted(epoch.path)
        self._figures.begin(epoch.number)
        reached = positions(epoch.path)
        edges = self._bus.offsets(places.topics)
        lost = gaps(reached, edges, set(edges))
        present = self._bus.topic_ids(places.topics)
        known = start_of(epoch).logs
        if reached:
            check_logs(known, present)
        name_logs(epoch, {**known, **present})
        self._figures.reached |= {at: offset for at, offset in reached.items() if at in edges}
        session = queries.session_for(self._spark, self._pipeline)
        letters = self._topics.dead_letters
        built = queries.build(session, self._settings, self._pipeline, places, letters)
        self._report.graph = graph_of(self._pipeline, built, places)
        self._report.epoch, self._batch = epoch.number, -1
        counts = Counts.begin(self._spark.sparkContext)
        query = queries.start(self._settings, self._pipeline, built, epoch.path, counts)
        self._report.stopped = None
        self._report.status("running", "; ".join(lost))
        self._queue.settle("done")
        try:
            with self._ticking():
                self._watch(query, places.topics, counts)
        finally:
            self._loop.end(query)
            self._figures.add_gathered(counts.given.value, counts.sent.value)

    @contextmanager
    def _ticking(self) -> Iterator[None]:
        """Append ticks meanwhile, if the pipeline declares them."""
        every_ms = self._pipeline.trigger.tick_ms
        topic = queries.tick_topic(self._pipeline, self._settings.topic_prefix)
        ticker = Ticker(self._bus, [(topic, 0)], every_ms)
        if every_ms:
            ticker.start()
        try:
            yield
        finally:
            if every_ms:
                ticker.stop()

    def _watch(self, query: StreamingQuery, topics: Sequence[str], counts: Counts) -> None:
        """Return when the query is due to end or has ended; raises what ended it."""
        next_report, end = 0.0, end_of(query)
        while not self._loop.due_to_end():
            if end.wait(LOOK_S):
                query.awaitTermination()  # raises what ended it
                return
            if time.monotonic() >= next_report:
                next_report = time.monotonic() + REPORT_S
                self._figures.add_gathered(counts.given.value, counts.sent.value)
                self._look(query, topics)

    def _look(self, query: StreamingQuery, topics: Sequence[str]) -> None:
        for progress in self._ended(query):
            self._batch = progress["batchId"]
            self._figures.add(_plain(progress))
        with suppress(BusError):  # the figures are those of before, then
            edges = self._bus.offsets(topics)
            self._report.ends = {place: end for place, (_, end) in edges.items()}
            self._figures.skip_to({place: begin for place, (begin, _) in edges.items()})
        self._report.publish()

    def _ended(self, query: StreamingQuery) -> list[Any]:
        """Return Spark's progress of the batches that have ended since the last look."""
        last = query.lastProgress
        if last is None or last["batchId"] <= self._batch:
            return []
        # All that Spark remembers is much to read, so only where one is not enough.
        several = last["batchId"] > self._batch + 1
        recent = query.recentProgress if several else [last]
        return [one for one in recent if one["batchId"] > self._batch and one["numInputRows"]]

    # ---- requests -------------------------------------------------------------------------------

    def carry_out(self) -> bool:
        """Carry out new requests. Return whether what runs or waits now is to end for one."""
        ends = False
        for ask in self._queue.receive():
            ends |= self._carry_out(ask)
        return ends

    def _carry_out(self, ask: Control) -> bool:
        """Carry out a request. Return whether what runs or waits now is to end for it."""
        match ask.action:
            case "stop" if (stopped := self._queue.stopped) is not None:
                self._queue.answer(ask, "done", f"{stopped.user} had stopped it already")
                return False
            case "start" if self._queue.stopped is None and self._report.running:
                self._queue.answer(ask, "done", "it runs already")
                return False
            case "stop" | "start":
                self._queue.accept(ask)
            case "reset":
                self._queue.begin_rebuild(ask)
            case _:
                expected = "expected stop, start or reset of a pipeline"
                self._queue.answer(ask, "refused", f"{expected}, got {ask.action}")
                return False
        return True

    def prepare(self) -> None:
        """Carry out a reset: delete checkpoint and state, so that the log is read again."""
        ask = self._queue.rebuild
        if ask is None:
            return
        old, new = current_epoch(self._home), next_epoch(self._home)
        new.path.make()
        self._drop_before(new)
        self._figures.begin(new.number)
        log.info("%s: reset by %s: epoch %d", self._pipeline.name, ask.user, new.number)
        self._queue.answer(ask, "done", f"epoch {old.number} is deleted, {new.number} begins")

    def _drop_before(self, epoch: Epoch) -> None:
        for name in self._home.names():
            if name.startswith("epoch-") and name != epoch.path.name:
                shutil.rmtree(self._home / name, ignore_errors=True)

    def hold(self, stopped: Stopped) -> None:
        """Report that nothing is read."""
        self._report.stopped = stopped
        self._report.status("stopped", f"by {stopped.user}: {stopped.reason}")
        self._queue.settle("done", "it reads nothing until it is started")

    def judge(self, error: Exception, text: str) -> Verdict:
        """Return whether an error passes by itself."""
        verdict = judge(text)
        if isinstance(error, DeclarationError | queries.NotCoPartitioned):
            return Verdict(False, verdict.advice or "correct the declaration, or the topics")
        return verdict

    def close(self) -> None:
        """Close the queue of requests and the report."""
        self._queue.close()
        if self._stop.is_set():
            self._report.status("stopped", "the process was ended")
        self._report.close()


def _plain(progress: Any) -> Mapping[str, Any]:
    """Return Spark's progress as plain data."""
    plain: dict[str, Any] = json.loads(progress.json)
    return plain
