"""The timer index: when the next timer of each asset fires, in order of time."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Protocol


class TimerIndex(Protocol):
    """The part of a timer index that the fold uses."""

    def set(self, asset: str, time: int | None) -> None:
        """Set when the next timer of `asset` fires, ms; None: it has no timer."""

    def pop(self, upto: int) -> tuple[int, str] | None:
        """Remove and return the earliest (time, asset) at or before `upto` ms, or None."""

    def __len__(self) -> int:
        """Return the number of assets with a timer."""


class TimerHeap:
    """A timer index in memory: a heap that skips outdated entries when they reach the top."""

    def __init__(self, entries: Iterable[tuple[str, int]] = ()) -> None:
        self._times = dict(entries)
        self._heap: list[tuple[int, str]] = []
        self._rebuild()

    def set(self, asset: str, time: int | None) -> None:
        """Set when the next timer of `asset` fires, ms; None: it has no timer."""
        if time is None:
            self._times.pop(asset, None)
        elif self._times.get(asset) != time:
            self._times[asset] = time
            heapq.heappush(self._heap, (time, asset))
            if len(self._heap) > 2 * len(self._times) + 64:
                self._rebuild()

    def pop(self, upto: int) -> tuple[int, str] | None:
        """Remove and return the earliest (time, asset) at or before `upto` ms, or None."""
        while self._heap and self._heap[0][0] <= upto:
            time, asset = heapq.heappop(self._heap)
            if self._times.get(asset) == time:
                del self._times[asset]
                return time, asset
        return None

    def earliest(self) -> int | None:
        """Return when the earliest timer fires, ms, or None."""
        while self._heap and self._times.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def items(self) -> Iterator[tuple[str, int]]:
        """Iterate over all (asset, time) pairs."""
        return iter(self._times.items())

    def __len__(self) -> int:
        return len(self._times)

    def _rebuild(self) -> None:
        self._heap = [(time, asset) for asset, time in self._times.items()]
        heapq.heapify(self._heap)
