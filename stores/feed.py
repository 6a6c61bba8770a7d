"""Keeps a table in step with the states of a scenario.

The topic is its own changelog: a table that has lost everything reads it from the beginning,
through the same transformation as before.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from threading import Lock

import structlog

from bus.base import Bus, BusError, ConsumerRecord, Reader, Unavailable
from bus.follower import TopicConsumer
from stores.base import AssetTable, Change, Displaced, StoreProblem, now_ms
from stores.transformation import Transformation

log = structlog.get_logger(__name__)

BATCH = 5_000
WAIT_S = 0.1
GATHER_S = 0.02
"""How long a broker may gather records before it answers: one answer per record costs both
sides."""
LOOK_S = 1.0
"""How often to check the ends of the logs."""
PRUNE_S = 60.0
"""How often to forget old purges."""
KEPT_MS = 6 * 86_400_000
"""How long a purged asset's version is kept; the topic keeps its tombstone one day longer."""


class TableFeed(TopicConsumer):
    """Reads partitions of a topic into a table. Only one thread may call `step`."""

    faults = (BusError, StoreProblem)

    def __init__(
        self,
        bus: Bus,
        topic: str,
        table: AssetTable,
        kept: Transformation,
        *,
        partitions: Collection[int] | None = None,
    ) -> None:
        """partitions: those to read; None: all."""
        self._bus, self._topic, self.table, self._kept = bus, topic, table, kept
        self.name = f"feed-{topic}"
        self._lock = Lock()
        self._assigned = None if partitions is None else frozenset(partitions)
        self._at: dict[int, int] = {}
        self._targets: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._ahead: dict[int, tuple[int, int]] = {}
        self._next_look = self._next_prune = 0.0
        self.unreadable = 0
        """Number of records skipped because they are no states."""

    def assign(self, partitions: Collection[int], anew: Collection[int] = ()) -> None:
        """Read these partitions from now on.

        anew: those of them that become level only once they reach the end that the log has from now
        on.
        """
        with self._lock:
            self._assigned = frozenset(partitions)
            for partition in {*anew, *self.table.level()} - (self._assigned - set(anew)):
                self.table.set_level(partition, False)
            super().close()

    def assignment(self) -> frozenset[int] | None:
        """Return the partitions that are read; None: all."""
        return self._assigned

    def partitions(self) -> int:
        """Return the topic's number of partitions as last seen, 0 before that."""
        return len(self._ends)

    def ready(self) -> bool:
        """Return whether every assigned partition has been level with the log."""
        partitions = self._ends.keys() if self._assigned is None else self._assigned
        return bool(self._ends) and self.table.level() >= set(partitions)

    def lag(self, partitions: Collection[int] | None = None) -> int | None:
        """Return the number of offsets not read yet, or None before the log's end is known."""
        if not self._ends:
            return None
        at = self.table.positions()
        chosen = at.keys() if partitions is None else partitions
        return sum(max(0, self._ends.get(each, 0) - at.get(each, 0)) for each in chosen)

    def step(self) -> int:
        """Read and apply what has arrived, and return the number of records.

        Raises BusError, StoreProblem, Displaced.
        """
        with self._lock:
            if self._reader is None:
                self._reader = self._open()
            messages = self._reader.poll(WAIT_S, BATCH)
            self._drop_gaps(self._reader)
            self._apply(messages, self._reader)
            self._reach()
            self._maintain(time.monotonic())
        return len(messages)

    def _open(self) -> Reader:
        self._ahead.clear()
        edges = self._look()
        if not edges:
            raise Unavailable(f"there is no topic {self._topic} yet")
        partitions = edges.keys() if self._assigned is None else self._assigned & edges.keys()
        self._check_log()
        known = self.table.positions()
        for partition in partitions:
            begin, end = edges[partition]
            if partition in known and not begin <= known[partition] <= end:
                log.warning("a store is past its log, and begins again", partition=partition)
                self.table.drop(partition)
        for partition in partitions:
            self.table.begin(partition, edges[partition][0])
        known = self.table.positions()
        self._at = {partition: known[partition] for partition in partitions}
        self._targets = {at: end for at, end in self._ends.items() if at in partitions}
        starts = {(self._topic, at): start for at, start in self._at.items()}
        return self._bus.reader(starts, gather_s=GATHER_S)

    def _check_log(self) -> None:
        """Drop what the table has of a topic that was created again. Raises BusError."""
        present = self._bus.topic_ids([self._topic]).get(self._topic, "")
        if not present:
            return  # a broker that has just started may not name the topic yet
        if self.table.log() not in ("", present):
            log.warning(
                "a store is of a topic that was deleted, and begins again", topic=self._topic
            )
            for partition in self.table.positions():
                self.table.drop(partition)
        self.table.set_log(present)

    def _look(self) -> dict[int, tuple[int, int]]:
        """Return the first and next offset of each partition. Raises BusError.

        Once the table reaches one of these ends, it has everything that was in the log before the
        request. An end not reached yet stays in place; otherwise a table that is always slightly
        behind would never reach one.
        """
        asked_at = now_ms()
        edges = {at: edge for (_, at), edge in self._bus.offsets([self._topic]).items()}
        self._ends = {at: end for at, (_, end) in edges.items()}
        self._ahead = {at: (end, asked_at) for at, end in self._ends.items()} | self._ahead
        return edges

    def _reach(self) -> None:
        """Record which partitions have reached their known ends."""
        by_time: dict[int, list[int]] = {}
        for at, (end, asked_at) in self._ahead.items():
            if self._at.get(at, -1) >= end:
                by_time.setdefault(asked_at, []).append(at)
        for asked_at, partitions in by_time.items():
            self.table.set_as_of(partitions, asked_at)
            for at in partitions:
                del self._ahead[at]

    def _drop_gaps(self, reader: Reader) -> None:
        """Restart partitions whose next record is no longer in the log. Raises Displaced."""
        gaps = self._pop_gaps(reader)
        for gap in gaps:
            self.table.drop(gap.partition)
        if gaps:
            raise Displaced

    def _apply(self, messages: Collection[ConsumerRecord], reader: Reader) -> None:
        by_partition: dict[int, list[Change]] = {at: [] for at in self._at}
        for message in messages:
            change = self._read(message)
            if change is not None:
                by_partition[message.partition].append(change)
        for (_, partition), position in reader.positions().items():
            start = self._at[partition]
            if position != start or partition in self._targets:
                self.table.apply(partition, by_partition[partition], start, position)
                self._at[partition] = position
            if position >= self._targets.get(partition, position + 1):
                self.table.set_level(partition, True)
                del self._targets[partition]

    def _read(self, message: ConsumerRecord) -> Change | None:
        try:
            return self._kept.change(message)
        except ValueError as error:
            self.unreadable += 1
            where = f"{message.topic}/{message.partition}/{message.offset}"
            log.warning("a store passes over a record", where=where, error=repr(error))
            return None

    def _maintain(self, now: float) -> None:
        if now >= self._next_look:
            self._next_look = now + LOOK_S
            self._look()
            self._check_kept()
        if now >= self._next_prune:
            self._next_prune = now + PRUNE_S
            self.table.prune(time.time_ns() // 1_000_000 - KEPT_MS)

    def _check_kept(self) -> None:
        """Raise Displaced if the table has lost what was read, even if no more records arrive."""
        known = self.table.positions()
        lost = [at for at, position in self._at.items() if known.get(at, -1) < position]
        if lost:
            log.warning("a store has lost what was read, and reads it again", partitions=lost)
            raise Displaced

    def close(self) -> None:
        """Close the reader; the table stays."""
        with self._lock:
            super().close()
