"""The board at a past moment, from the board of now and the changes since.

What has not changed since is as it was. What has changed was, at that moment, what the first change
after it names as its previous state. So the cost is that of the changes since, and no asset needs a
history that reaches back to the moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple

from django.db.models import Max, QuerySet
from django.utils.http import urlencode

from dashboard.core.common.sql import chunks
from dashboard.core.common.tables import Column, Table
from dashboard.core.common.times import FIELD_SECOND, field_text
from dashboard.core.states import queries
from dashboard.core.states.board_rows import asset_path
from dashboard.core.states.caveats import rank_of, ranks_of
from dashboard.core.states.models import CHANGE, AssetState, Transition
from domain.scenario import Scenario

PAGE = 200
"""Most rows of a page."""
MOST_CHANGES = 200_000
"""Of so many changes since a moment the board at that moment is worked out, and of no more."""
PORTION = 10_000
"""Assets that are looked up at a time."""

COUNTS = Table(
    "", "State", Column.number("Then"), Column.number("Now"), Column.number("Change"),
    narrow=True,
)  # fmt: skip
THEN = Table("as-of-board", "Asset", "State then", Column.time("Since"))
DIFFERENCES = Table(
    "as-of-differences",
    "Asset",
    "Then",
    "Now",
    Column("Worst since", "the most severe state since"),
    Column.number("Changes"),
    Column.time("First change"),
)


class TooManyChanges(ValueError):
    """More has changed since the moment than is worked out."""


class Then(NamedTuple):
    """An asset at the moment. since: 0 where it is not known any more; times in Unix ms."""

    scenario: Scenario
    asset: str
    state: str
    since: int

    @property
    def order(self) -> queries.Order:
        """Its place on the board of then."""
        return (rank_of(self.scenario.severity(self.state), None), -self.since, self.asset)

    @property
    def url(self) -> str:
        """Where the asset's page is."""
        return asset_path(self.scenario.name, self.asset)


class PastDifference(NamedTuple):
    """What an asset was, what it is, and what was in between. state, now: empty where it was, or
    is, not on the board; worst: the most severe state that it had since; at: of the first change.
    """

    scenario: Scenario
    asset: str
    state: str
    now: str
    worst: str
    changes: int
    at: int

    @property
    def stayed(self) -> bool:
        """Whether it is again what it was."""
        return self.state == self.now

    @property
    def url(self) -> str:
        """Where the asset's page is."""
        return asset_path(self.scenario.name, self.asset)


class Narrowed(NamedTuple):
    """Which assets: in a state, with a text in their name; empty: any."""

    state: str = ""
    q: str = ""

    def named(self, asset: str) -> bool:
        """Return whether the name contains the text, whatever its case."""
        return self.q.casefold() in asset.casefold()


class PastQuery(NamedTuple):
    """What of the past is to be shown. at: Unix ms; state: of then; now: of now, `-` for none."""

    scenario: str
    at: int
    view: str = "differences"
    state: str = ""
    now: str = ""
    q: str = ""
    back: bool = False

    def address(self, **others: Any) -> str:
        """Return the query of the page that shows this, with some of it changed."""
        given = {**self._asdict(), **others}
        given["at"] = field_text(given["at"], FIELD_SECOND)
        given["back"] = "on" if given["back"] else ""
        return urlencode({name: text for name, text in given.items() if text})

    def includes(self, one: PastDifference) -> bool:
        """Return whether a difference passes the filter."""
        return (
            (self.back or not one.stayed)
            and (not self.state or self.state == (one.state or "-"))
            and (not self.now or self.now == (one.now or "-"))
            and Narrowed(q=self.q).named(one.asset)
        )


class AsOf:
    """The board of one scenario at a moment. Raises TooManyChanges."""

    def __init__(self, scenario: Scenario, at: int) -> None:
        """Read what has changed since `at` (Unix ms). Raises TooManyChanges.

        What changed in that very ms has changed by then.
        """
        self.scenario, self.at = scenario, at
        self._changed = _changed(scenario, at)
        self._now = _states_now(scenario, self._changed)

    def counts(self) -> dict[str, int]:
        """Return how many assets were in each state."""
        counts = Counter(queries.counts(self.scenario.name))
        counts.update(change.state for change in self._changed.values() if change.state)
        counts.subtract(now for now in self._now.values() if now)
        return {state: n for state, n in counts.items() if n > 0}

    def page(self, narrowed: Narrowed, after: queries.Order | None = None) -> list[Then]:
        """Return PAGE rows of the past board after `after`, and one more where there are more."""
        return list(islice(self.rows(narrowed, after), PAGE + 1))

    def rows(self, narrowed: Narrowed, after: queries.Order | None = None) -> Iterator[Then]:
        """Yield the rows of the past board after `after`, in its order."""
        moved = (row for row in self._moved(narrowed) if after is None or row.order > after)
        waiting = next(moved, None)
        for row in self._stayed(narrowed, after):
            while waiting is not None and waiting.order < row.order:
                yield waiting
                waiting = next(moved, None)
            yield row
        if waiting is not None:
            yield waiting
            yield from moved

    def differences(self) -> list[PastDifference]:
        """Return what has changed since, the most severe of now first, then by name."""
        differences = [
            PastDifference(
                self.scenario,
                asset,
                first.state,
                self._now.get(asset, ""),
                min(first.states, key=self.scenario.severity, default=""),
                first.changes,
                first.at,
            )
            for asset, first in self._changed.items()
        ]
        return sorted(differences, key=self._severity_now)

    def _severity_now(self, one: PastDifference) -> tuple[bool, int, str]:
        return (not one.now, self.scenario.severity(one.now) if one.now else 0, one.asset)

    def _moved(self, narrowed: Narrowed) -> Iterator[Then]:
        """Return the assets that have changed since, as they were, in the past board's order."""
        states = {
            asset: first.state
            for asset, first in self._changed.items()
            if first.state and narrowed.named(asset) and narrowed.state in ("", first.state)
        }
        since = _since(self.scenario, list(states), self.at)
        rows = (Then(self.scenario, a, state, since.get(a, 0)) for a, state in states.items())
        return iter(sorted(rows, key=lambda row: row.order))

    def _stayed(self, narrowed: Narrowed, after: queries.Order | None) -> Iterator[Then]:
        """Yield the assets that have not changed since, in the past board's order."""
        states = AssetState.objects.filter(
            scenario=self.scenario.name, purged=False, since__lte=self.at
        )
        if narrowed.state:
            states = states.filter(state=narrowed.state)
        if narrowed.q:
            states = queries.containing(states, narrowed.q)
        for severity in self._severities(narrowed.state):
            # What was disputed then nobody knows: those that are now stand among the others.
            parts = [_of_rank(states, severity, rank, after) for rank in ranks_of(severity)]
            for asset, state, since in merge(*parts, key=_by_time):
                if asset not in self._changed:
                    yield Then(self.scenario, asset, state, since)

    def _severities(self, state: str) -> Iterable[int]:
        """Return the severities that assets in the state may have; for an empty state, all."""
        if state:
            return (self.scenario.severity(state),)
        return range(-1, len(self.scenario.states) + 1)


Row = tuple[str, str, int]
"""Asset, state and since."""


def _of_rank(
    states: QuerySet[AssetState], severity: int, rank: int, after: queries.Order | None
) -> Iterator[Row]:
    """Yield the rows of a rank past `after` in the board's order, as ranges of its index."""
    rows = states.filter(rank=rank).order_by("-since", "asset")
    for part in _past(rows, rank_of(severity, None), after):
        yield from part.values_list("asset", "state", "since").iterator()


def _past(
    rows: QuerySet[AssetState], rank: int, after: queries.Order | None
) -> Iterator[QuerySet[AssetState]]:
    """Yield the parts of `rows` past `after`; all of them are at `rank` on the past board."""
    if after is None or rank > after[0]:
        yield rows
    elif rank == after[0]:
        _, newest, asset = after
        yield rows.filter(since=-newest, asset__gt=asset)
        yield rows.filter(since__lt=-newest)


def _by_time(row: Row) -> tuple[int, str]:
    asset, _, since = row
    return (-since, asset)


class _First:
    """The first change of an asset after the moment, and what all of them made of it."""

    __slots__ = ("at", "changes", "place", "state", "states")

    def __init__(self) -> None:
        self.place, self.state, self.at, self.changes = "", "", 0, 0
        self.states: set[str] = set()

    def take(self, place: str, previous: str, state: str, at: int) -> None:
        """Add a change; the order does not matter."""
        if not self.changes or place < self.place:
            self.place, self.state, self.at = place, previous, at
        self.changes += 1
        self.states.update({state} - {""})


def _changed(scenario: Scenario, at: int) -> dict[str, _First]:
    changes = Transition.objects.filter(scenario=scenario.name, kind=CHANGE, at__gt=at)
    columns = changes.values_list("asset", "place", "previous", "state", "at")
    first_changes: dict[str, _First] = {}
    rows = columns[: MOST_CHANGES + 1].iterator()
    for n, (asset, place, previous, state, when) in enumerate(rows, 1):
        if n > MOST_CHANGES:
            raise TooManyChanges(
                f"over {MOST_CHANGES:,} changes since then: expected a later moment"
            )
        first_changes.setdefault(asset, _First()).take(place, previous, state, when)
    return first_changes


def _states_now(scenario: Scenario, assets: dict[str, _First]) -> dict[str, str]:
    """Return the current states of these assets, without those that are not on the board."""
    shown = AssetState.objects.filter(scenario=scenario.name, purged=False)
    states: dict[str, str] = {}
    for names in chunks(assets, PORTION):
        rows = shown.filter(asset__in=queries.listed(names))
        states.update(rows.values_list("asset", "state"))
    return states


def _since(scenario: Scenario, assets: list[str], at: int) -> dict[str, int]:
    """Return since when (Unix ms) these assets were as they were then, where the history has it."""
    before = Transition.objects.filter(scenario=scenario.name, kind=CHANGE, at__lte=at)
    since: dict[str, int] = {}
    for names in chunks(assets, PORTION):
        rows = before.filter(asset__in=queries.listed(names)).values("asset")
        since.update(rows.annotate(since=Max("at")).values_list("asset", "since").order_by())
    return since
