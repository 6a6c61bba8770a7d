"""How one pipeline fares, for the topic `job.pipelines`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import msgspec

from bus.base import Bus, BusError, TopicPartition
from streaming.pipelines.declaration import Pipeline
from streaming.pipelines.figures import Figures
from wire.job import MAX_ERROR, Answer, Status, Stopped
from wire.pipeline import Gathering, Node, PipelineProgress, encode_pipeline

log = logging.getLogger("streaming.pipelines.report")

KEPT_S = 300


class PipelineReporter:
    """Publishes what happens to one pipeline. While Kafka is away it is logged alone."""

    def __init__(
        self, bus: Bus, topic: str, pipeline: Pipeline, figures: Figures, clock: Callable[[], int]
    ) -> None:
        """clock: Unix ms."""
        self._topic, self._pipeline, self._clock = topic, pipeline, clock
        self._figures = figures
        self._producer = bus.producer(linger_ms=0, message_timeout_s=KEPT_S)
        self._status: Status = "starting"
        self._since, self._message, self._error = clock(), "", ""
        self.epoch = self.restarts = 0
        self.graph: tuple[Node, ...] = ()
        self.stopped: Stopped | None = None
        self.ends: Mapping[TopicPartition, int] = {}

    @property
    def running(self) -> bool:
        """Return whether the pipeline runs, by the last report."""
        return self._status == "running"

    def status(self, status: Status, message: str = "", error: str = "") -> None:
        """Report a change of status. error: the whole text of what ended the query."""
        if status != self._status:
            self._since = self._clock()
        self._status, self._message = status, message
        self._error = error.replace("\0", "")[:MAX_ERROR]
        level = logging.WARNING if status in ("waiting", "restarting", "failed") else logging.INFO
        log.log(level, "%s: %s: %s", self._pipeline.name, status, message or "as it should be")
        self.publish()

    def answer(self, answer: Answer) -> None:
        """Report what became of a request."""
        self.publish(answer)

    def publish(self, answer: Answer | None = None) -> None:
        """Send how the pipeline fares now."""
        record = msgspec.structs.replace(self._record(), answer=answer)
        try:
            self._producer.send(self._topic, self._pipeline.name.encode(), encode_pipeline(record))
            self._producer.poll(0)
        except BusError as failure:
            log.debug("progress not sent: %s", failure)

    def _record(self) -> PipelineProgress:
        pipeline, figures = self._pipeline, self._figures
        totals, last = figures.totals, figures.last
        assignments = figures.assignments(self.ends)
        # A table that nobody asks is not read: that holds up no record.
        behind = sum(one.behind for one in assignments if one.topic not in figures.followed)
        states = last.get("stateOperators") or ()
        return PipelineProgress(
            name=pipeline.name,
            at=self._clock(),
            status=self._status,
            title=pipeline.title,
            since=self._since,
            message=self._message or self._misfits(),
            error=self._error,
            restarts=self.restarts,
            epoch=self.epoch,
            slots=pipeline.parallelism.slots,
            trigger=f"{pipeline.trigger.every_ms} ms",
            store=pipeline.state,
            graph=self.graph,
            assignments=assignments,
            invalid=figures.invalid(),
            records=totals.records,
            dead_letters=totals.dead_letters,
            rate=figures.rate,
            behind=behind,
            behind_ms=max(0, self._clock() - figures.newest) if behind and figures.newest else 0,
            batch=int(last.get("batchId", -1)),
            batch_ms=int(last.get("batchDuration", 0)),
            batch_records=figures.batch_records,
            batch_limit=pipeline.trigger.max_records,
            state_rows=sum(int(state.get("numRowsTotal", 0)) for state in states),
            state_bytes=sum(int(state.get("memoryUsedBytes", 0)) for state in states),
            gathering=self._gathering(),
            stopped=self.stopped,
        )

    def _gathering(self) -> Gathering | None:
        pipeline, totals = self._pipeline, self._figures.totals
        if not pipeline.gathering:
            return None
        return Gathering(totals.given, totals.sent, budget=pipeline.budget, share=pipeline.share)

    def _misfits(self) -> str:
        """Return of which global tables rows are left out, in words."""
        return "; ".join(
            f"{name}: rows of the global table that do not fit its schema: {rows:,}"
            for name, rows in sorted(self._figures.misfits.items())
            if rows and self.running
        )

    def close(self) -> None:
        """Send what is still to be sent, for a moment."""
        self._producer.close()
