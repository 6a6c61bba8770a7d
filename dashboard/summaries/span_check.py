"""Incidents and spans compared with the changes of states that they are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple, cast

from django.db.models import QuerySet

from dashboard.annotations.acknowledgements import Move as StateMove
from dashboard.core.chunks import STATEMENT
from dashboard.incidents.models import real
from dashboard.incidents.recorder import follow as follow_incidents
from dashboard.states.models import CHANGE, CONFIRMED, UNCONFIRMED
from dashboard.states.queries import listed
from dashboard.summaries.check import Change, Difference, histories
from dashboard.summaries.models import Presence, TroubleSpan
from dashboard.summaries.recorder import KINDS, Condition, Move, follow
from domain.history.periods import Span
from domain.history.runs import Run
from domain.scenario import Scenario

PRESENCE, TROUBLE, _ = KINDS
RUN = ("begin", "end", "end_place")
INCIDENT = ("began_at", "ended_at", "state", "worst", "changes")
Row = tuple[Any, ...]
Rows = dict[str, Row]
"""By place. The first field of a row is when it begins, Unix ms, the second when it ends."""


class Kept(NamedTuple):
    """A kind of rows. fields: that are compared."""

    what: str
    rows: QuerySet[Any]
    fields: tuple[str, ...]


def row_differences(scenario: Scenario, span: Span) -> Iterator[Difference]:
    """Yield where incidents and spans that began in a time are not what the changes make, by
    today's rule. Of an asset is compared what began with its first change that is kept, or later.
    """
    kinds = (
        Kept("incident", real(), INCIDENT),
        Kept("time on the board", Presence.objects.all(), RUN),
        Kept("time of trouble", TroubleSpan.objects.all(), (*RUN, "state", "unconfirmed")),
    )
    changes = histories(scenario.name)
    while portion := dict(islice(changes, STATEMENT)):
        made = {asset: _made(scenario, own) for asset, own in portion.items()}
        for number, kind in enumerate(kinds):
            known = _known(kind, scenario.name, portion)
            for asset, own in portion.items():
                pair = made[asset][number], known.get(asset, {})
                yield from _compared(scenario.name, asset, kind, own[0].place, pair, span)


def _known(kind: Kept, scenario: str, assets: Iterable[str]) -> dict[str, Rows]:
    """Return the kept rows of assets."""
    by_asset: dict[str, Rows] = {}
    rows = kind.rows.filter(scenario=scenario, asset__in=listed(list(assets)))
    for asset, place, *own in rows.values_list("asset", "place", *kind.fields):
        by_asset.setdefault(asset, {})[place] = tuple(own)
    return by_asset


def _compared(
    scenario: str, asset: str, kind: Kept, first: str, pair: tuple[Rows, Rows], span: Span
) -> Iterator[Difference]:
    """Yield the differences of one asset's rows of a kind. pair: counted and kept ones."""
    counted, kept = pair
    for place in sorted(counted.keys() | {each for each in kept if each >= first}):
        one, other = counted.get(place), kept.get(place)
        begin = (other or one or (0,))[0]
        if one == other or not span.begin <= begin < span.end:
            continue
        if one is None or other is None:
            told = ("none", "one") if other is None else ("one", "none")
            yield Difference(scenario, begin, kind.what, *told, asset)
            continue
        for name, expected, found in zip(kind.fields, one, other, strict=True):
            if expected != found:
                what = f"{kind.what}, {name}"
                yield Difference(scenario, begin, what, found, expected, asset)


# ---- what changes make --------------------------------------------------------------------------


def _made(scenario: Scenario, changes: list[Change]) -> tuple[Rows, Rows, Rows]:
    """Return the incidents, times on the board and times of trouble that an asset's changes make,
    those aside that began before the first of them."""
    first = changes[0]
    moves = [
        Move(each.place, each.at, Condition(each.state, bool(each.unconfirmed)), anew=False)
        for each in changes
    ]
    there = {
        place: (run.begin, run.end, run.end_place)
        for place, run in follow(PRESENCE, scenario, (), moves).runs.items()
    }
    trouble = {
        place: (run.begin, run.end, run.end_place, *_kind_of(run))
        for place, run in follow(TROUBLE, scenario, (), moves).runs.items()
    }
    if first.previous:
        there.pop(first.place, None)
    if first.kind not in (CHANGE, UNCONFIRMED, CONFIRMED):
        trouble.pop(first.place, None)
    return _incidents(scenario, changes), there, trouble


def _kind_of(run: Run) -> tuple[str, bool]:
    """Return state and mark of a time of trouble."""
    state, unconfirmed = cast("tuple[str, bool]", run.key)
    return state, unconfirmed


def _incidents(scenario: Scenario, changes: list[Change]) -> Rows:
    """Return the incidents of an asset."""
    moves = [
        StateMove(scenario.name, each.asset, each.place, each.at, each.state, each.previous)
        for each in changes
        if each.kind == CHANGE
    ]
    if not moves:
        return {}
    incidents = {
        each.place: (each.began_at, each.ended_at, each.state, each.worst, each.changes)
        for each in follow_incidents(scenario, [], moves)[0]
        if each.began_at != each.ended_at
    }
    if moves[0].previous and not scenario.is_good(moves[0].previous):
        incidents.pop(moves[0].place, None)
    return incidents
