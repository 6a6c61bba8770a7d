"""Timelines as bars: a piece for each time that an asset spends in a state. Times in Unix ms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from domain.scenario import Scenario, StateSpec
from wire.batch_query import MOST_MOMENTS, Difference, Moment

# Width of a bar, in units of its own.
WIDTH = 1000


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a bar: where it begins and how wide it is, its state, and from when to when."""

    x: float
    width: float
    spec: StateSpec
    begun: int
    ended: int


@dataclass(frozen=True, slots=True)
class Bar:
    """One rule's timeline. cut: there are more changes than are listed."""

    pieces: tuple[Piece, ...]
    steps: tuple[tuple[int, StateSpec | None], ...]
    cut: bool


def told_span(differences: Iterable[Difference], since: int, until: int) -> tuple[int, int]:
    """Return the part of a window in which any of these assets has a timeline.

    What lies before is empty.
    """
    begins = [
        since if before is not None else moments[0][0]
        for each in differences
        for before, moments in zip(each.before, (each.running, each.proposed), strict=True)
        if before is not None or moments
    ]
    return max(since, min(begins, default=since)), until


def bars(scenario: Scenario, difference: Difference, since: int, until: int) -> tuple[Bar, Bar]:
    """Return an asset's timelines, under the running and the proposed rule."""
    sides = zip(difference.before, (difference.running, difference.proposed), strict=True)
    running, other = (_bar(scenario, before, moments, since, until) for before, moments in sides)
    return running, other


def _bar(
    scenario: Scenario, before: str | None, moments: Sequence[Moment], since: int, until: int
) -> Bar:
    cut = len(moments) >= MOST_MOMENTS
    end = moments[-1][0] if cut else until
    marks = [(since, before), *moments, (max(end, since), None)]
    span = max(1, until - since)
    pieces = []
    for (begun, state), (ended, _) in pairwise(marks):
        if state is not None and ended > begun:
            x, width = WIDTH * (begun - since) / span, WIDTH * (ended - begun) / span
            spec = scenario.spec(state)
            pieces.append(Piece(round(x, 1), max(1.0, round(width, 1)), spec, begun, ended))
    steps = tuple((at, None if state is None else scenario.spec(state)) for at, state in moments)
    return Bar(tuple(pieces), steps, cut)
