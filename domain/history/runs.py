"""Runs: the unbroken times that a history spends in one condition.

A history arrives in portions of steps, each with a place in a log. When a log is read again, it
brings steps at places that are already known. What was known from there on is then cut off, so that
the runs always follow the latest reading of the history.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Step(NamedTuple):
    """A change of condition at a place.

    at: Unix ms; key: the new condition, or None if it starts no run; anew: whether everything known
    from this place on is void.
    """

    place: str
    at: int
    key: Hashable | None
    anew: bool = False


@dataclass
class Run:
    """An unbroken time in one condition. Times are in Unix ms.

    end: None while the run continues; note: additional information for the owner.
    """

    place: str
    begin: int
    key: Hashable
    end: int | None = None
    end_place: str = ""
    note: str = ""


class Track:
    """The runs of one history, as far as a step may still change them.

    touched: places of runs that are new or changed; gone: places of runs that are void; since: the
    earliest time (Unix ms) at which anything changed, None if nothing did; current: the run that is
    still open, if any.
    """

    def __init__(self, known: Iterable[Run] = ()) -> None:
        self.runs = {run.place: run for run in known}
        self.current = self._open()
        self.touched: set[str] = set()
        self.gone: set[str] = set()
        self.since: int | None = None

    def take(self, step: Step) -> None:
        """Apply the next step of the history."""
        if step.anew:
            self._cut(step.place)
        current = self.current
        if current is not None and current.key == step.key:
            return
        self.current = None
        if current is not None:
            current.end, current.end_place = max(step.at, current.begin), step.place
            self._touch(current.place, step.at)
        if step.key is not None:
            self.current = self.runs[step.place] = Run(step.place, step.at, step.key)
            self._touch(step.place, step.at)

    def _open(self) -> Run | None:
        return next((run for run in self.runs.values() if run.end is None), None)

    def _cut(self, place: str) -> None:
        """Discard everything known from a place on."""
        for run in list(self.runs.values()):
            if run.place >= place:
                del self.runs[run.place]
                self.touched.discard(run.place)
                self.gone.add(run.place)
                self._changed(run.begin)
            elif run.end is not None and run.end_place >= place:
                self._touch(run.place, run.end)
                run.end, run.end_place = None, ""
        self.current = self._open()

    def _touch(self, place: str, at: int) -> None:
        self.touched.add(place)
        self.gone.discard(place)
        self._changed(at)

    def _changed(self, at: int) -> None:
        self.since = at if self.since is None else min(self.since, at)


def merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the times covered by at least one of the spans, in order. Adjoining spans become one.

    Empty spans cover nothing.
    """
    whole: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if end <= begin:
            continue
        if whole and begin <= whole[-1][1]:
            whole[-1] = (whole[-1][0], max(end, whole[-1][1]))
        else:
            whole.append((begin, end))
    return whole


def without(
    span: tuple[int, int], cut_out: Iterable[tuple[int, int]]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the parts of a span outside and inside merged spans, each in order."""
    begin, end = span
    outside, inside = [], []
    for first, last in cut_out:
        low, high = max(first, begin), min(last, end)
        if high <= low:
            continue
        if low > begin:
            outside.append((begin, low))
        inside.append((low, high))
        begin = high
    if begin < end:
        outside.append((begin, end))
    return outside, inside
