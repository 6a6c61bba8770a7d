"""How the query fares, for the progress topic."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

from bus.base import Bus, BusError
from domain.bounds import Bound
from domain.quarantine import QuarantinedRange
from streaming.state.checkpoint import measure
from streaming.state.storage import StoragePath
from wire.job import (
    MAX_ERROR,
    Carried,
    Checkpoint,
    ClockBehind,
    JobAnswer,
    QueryReport,
    Status,
    Stopped,
    encode,
)

log = logging.getLogger("streaming.fold.progress")

# How long a broker may be away until what was to be told is given up.
KEPT_S = 300

MEASURE_EVERY_S = 10.0

_FIGURES = (
    "batchId",
    "timestamp",
    "batchDuration",
    "numInputRows",
    "inputRowsPerSecond",
    "processedRowsPerSecond",
    "durationMs",
)
_STATE = (
    "numRowsUpdated",
    "memoryUsedBytes",
    "commitTimeMs",
    "numShufflePartitions",
)
# Spark's custom metrics of the state, as they are named after `rocksdb`.
_ROCKSDB = (
    "SstFileSize",
    "PinnedBlocksMemoryUsage",
    "TotalBytesWritten",
    "TotalBytesRead",
    "BytesCopied",
    "GetCount",
    "PutCount",
    "LoadLatencyMs",
    "CommitFlushLatency",
    "CommitCheckpointLatency",
    "CommitFileSyncLatencyMs",
    "TotalCompactionLatencyMs",
    "ReadBlockCacheHitCount",
    "ReadBlockCacheMissCount",
)


class ProgressReporter:
    """Publishes what happens to one query. While Kafka is away it is logged alone."""

    def __init__(self, bus: Bus, topic: str, query: str, clock: Callable[[], int]) -> None:
        self._topic, self._query, self._clock = topic, query, clock
        self._producer = bus.producer(linger_ms=0, message_timeout_s=KEPT_S)
        self.epoch = 0
        self.restarts = 0
        self._status: Status = "starting"
        self._since = 0
        self._trigger = self._message = ""
        self._stopped: Stopped | None = None
        self.rebuild: Callable[[], Stopped | None] = lambda: None
        self.bounds: Mapping[str, Sequence[Bound]] = {}
        self.asides: Mapping[str, Sequence[QuarantinedRange]] = {}
        self.clocks_behind: Mapping[str, ClockBehind] = {}
        self.replaced: Sequence[str] = ()
        self._standby = 0
        self._folder: StoragePath | None = None
        self._checkpoint: Checkpoint | None = None
        self._measured = 0.0

    @property
    def running(self) -> bool:
        """Return whether the query runs, by the last report."""
        return self._status in ("running", "catching-up")

    def status(self, status: Status, message: str = "", error: str = "") -> None:
        """Report a status. error: the whole text of what ended the query."""
        self._since = self._clock() if status != self._status or not self._since else self._since
        self._status = status
        level = logging.WARNING if status in ("waiting", "restarting", "failed") else logging.INFO
        log.log(level, "%s: %s", status, message or "as it should be")
        self._measure(force=True)
        self._message = message
        self._publish(message, error=error.replace("\0", "")[:MAX_ERROR])

    def stands_by(self, since: int) -> None:
        """Report since when a standby is ready, Unix ms, 0 for none, if that has changed."""
        if since != self._standby:
            self._standby = since
            self._publish(self._message)

    def judged_clocks(self, behind: Mapping[str, ClockBehind]) -> None:
        """Report in which buckets the broker's clock is behind the driver's; {}: in none."""
        self.clocks_behind = behind
        words = [f"{name} by {clock.by // 1000} s" for name, clock in sorted(behind.items())]
        level = logging.WARNING if behind else logging.INFO
        log.log(level, "the broker's clock is behind in: %s", ", ".join(words) or "no bucket now")
        self._publish(self._message)

    def runs(self, status: Status, trigger: str, message: str, checkpoint: StoragePath) -> None:
        """Report that the query has started on this checkpoint."""
        self._trigger, self._stopped, self._folder = trigger, None, checkpoint
        self.status(status, message)

    def stand_still(self, stopped: Stopped) -> None:
        """Report that the query is being stopped."""
        self._stopped, self._since, self._status = stopped, stopped.since, "stopped"
        self.status("stopped", f"by {stopped.user}: {stopped.reason}")

    def batch(self, figures: Mapping[str, Any]) -> None:
        """Report Spark's figures of a finished batch."""
        self._measure()
        self._publish("", batch_figures(figures))

    def carries(self, carried: Carried) -> None:
        """Report a scenario as the job now carries it."""
        self._publish("", carried=carried)

    def answer(self, answer: JobAnswer) -> None:
        """Report the answer to a request."""
        self._publish("", answer=answer)

    def _measure(self, *, force: bool = False) -> None:
        """Look at the checkpoint, now and then: it is some hundred files."""
        if self._folder is not None and (force or monotonic() - self._measured > MEASURE_EVERY_S):
            self._measured = monotonic()
            self._checkpoint = measure(self._folder)

    def _publish(
        self,
        message: str,
        batch: dict[str, Any] | None = None,
        error: str = "",
        answer: JobAnswer | None = None,
        carried: Carried | None = None,
    ) -> None:
        record = QueryReport(
            query=self._query,
            at=self._clock(),
            status=self._status,
            epoch=self.epoch,
            message=message,
            restarts=self.restarts,
            batch=batch,
            since=self._since,
            trigger=self._trigger,
            error=error,
            checkpoint=self._checkpoint,
            stopped=self._stopped,
            rebuild=self.rebuild(),
            answer=answer,
            carried=carried,
            bounds={name: tuple(held) for name, held in self.bounds.items()},
            asides={name: tuple(held) for name, held in self.asides.items()},
            standby=self._standby,
            clocks_behind=dict(self.clocks_behind),
            replaced=tuple(self.replaced),
        )
        try:
            self._producer.send(self._topic, self._query.encode(), encode(record))
            self._producer.poll(0)
        except BusError as failure:
            log.debug("progress not sent: %s", failure)

    def close(self) -> None:
        """Send what is still to be sent, for a moment."""
        self._producer.close()


def batch_figures(progress: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of Spark's progress that readers are promised."""
    figures = {name: progress[name] for name in _FIGURES if name in progress}
    _count_records(figures, progress.get("sources") or [])
    operators = progress.get("stateOperators") or [{}]
    figures["state"] = {name: operators[0][name] for name in _STATE if name in operators[0]}
    custom = operators[0].get("customMetrics") or {}
    rocksdb = {name: custom[f"rocksdb{name}"] for name in _ROCKSDB if f"rocksdb{name}" in custom}
    if rocksdb:
        figures["rocksdb"] = {name[0].lower() + name[1:]: n for name, n in rocksdb.items()}
    return figures


def _count_records(figures: dict[str, Any], sources: Sequence[Mapping[str, Any]]) -> None:
    """Have the figures count records where Spark has counted rows that hold many of them."""
    rows, records = figures.get("numInputRows", 0), sum(map(_length, sources))
    if not 0 < rows < records:
        return
    for name in ("numInputRows", "inputRowsPerSecond", "processedRowsPerSecond"):
        if name in figures:
            figures[name] *= records / rows
    figures["numInputRows"] = records


def _length(source: Mapping[str, Any]) -> int:
    """Return how many offsets a batch covers; 0 if its begin or end is unknown."""
    begin, end = source.get("startOffset"), source.get("endOffset")
    if not isinstance(begin, Mapping) or not isinstance(end, Mapping):
        return 0
    return sum(
        offset - begin.get(topic, {}).get(partition, offset)
        for topic, offsets in end.items()
        for partition, offset in offsets.items()
    )
