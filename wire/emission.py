"""Delays records before they are emitted, so that many updates of a key become one record.

A record waits `every_ms` from the first update of its key, and then carries the latest value. All
updates of a key within that time become one record, and none waits longer. Several sinks share a
`Budget` of bytes; when it is exceeded, the records that have waited longest leave early.

- Records leave in the order in which their keys began to wait. The values of one key keep their
  order; those of different keys may change places.
- `None` is a value like any other: it says that the key is gone, so it is never left out.
- An update with a lower version than the waiting one is dropped: it is a replay.
- `every_ms` 0 or `max_bytes` 0 turns waiting off: each update becomes a record.

Nothing here reads a clock or is thread-safe.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

EVERY_MS = 100
MAX_BYTES = 10 << 20
OVERHEAD = 400
"""Memory of a waiting record beyond its data, for Python's objects, bytes."""


class Record(NamedTuple):
    """A record that may be emitted. version: sorts as text; empty if there are no versions."""

    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    version: str = ""

    def size(self) -> int:
        """Return the memory that the record takes while it waits, bytes."""
        headers = sum(len(name) + len(value) for name, value in self.headers)
        return OVERHEAD + len(self.key) + len(self.value or b"") + headers


class Budget:
    """The bytes that the waiting records of several sinks may take together."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        """Raises ValueError for a negative number."""
        if max_bytes < 0:
            raise ValueError(f"max_bytes is {max_bytes}: expected 0 or more")
        self.max_bytes = max_bytes
        self.held = 0

    def exceeded(self) -> bool:
        """Return whether the waiting records exceed the budget."""
        return self.held > self.max_bytes


class Coalescer:
    """The waiting records of one sink. Times are in ms of a monotonic clock."""

    def __init__(self, every_ms: float = EVERY_MS, max_bytes: int | Budget = MAX_BYTES) -> None:
        """max_bytes: for this sink alone, or a budget that it shares.

        Raises ValueError for a negative number.
        """
        if every_ms < 0:
            raise ValueError(f"every_ms is {every_ms}: expected 0 or more")
        self._every_ms = every_ms
        self._budget = max_bytes if isinstance(max_bytes, Budget) else Budget(max_bytes)
        self._at_once: list[Record] = []
        self._waiting: dict[bytes, tuple[float, Record]] = {}

    def __len__(self) -> int:
        """Return the number of records that have not left yet."""
        return len(self._at_once) + len(self._waiting)

    def put(
        self,
        key: bytes,
        value: bytes | None,
        now_ms: float,
        headers: Sequence[tuple[str, bytes]] = (),
        version: str = "",
    ) -> None:
        """Start waiting with this record, or replace the one waiting unless its version is
        higher."""
        record = Record(key, value, tuple(headers), version)
        if not self._every_ms or not self._budget.max_bytes:
            self._at_once.append(record)
            self._budget.held += record.size()
            return
        since, before = self._waiting.get(key, (now_ms, None))
        if before is not None:
            if version and version < before.version:
                return
            self._budget.held -= before.size()
        self._waiting[key] = since, record
        self._budget.held += record.size()

    def due(self, now_ms: float) -> list[Record]:
        """Return the records whose wait is over, and the oldest ones while the budget is exceeded.

        A caller that calls this after each `put` that exceeds the budget never holds more than one
        record beyond it, however many sinks share it.
        """
        records, self._at_once = self._at_once, []
        for record in records:
            self._budget.held -= record.size()
        while self._waiting:
            key = next(iter(self._waiting))
            since, _ = self._waiting[key]
            if since + self._every_ms > now_ms and not self._budget.exceeded():
                break
            records.append(self._take(key))
        return records

    def next_due(self) -> float | None:
        """Return when the next record is due, ms, or None if none waits."""
        if self._at_once:
            return 0
        return next((since + self._every_ms for since, _ in self._waiting.values()), None)

    def drain(self) -> list[Record]:
        """Return all waiting records, due or not."""
        return self.due(float("inf"))

    def _take(self, key: bytes) -> Record:
        _, record = self._waiting.pop(key)
        self._budget.held -= record.size()
        return record
