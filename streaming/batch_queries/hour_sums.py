"""How long assets were in good, bad and unconfirmed states, hour by hour; from their histories.

What lasts for many hours costs no more than what ends at once: an hour's sum has what lies partly
in it, and for each time that covers it wholly its own length.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from wire.batch_query import KINDS_OF_TIME, SummedHour

Span = tuple[int, int]


class Status(NamedTuple):
    """What an asset shows from `at` on, Unix ms. state: None of one that is gone."""

    at: int
    state: str | None
    unconfirmed: bool


class _Sums:
    """Times of one kind, by hour."""

    def __init__(self, edges: Sequence[int]) -> None:
        self._edges = edges
        self._parts = [0] * (len(edges) - 1)
        self._covers = [0] * len(edges)
        """Of each hour, how many more times cover it wholly than the hour before."""

    def add(self, begin: int, end: int) -> None:
        """Add a time that lies within the edges."""
        first = bisect_right(self._edges, begin) - 1
        last = bisect_right(self._edges, end) - 1
        if first == last:
            self._parts[first] += end - begin
            return
        self._parts[first] += self._edges[first + 1] - begin
        self._covers[first + 1] += 1
        self._covers[last] -= 1
        if last < len(self._parts):
            self._parts[last] += end - self._edges[last]

    def by_hour(self) -> list[int]:
        """Return the sum of each hour, ms."""
        lengths = [after - before for before, after in pairwise(self._edges)]
        covers = accumulate(self._covers)
        return [
            part + covered * length
            for part, covered, length in zip(self._parts, covers, lengths, strict=False)
        ]


class HourSums:
    """Adds up the histories of a scenario's assets.

    edges: where the hours begin, and the last one ends; excluded: by asset, the times (in order,
    apart from each other) that count as maintenance; under "" those of all that are not named.
    """

    def __init__(
        self,
        edges: Sequence[int],
        is_good: Callable[[str], bool],
        excluded: Mapping[str, Sequence[Span]],
    ) -> None:
        self._edges, self._is_good, self._excluded = edges, is_good, excluded
        self._sums = {kind: _Sums(edges) for kind in KINDS_OF_TIME}
        self._begun = [0] * (len(edges) - 1)
        self.assets = self.incidents = self.affected = 0

    def add(self, asset: str, history: Sequence[Status]) -> None:
        """Count one asset. history: in order."""
        begin, end = self._edges[0], self._edges[-1]
        present = 0
        for status, until in _spans(history, end):
            span = max(status.at, begin), until
            if status.state is not None and span[0] < span[1]:
                present += 1
                self._add(asset, self._kind(status.state, status.unconfirmed), span)
        self.assets += present > 0
        incidents = list(self._incidents(history))
        self.incidents += len(incidents)
        self.affected += bool(incidents)
        for began in incidents:
            if began >= begin:
                self._begun[bisect_right(self._edges, began) - 1] += 1

    def _kind(self, state: str, unconfirmed: bool) -> str:
        if unconfirmed:
            return "unconfirmed"
        return "good" if self._is_good(state) else "bad"

    def _add(self, asset: str, kind: str, span: Span) -> None:
        """Add a time, its maintenance apart."""
        at, end = span
        everywhere = self._excluded.get("", ())
        for first, last in self._excluded.get(asset, everywhere):
            low, high = max(first, at), min(last, end)
            if low < high:
                self._sums["maintenance"].add(low, high)
                if at < low:
                    self._sums[kind].add(at, low)
                at = high
        if at < end:
            self._sums[kind].add(at, end)

    def _incidents(self, history: Sequence[Status]) -> Iterator[int]:
        """Yield when each unbroken time outside the good states began that overlaps the hours."""
        began: int | None = None
        for status, _ in _spans(history, self._edges[-1]):
            in_trouble = status.state is not None and not self._is_good(status.state)
            if in_trouble and began is None:
                began = status.at
            if not in_trouble and began is not None:
                if status.at > self._edges[0]:
                    yield began
                began = None
        if began is not None:
            yield began

    def hours(self) -> list[SummedHour]:
        """Return the sums of each hour."""
        columns = [self._sums[kind].by_hour() for kind in KINDS_OF_TIME]
        return [
            SummedHour(*row) for row in zip(self._edges[:-1], *columns, self._begun, strict=True)
        ]


def _spans(history: Sequence[Status], end: int) -> Iterator[tuple[Status, int]]:
    """Yield each status that begins before `end`, and until when it lasts, `end` at the latest."""
    ends = [status.at for status in history[1:]] + [end]
    for status, until in zip(history, ends, strict=False):
        if status.at < end:
            yield status, min(until, end)


def add_all(sums: HourSums, histories: Iterable[tuple[str, Collection[Status]]]) -> None:
    """Count every asset."""
    for asset, history in histories:
        sums.add(asset, list(history))
