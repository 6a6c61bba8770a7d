"""Checks of the totals kept beside the rows, which save counting or searching a million rows.

The totals are written in the transactions that write the rows, so the two must always agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from django.db import connection
from django.db.models import Count

from dashboard.core.states.models import AssetState, DoubtCount, StateCount
from dashboard.core.states.queries import DOUBTED, consistent

_INDEX_THERE = "SELECT 1 FROM sqlite_master WHERE name = 'states_nameparts_data'"
_INDEX_TOTALS = "SELECT block FROM states_nameparts_data WHERE id = 1"


@dataclass(frozen=True, slots=True)
class Miscounted:
    """A stored total that differs from the number of rows.

    kind: `count` (visible assets of a scenario in a state), `doubt` (visible assets with a doubt,
    whose name is then in `state`), or `names` (assets in the index of name parts, purged ones
    included; scenario and state are then empty).
    """

    kind: str
    expected: int
    found: int
    scenario: str = ""
    state: str = ""


def miscounted() -> list[Miscounted]:
    """Return every stored total that differs from the rows, all read at the same moment."""
    with consistent():
        return [*_counts(), *_doubts(), *_names()]


def _counts() -> Iterator[Miscounted]:
    visible = AssetState.objects.filter(purged=False).values_list("scenario", "state")
    rows = {(name, state): n for name, state, n in visible.annotate(Count("pk")).order_by()}
    kept = {(each.scenario, each.state): each.n for each in StateCount.objects.all()}
    yield from _unequal("count", rows, kept)


def _doubts() -> Iterator[Miscounted]:
    rows: dict[tuple[str, str], int] = {}
    for doubt, so in DOUBTED.items():
        doubted = AssetState.objects.filter(so, purged=False).values_list("scenario")
        counted = doubted.annotate(Count("pk")).order_by()
        rows |= {(scenario, doubt): n for scenario, n in counted}
    kept = {(each.scenario, each.doubt): each.n for each in DoubtCount.objects.all()}
    yield from _unequal("doubt", rows, kept)


def _unequal(
    kind: str, rows: Mapping[tuple[str, str], int], kept: Mapping[tuple[str, str], int]
) -> Iterator[Miscounted]:
    for place in sorted(rows.keys() | kept.keys()):
        expected, actual = rows.get(place, 0), kept.get(place, 0)
        if expected != actual:
            yield Miscounted(kind, expected, actual, *place)


def _names() -> Iterator[Miscounted]:
    actual = _indexed()
    if actual is not None:
        expected = AssetState.objects.count()
        if expected != actual:
            yield Miscounted("names", expected, actual)


def _indexed() -> int | None:
    """Return how many names the index holds.

    None if there is no index, or if the database maintains it itself. FTS5 cannot be asked for its
    number of rows: its text is in the table of assets, so it would count those. Its own total is
    read instead, which is the first number of its record of averages.
    """
    if connection.vendor != "sqlite":
        return None
    with connection.cursor() as cursor:
        cursor.execute(_INDEX_THERE)
        if cursor.fetchone() is None:
            return None
        cursor.execute(_INDEX_TOTALS)
        (block,) = cursor.fetchone()
    return _varint(block)


def _varint(block: bytes) -> int:
    """Return the variable-length integer of SQLite at the beginning of a block.

    Each byte holds seven bits, the high ones first. (A ninth byte would hold eight, but no number
    of rows is that large.)
    """
    number = 0
    for byte in block[:8]:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return number
