"""A copy of a topic as a table: upsert by key, null deletes; and which rows are asked for."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import Literal, NamedTuple

from bus.base import ConsumerRecord
from dashboard.operate.console.topics import ANY, TopicView, expression, is_empty, matcher

# ---- table ---------------------------------------------------------------------------------------
# A copy of a topic as a table: upsert by key, null deletes.
#
# Each partition is a table of its own, so that the order in which partitions are read changes
# nothing, and neither does what compaction has removed by then: a copy rebuilt from nothing equals
# the one that was built live. A key that stands in several partitions shows its newest record.
#
# Nothing here reads a clock or Kafka. One thread applies records, others read: a lock guards both.

Status = Literal["not-followed", "catching-up", "ready", "topic-absent", "too-large"]
Refusal = Literal["no-key", "other-key"]
Edges = Mapping[int, tuple[int, int]]

OVERHEAD = 300
"""What a row takes beside its bytes: Python's objects, bytes."""


class TopicRow(NamedTuple):
    """The newest record of a key. timestamp: Unix ms."""

    key: bytes
    value: bytes
    partition: int
    offset: int
    timestamp: int

    def size(self) -> int:
        """Return what the row takes in memory, bytes."""
        return OVERHEAD + len(self.key) + len(self.value)


class RowChange(NamedTuple):
    """What a record changed. before, after: the key's row; None where it has none."""

    key: bytes
    before: TopicRow | None
    after: TopicRow | None


class TablePage(NamedTuple):
    """Rows in the order of their keys; following: the key after which the next page begins."""

    rows: list[TopicRow]
    following: bytes | None


@dataclass(frozen=True, slots=True)
class CopyState:
    """How a copy fares. read, total: records read and to be read until it has caught up, counted
    by offsets; lag: how many it has not read now. as_of: the copy has all that the topic held at
    this time, Unix ms. refused: records that can stand in no table, by reason. restarts: how often
    it began anew."""

    status: Status
    records: int
    size: int
    partitions: int
    read: int
    total: int
    lag: int
    as_of: int | None
    refused: Mapping[Refusal, int]
    restarts: int


@dataclass(slots=True)
class _Partition:
    """begin, end: the log's edges as last received; goal: the end when the copy was begun."""

    begin: int
    end: int
    goal: int
    position: int


class _Moment(NamedTuple):
    """The ends of the log at a time, Unix ms."""

    at: int
    ends: Mapping[int, int]


class ViewTable:
    """The copy of one view's topic."""

    def __init__(self, view: TopicView) -> None:
        self.view = view
        self._lock = Lock()
        self._status: Status = "not-followed"
        self._partitions: dict[int, _Partition] = {}
        self._rows: dict[bytes, TopicRow] = {}
        self._older: dict[
            bytes, dict[int, TopicRow]
        ] = {}  # of keys that stand in several partitions
        self._keys: list[bytes] | None = None
        self._size, self._restarts = 0, 0
        self._as_of: int | None = None
        self._awaited: _Moment | None = None
        self._tests = [] if view.keys == ANY else [matcher(view.keys)]
        self._tests += [expression(view.matches)] if view.matches else []
        self._refused: dict[Refusal, int] = {"no-key": 0, "other-key": 0}

    # ---- what the tailer tells ----

    def expect(self) -> None:
        """Record that the copy is about to be read."""
        with self._lock:
            self._status = "catching-up"

    def begin(self, edges: Edges, at: int) -> None:
        """Begin anew: forget every row. edges: first and next offset of each partition at this
        time (Unix ms)."""
        with self._lock:
            self._restarts += bool(self._partitions)
            self._clear()
            self._partitions = {
                number: _Partition(begin, end, end, begin) for number, (begin, end) in edges.items()
            }
            self._awaited = _Moment(at, {number: end for number, (_, end) in edges.items()})
            self._status = "catching-up"
            self._update_status()

    def lose_topic(self) -> None:
        """Record that there is no such topic now. Rows stay, in case it is back unchanged."""
        with self._lock:
            if self._status != "too-large":
                self._status = "topic-absent"

    def regain_topic(self) -> None:
        """Record that the topic is there, and the one that it was."""
        with self._lock:
            if self._status == "topic-absent":
                self._status = "catching-up"
                self._update_status()

    def apply(self, messages: Iterable[ConsumerRecord]) -> list[RowChange]:
        """Apply records in the order of each partition; return what they changed.

        A copy that would hold more than it may holds nothing from then on.
        """
        changes = []
        with self._lock:
            for message in messages:
                partition = self._partitions.get(message.partition)
                if partition is None:
                    continue
                partition.position = message.offset + 1
                if message.key is None:
                    self._refused["no-key"] += 1
                    continue
                if not all(passes(message.key) for passes in self._tests):
                    self._refused["other-key"] += 1
                    continue
                if change := self._put(message.key, message.partition, self._row_of(message)):
                    changes.append(change)
                if self._is_too_large():
                    self._clear()
                    self._status = "too-large"
        return changes

    def reach(self, positions: Mapping[int, int]) -> None:
        """Record how far each partition has been read."""
        with self._lock:
            for at, position in positions.items():
                if at in self._partitions:
                    self._partitions[at].position = position
            self._update_status()

    def update_edges(self, edges: Edges, at: int) -> list[RowChange]:
        """Compare with the log's edges as they were at this time (Unix ms); return what changed.

        Rows of which the log has deleted the record leave the table, as a copy that is rebuilt
        would not have them.
        """
        with self._lock:
            if not self._partitions:
                return []
            known = {n: edge for n, edge in edges.items() if n in self._partitions}
            moved = any(begin > self._partitions[n].begin for n, (begin, _) in known.items())
            for number, (begin, end) in known.items():
                part = self._partitions[number]
                part.begin, part.end = max(part.begin, begin), end
            if self._awaited is None:
                self._awaited = _Moment(at, {number: end for number, (_, end) in known.items()})
            self._update_status()
            return self._forget_deleted() if moved else []

    def _forget_deleted(self) -> list[RowChange]:
        gone = [
            row
            for key in self._rows
            for row in self._rows_of(key).values()
            if row.offset < self._partitions[row.partition].begin
        ]
        changes = [self._put(row.key, row.partition, None) for row in gone]
        return [change for change in changes if change is not None]

    def _update_status(self) -> None:
        parts = self._partitions
        if self._status == "catching-up" and all(p.position >= p.goal for p in parts.values()):
            self._status = "ready"
        awaited = self._awaited
        if awaited and all(parts[n].position >= end for n, end in awaited.ends.items()):
            self._as_of, self._awaited = awaited.at, None

    def _put(self, key: bytes, partition: int, row: TopicRow | None) -> RowChange | None:
        """Set or delete a key's row of one partition; return whether another is its newest now."""
        before, rows = self._rows.get(key), self._rows_of(key)
        if (old := rows.pop(partition, None)) is not None:
            self._size -= old.size()
        if row is not None:
            rows[partition] = row
            self._size += row.size()
        after = max(rows.values(), key=_moment, default=None)
        if (before is None) != (after is None):
            self._keys = None
        self._older.pop(key, None)
        if after is None:
            self._rows.pop(key, None)
        else:
            self._rows[key] = after
            if len(rows) > 1:
                self._older[key] = {at: each for at, each in rows.items() if each is not after}
        return RowChange(key, before, after) if before is not after else None

    def _row_of(self, message: ConsumerRecord) -> TopicRow | None:
        """Return the row of a record, None for one that deletes its key's."""
        key, value = message.key, message.value
        if key is None or value is None or (self.view.drops_empty and is_empty(value)):
            return None
        return TopicRow(key, value, message.partition, message.offset, message.timestamp)

    def _rows_of(self, key: bytes) -> dict[int, TopicRow]:
        """Return a key's row in each partition that has one."""
        newest = self._rows.get(key)
        return {} if newest is None else {newest.partition: newest, **self._older.get(key, {})}

    def _is_too_large(self) -> bool:
        held = len(self._rows) + len(self._older)
        return held > self.view.max_records or self._size > self.view.max_bytes

    def _clear(self) -> None:
        self._partitions, self._rows, self._older = {}, {}, {}
        self._keys, self._as_of, self._awaited, self._size = None, None, None, 0

    # ---- what pages and programs ask ----

    def state(self) -> CopyState:
        """Return how the copy fares."""
        with self._lock:
            parts = self._partitions.values()
            return CopyState(
                status=self._status,
                records=len(self._rows),
                size=self._size,
                partitions=len(self._partitions),
                read=sum(max(0, min(part.position, part.goal) - part.begin) for part in parts),
                total=sum(max(0, part.goal - part.begin) for part in parts),
                lag=sum(max(0, part.end - part.position) for part in parts),
                as_of=self._as_of,
                refused=dict(self._refused),
                restarts=self._restarts,
            )

    def row(self, key: bytes) -> TopicRow | None:
        """Return a key's row."""
        with self._lock:
            return self._rows.get(key)

    def page(
        self,
        passes: Callable[[TopicRow], bool],
        size: int,
        after: bytes | None = None,
        most_bytes: int | None = None,
        prefix: bytes = b"",
    ) -> TablePage:
        """Return the first rows that pass, or those after a key; fewer where they would be more
        than `most_bytes`, but one at least.

        prefix: what the keys of all rows that pass begin with.
        """
        rows: list[TopicRow] = []
        total = 0
        for row in filter(passes, self._rows_after(after, prefix)):
            total += len(row.key) + len(row.value)
            if len(rows) == size or (rows and most_bytes is not None and total > most_bytes):
                return TablePage(rows, rows[-1].key)
            rows.append(row)
        return TablePage(rows, None)

    def _rows_after(self, after: bytes | None, prefix: bytes) -> Iterator[TopicRow]:
        """Yield the rows of a prefix after a key; what changes meanwhile may show, or not."""
        with self._lock:
            rows = self._rows
            if self._keys is None:
                self._keys = sorted(rows)
            keys = self._keys
        start = bisect_left(keys, prefix)
        if after is not None:
            start = max(start, bisect_right(keys, after))
        for key in islice(keys, start, None):
            if not key.startswith(prefix):
                return
            if (row := rows.get(key)) is not None:  # one look-up is atomic
                yield row


def _moment(row: TopicRow) -> tuple[int, int]:
    return row.timestamp, row.partition


# ---- filters -------------------------------------------------------------------------------------
# Which rows of a view are asked for.

MAX_PATTERN = 255
"""Longest pattern of keys, characters."""


class TopicRowFilter(NamedTuple):
    """A pattern of whole keys, as file names have them (`*`, `?`, `[ab]`), empty for all; whether
    rows of which the value is empty are left out; and a regular expression of whole keys, empty for
    all."""

    keys: str = ""
    not_empty: bool = False
    matches: str = ""

    def test(self) -> Callable[[TopicRow], bool]:
        """Return a function that says whether a row passes. Raises BadExpression."""
        tests = [matcher(self.keys)] if self.keys else []
        tests += [expression(self.matches)] if self.matches else []
        return lambda row: all(passes(row.key) for passes in tests) and self._has_value(row)

    def prefix(self) -> bytes:
        """Return what the keys of all rows that pass begin with."""
        return re.split(r"[*?\[]", self.keys, maxsplit=1)[0].encode(errors="surrogateescape")

    def _has_value(self, row: TopicRow) -> bool:
        return not (self.not_empty and is_empty(row.value))
