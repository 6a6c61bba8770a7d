"""A pipeline's report of itself, and the figures in it."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from bus.base import Bus, BusError, TopicPartition
from streaming.pipelines.declaration import Pipeline
from streaming.pipelines.records import FOLLOWED, LATE, MISFITS, OBSERVED, REASONS
from wire.job import MAX_ERROR, JobAnswer, Status, Stopped
from wire.pipeline import Assignment, Gathering, Invalid, Node, PipelineProgress, encode_pipeline

# ---- figures -------------------------------------------------------------------------------------
# What a pipeline has read and reached, added up from Spark's progress of its batches.


class PipelineTotals(msgspec.Struct):
    """What is counted since the last reset; batch: the last one that is in it.

    invalid: by reason and topic, as `ahead@orders.reports`; given, sent: updates that the tables
    were given, and records that they sent, those of a batch that is done again too.
    """

    epoch: int = 0
    batch: int = -1
    records: int = 0
    dead_letters: int = 0
    given: int = 0
    sent: int = 0
    invalid: dict[str, int] = {}


class PipelineFigures:
    """The figures of one pipeline. A batch that is done again is counted once."""

    def __init__(self, path: Path, ticks: str = "") -> None:
        """path: the file that keeps the totals through a restart; ticks: a topic that is read for
        its ticks alone, and is none of what is shown."""
        self._path, self._ticks = path, ticks
        self.totals = _load(path)
        self.newest = 0
        self.tasks: dict[TopicPartition, int] = {}
        self.reached: dict[TopicPartition, int] = {}
        self.followed: set[str] = set()  # the topics of global tables
        self.misfits: dict[str, int] = {}
        self.last: Mapping[str, Any] = {}
        self._gathered = (0, 0)

    def begin(self, epoch: int) -> None:
        """Count from nothing where the epoch is another one."""
        if self.totals.epoch != epoch:
            self.totals = PipelineTotals(epoch)
            self._save()
        self.newest, self.tasks, self.reached, self.last = 0, {}, {}, {}
        self.misfits = {}
        self._gathered = (0, 0)

    def add_gathered(self, given: int, sent: int) -> None:
        """Add what the tables were given and have sent; both: since the query started."""
        before, self._gathered = self._gathered, (given, sent)
        if before != self._gathered:
            self.totals.given += given - before[0]
            self.totals.sent += sent - before[1]
            self._save()

    def add(self, progress: Mapping[str, Any]) -> None:
        """Add a batch, by Spark's progress of it."""
        self.last = progress
        for source in progress.get("sources", ()):
            offsets = _offsets(source.get("endOffset"))
            self.reached |= {at: next_ for at, next_ in offsets.items() if at[0] != self._ticks}
        self._take_tables(progress)
        totals, fresh = self.totals, progress["batchId"] > self.totals.batch
        invalid = Counter(totals.invalid)
        for observed in _observed(progress, OBSERVED).values():
            self._take_tasks(observed.get("tasks", ()))
            self.newest = max(self.newest, int(observed.get("newest") or 0))
            if fresh:
                totals.records += int(observed.get("records", 0))
                totals.dead_letters += int(observed.get("unreadable", 0))
                invalid.update({k: int(n) for k, n in observed.items() if _counts_fault(k) and n})
        totals.invalid = dict(invalid)
        totals.batch = max(totals.batch, progress["batchId"])
        if fresh:
            self._save()

    @property
    def batch_records(self) -> int:
        """Return how many records the last batch read. Spark's own figure counts them once for each
        time that its plan reads a source."""
        observed = _observed(self.last, OBSERVED).values()
        return sum(int(each.get("records") or 0) for each in observed)

    @property
    def rate(self) -> float:
        """Return how many records the last batch read in a second."""
        took_ms = int(self.last.get("batchDuration") or 0)
        return self.batch_records * 1000 / took_ms if took_ms else 0.0

    def _take_tables(self, progress: Mapping[str, Any]) -> None:
        for row in _observed(progress, FOLLOWED).values():
            self._take_tasks(row.pop("tasks", ()))
            self.reached |= {_place(place): next_ for place, next_ in row.items() if next_}
            self.followed |= {_place(place)[0] for place in row}
        rows = _observed(progress, MISFITS).items()
        self.misfits |= {name: int(row.get("rows") or 0) for name, row in rows}

    def skip_to(self, begins: Mapping[TopicPartition, int]) -> None:
        """Record where logs begin: nothing before that counts as lag."""
        for place, begin in begins.items():
            self.reached[place] = max(begin, self.reached.get(place, 0))

    def _take_tasks(self, places: list[str]) -> None:
        for place in places:
            at, _, task = place.rpartition("@")
            self.tasks[_place(at)] = int(task)

    def assignments(self, ends: Mapping[TopicPartition, int]) -> tuple[Assignment, ...]:
        """Return each partition's task and how far it is behind. ends: the logs' next offsets."""
        places = sorted(ends.keys() | self.reached.keys())
        return tuple(
            Assignment(
                topic=place[0],
                partition=place[1],
                task=self.tasks.get(place, -1),
                behind=max(0, ends.get(place, 0) - self.reached.get(place, 0)),
            )
            for place in places
        )

    def invalid(self) -> tuple[Invalid, ...]:
        """Return how many records were left out for their time, by topic and reason."""
        pairs = ((*key.partition("@")[::2], n) for key, n in sorted(self.totals.invalid.items()))
        return tuple(Invalid(topic, reason, n) for reason, topic, n in pairs)

    def _save(self) -> None:
        draft = self._path.with_suffix(".new")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(msgspec.json.encode(self.totals))
        draft.replace(self._path)


def _observed(progress: Mapping[str, Any], prefix: str) -> dict[str, dict[str, Any]]:
    """Return what was observed under names that begin with a prefix, by the rest of the name."""
    metrics = progress.get("observedMetrics") or {}
    return {
        name.removeprefix(prefix): dict(row)
        for name, row in metrics.items()
        if name.startswith(prefix)
    }


def _place(text: str) -> TopicPartition:
    topic, _, partition = text.rpartition("@")
    return topic, int(partition)


def _counts_fault(key: str) -> bool:
    return key.partition("@")[0] in (*REASONS, LATE) and "@" in key


def _offsets(end: Any) -> dict[TopicPartition, int]:
    """Return Spark's offsets by partition; empty where there are none yet."""
    read = json.loads(end) if isinstance(end, str) else end
    return {
        (topic, int(partition)): offset
        for topic, offsets in (read or {}).items()
        for partition, offset in offsets.items()
    }


def _load(path: Path) -> PipelineTotals:
    try:
        return msgspec.json.decode(path.read_bytes(), type=PipelineTotals)
    except (OSError, msgspec.MsgspecError):
        return PipelineTotals()


# ---- report --------------------------------------------------------------------------------------
# How one pipeline fares, for the topic `job.pipelines`.

log = logging.getLogger("streaming.pipelines.report")

KEPT_S = 300


class PipelineReporter:
    """Publishes what happens to one pipeline. While Kafka is away it is logged alone."""

    def __init__(
        self,
        bus: Bus,
        topic: str,
        pipeline: Pipeline,
        figures: PipelineFigures,
        clock: Callable[[], int],
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

    def answer(self, answer: JobAnswer) -> None:
        """Report the answer to a request."""
        self.publish(answer)

    def publish(self, answer: JobAnswer | None = None) -> None:
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
        """Return the global tables whose rows do not fit, in words, or ''."""
        return "; ".join(
            f"{name}: rows of the global table that do not fit its schema: {rows:,}"
            for name, rows in sorted(self._figures.misfits.items())
            if rows and self.running
        )

    def close(self) -> None:
        """Send what is still to be sent, for a moment."""
        self._producer.close()
