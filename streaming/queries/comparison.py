"""Two histories of the same assets, held against each other: transitions gained, lost and moved.

A transition is a change from one state to another; None is an asset that is not there. Those of the
same kind at the same time are the same. Of what lies between two of these as many as possible are
matched, in their order and each with one of its kind, by the least shift in all: they have moved.
What is left was lost, or gained. Times in ms.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from domain.scenario import Scenario
from wire.batch_query import (
    MOST_DIFFERENT,
    MOST_MOMENTS,
    Began,
    Difference,
    Moment,
    StateTotal,
    Totals,
)

# Pairs that are weighed between two transitions which are the same; of more, the first that fits is
# taken.
MOST_PAIRS = 40_000


class History(NamedTuple):
    """One asset under each rule: times, and the states that began then."""

    asset: str
    running: Sequence[Moment]
    proposed: Sequence[Moment]


class StateTransition(NamedTuple):
    """A change of state."""

    at: int
    before: str | None
    after: str | None

    @property
    def kind(self) -> tuple[str | None, str | None]:
        """From which state to which."""
        return self.before, self.after


class Matched(NamedTuple):
    """How two histories compare. shifts: of each transition that moved, later is positive."""

    same: int
    lost: int
    gained: int
    shifts: tuple[int, ...]


# ---- one asset ----------------------------------------------------------------------------------


def within(history: Sequence[Moment], since: int) -> tuple[str | None, list[Moment]]:
    """Return the state when the window begins, and the moments within it. since: Unix ms."""
    before: str | None = None
    for number, (at, state) in enumerate(history):
        if at >= since:
            return before, list(history[number:])
        before = state
    return before, []


def transitions(before: str | None, moments: Iterable[Moment]) -> list[StateTransition]:
    """Return the changes that a history is made of."""
    changes = []
    for at, state in moments:
        changes.append(StateTransition(at, before, state))
        before = state
    return changes


def match(running: Sequence[StateTransition], proposed: Sequence[StateTransition]) -> Matched:
    """Compare one history's transitions with the other's. Returns counts, and shifts in ms."""
    common = Counter(running) & Counter(proposed)
    pieces = zip(_cut(running, common), _cut(proposed, common), strict=True)
    shifts = [shift for one, other in pieces for shift in _shifts(one, other)]
    known = common.total() + len(shifts)
    return Matched(common.total(), len(running) - known, len(proposed) - known, tuple(shifts))


def _cut(
    history: Sequence[StateTransition], common: Counter[StateTransition]
) -> list[list[StateTransition]]:
    """Return what lies between the transitions that are the same in both."""
    common = common.copy()
    pieces: list[list[StateTransition]] = [[]]
    for transition in history:
        if common[transition] > 0:
            common[transition] -= 1
            pieces.append([])
        else:
            pieces[-1].append(transition)
    return pieces


def _shifts(one: Sequence[StateTransition], other: Sequence[StateTransition]) -> list[int]:
    """Return by how much (ms) each transition of `one` with a like one in `other` has moved."""
    if not one or not other:
        return []
    if len(one) * len(other) > MOST_PAIRS:
        return _first_shifts(one, other)
    # best[i][j]: of one[i:] and other[j:], how many match, and by what shift in all (negative, so
    # that more is better).
    best = [[(0, 0)] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i in range(len(one) - 1, -1, -1):
        for j in range(len(other) - 1, -1, -1):
            best[i][j] = max(best[i + 1][j], best[i][j + 1])
            if one[i].kind == other[j].kind:
                count, shift = best[i + 1][j + 1]
                pair = (count + 1, shift - abs(other[j].at - one[i].at))
                best[i][j] = max(best[i][j], pair)
    return list(_way(one, other, best))


def _way(
    one: Sequence[StateTransition],
    other: Sequence[StateTransition],
    best: list[list[tuple[int, int]]],
) -> Iterator[int]:
    i = j = 0
    while i < len(one) and j < len(other):
        if best[i][j] == best[i + 1][j]:
            i += 1
        elif best[i][j] == best[i][j + 1]:
            j += 1
        else:
            yield other[j].at - one[i].at
            i, j = i + 1, j + 1


def _first_shifts(one: Sequence[StateTransition], other: Sequence[StateTransition]) -> list[int]:
    shifts, j = [], 0
    for transition in one:
        like = next((k for k in range(j, len(other)) if other[k].kind == transition.kind), None)
        if like is not None:
            shifts.append(other[like].at - transition.at)
            j = like + 1
    return shifts


# ---- all assets ---------------------------------------------------------------------------------


@dataclass
class HistoryTally:
    """The sums of the histories of all assets. scenario: for the order of its states."""

    since: int
    until: int
    scenario: Scenario
    assets: int = 0
    other_end: int = 0
    differing: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    states: tuple[Counter[str], Counter[str]] = field(
        default_factory=lambda: (Counter(), Counter())
    )
    durations: tuple[Counter[str], Counter[str]] = field(
        default_factory=lambda: (Counter(), Counter())
    )
    _kept: list[tuple[tuple[int, int, int], int, Difference]] = field(default_factory=list)

    def add(self, history: History) -> None:
        """Count one asset."""
        self.assets += 1
        sides = [within(side, self.since) for side in (history.running, history.proposed)]
        changes = [transitions(*side) for side in sides]
        for side, (before, moments) in enumerate(sides):
            self._time(side, before, moments)
            self.states[side].update(state for _, state in moments if state is not None)
        matched = match(*changes)
        self._count(changes, matched)
        ends = [moments[-1][1] if moments else before for before, moments in sides]
        self.other_end += ends[0] != ends[1]
        if changes[0] != changes[1] or sides[0][0] != sides[1][0]:
            self._keep(_difference(history.asset, sides, matched), ends[0] != ends[1])

    def _count(self, changes: list[list[StateTransition]], matched: Matched) -> None:
        self.counts.update(
            running=len(changes[0]),
            proposed=len(changes[1]),
            same=matched.same,
            gained=matched.gained,
            lost=matched.lost,
            earlier=sum(shift < 0 for shift in matched.shifts),
            later=sum(shift > 0 for shift in matched.shifts),
            shift=sum(map(abs, matched.shifts)),
        )

    def _time(self, side: int, before: str | None, moments: Sequence[Moment]) -> None:
        """Add how long the asset was in each state."""
        marks = [(self.since, before), *moments, (self.until, None)]
        for (begun, state), (ended, _) in pairwise(marks):
            if state is not None:
                self.durations[side][state] += max(0, min(ended, self.until) - begun)

    def _keep(self, difference: Difference, other_end: bool) -> None:
        """Keep those that differ most: in the number of transitions, at the end, by time."""
        self.differing += 1
        weight = (difference.gained + difference.lost, int(other_end), difference.shift)
        entry = (weight, -self.differing, difference)
        if len(self._kept) < MOST_DIFFERENT:
            heapq.heappush(self._kept, entry)
        else:
            heapq.heappushpop(self._kept, entry)

    def different(self) -> list[Difference]:
        """Return the assets that differ most, the largest difference first."""
        kept = sorted(self._kept, key=lambda entry: entry[:2], reverse=True)
        return [difference for _, _, difference in kept]

    def totals(
        self,
        began: dict[int, Began],
        offsets: dict[int, tuple[int, int]],
        engines: tuple[str, str],
        rules: tuple[dict[str, Any], dict[str, Any]],
        took_ms: int,
    ) -> Totals:
        """Return the totals. began: with what each partition began; offsets: what was replayed."""
        names = ("running", "proposed", "same", "gained", "lost", "earlier", "later", "shift")
        return Totals(
            begun=min(one.at for one in began.values()),
            began=began,
            since=self.since,
            until=self.until,
            offsets=offsets,
            records=sum(end - begin for begin, end in offsets.values()),
            assets=self.assets,
            different=self.differing,
            other_end=self.other_end,
            states=self._state_totals(),
            engines=engines,
            rules=rules,
            took_ms=took_ms,
            **{name: self.counts[name] for name in names},
        )

    def _state_totals(self) -> list[StateTotal]:
        """Return the totals by state, the most severe first: at most MOST_MOMENTS of them."""
        states = {*self.durations[0], *self.durations[1], *self.states[0], *self.states[1]}
        states |= {spec.name for spec in self.scenario.states}
        order = sorted(states, key=lambda state: (self.scenario.severity(state), state))
        return [
            StateTotal(
                state,
                self.durations[0][state],
                self.durations[1][state],
                self.states[0][state],
                self.states[1][state],
            )
            for state in order[:MOST_MOMENTS]
        ]


def _difference(
    asset: str, sides: list[tuple[str | None, list[Moment]]], matched: Matched
) -> Difference:
    return Difference(
        asset=asset,
        before=(sides[0][0], sides[1][0]),
        running=sides[0][1][:MOST_MOMENTS],
        proposed=sides[1][1][:MOST_MOMENTS],
        gained=matched.gained,
        lost=matched.lost,
        earlier=sum(shift < 0 for shift in matched.shifts),
        later=sum(shift > 0 for shift in matched.shifts),
        shift=sum(map(abs, matched.shifts)),
    )


def compare(tally: HistoryTally, histories: Iterable[History]) -> None:
    """Count every asset."""
    for history in histories:
        tally.add(history)
