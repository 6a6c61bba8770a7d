"""Runs: the unbroken times that a history spends in one condition.

A history comes in steps, each with a place in a log, and in portions. A log that is read again
brings steps at places that are known already: what was known from there on is cut off first, so
that the runs are always those of the history as it was brought last.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Step(NamedTuple):
    """A change of condition at a place. at: Unix ms; key: the new condition, None for that of no
    run; anew: whether what is known from this place on is void."""

    place: str
    at: int
    key: Hashable | None
    anew: bool = False


@dataclass
class Run:
    """An unbroken time in one condition. Times in Unix ms; end: None while it goes on; note: what
    its owner knows of it besides."""

    place: str
    begin: int
    key: Hashable
    end: int | None = None
    end_place: str = ""
    note: str = ""


class Track:
    """The runs of one history, of which those are known that a step may change.

    touched, gone: places of runs that are new or changed, and of those that are void; since: the
    earliest time (Unix ms) at which anything is other than it was, None where nothing is; current:
    the run that goes on, if one does.
    """

    def __init__(self, known: Iterable[Run] = ()) -> None:
        self.runs = {run.place: run for run in known}
        self.current = self._open()
        self.touched: set[str] = set()
        self.gone: set[str] = set()
        self.since: int | None = None

    def take(self, step: Step) -> None:
        """Take the next step of the history."""
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
        """Return the run that goes on, if one does."""
        return next((run for run in self.runs.values() if run.end is None), None)

    def _cut(self, place: str) -> None:
        """Forget what is known from a place on."""
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
    """Return the times that at least one of the spans covers, in order; those that touch are one.

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
    """Return the parts of a span outside and inside of merged spans, each in order."""
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
