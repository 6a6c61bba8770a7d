"""What is due when: one next due time per asset, in order."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Protocol


class DueIndex(Protocol):
    """What the fold needs of an index of dues."""

    def set(self, asset: str, due: int | None) -> None:
        """From now on `asset` has something due at `due` ms, or nothing."""

    def pop(self, upto: int) -> tuple[int, str] | None:
        """Take out the earliest (due, asset) that is due at or before `upto` ms."""

    def __len__(self) -> int:
        """Assets with something due."""


class Dues:
    """Dues in memory: a heap whose outdated entries are passed over when they come up."""

    def __init__(self, entries: Iterable[tuple[str, int]] = ()) -> None:
        self._due = dict(entries)
        self._heap: list[tuple[int, str]] = []
        self._rebuild()

    def set(self, asset: str, due: int | None) -> None:
        """From now on `asset` has something due at `due` ms, or nothing."""
        if due is None:
            self._due.pop(asset, None)
        elif self._due.get(asset) != due:
            self._due[asset] = due
            heapq.heappush(self._heap, (due, asset))
            if len(self._heap) > 2 * len(self._due) + 64:
                self._rebuild()

    def pop(self, upto: int) -> tuple[int, str] | None:
        """Take out the earliest (due, asset) that is due at or before `upto` ms."""
        while self._heap and self._heap[0][0] <= upto:
            due, asset = heapq.heappop(self._heap)
            if self._due.get(asset) == due:
                del self._due[asset]
                return due, asset
        return None

    def earliest(self) -> int | None:
        """Return the earliest due time, ms, or None."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def items(self) -> Iterator[tuple[str, int]]:
        """List every (asset, due)."""
        return iter(self._due.items())

    def __len__(self) -> int:
        return len(self._due)

    def _rebuild(self) -> None:
        self._heap = [(due, asset) for asset, due in self._due.items()]
        heapq.heapify(self._heap)
