"""Numbers kept with the rows, so that nobody counts or searches a million of them.

Both are written in the transactions that write the rows, so at any moment they must agree.
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
    """A number that is not the number of rows.

    kind: count (of the visible assets of a scenario in a state), doubt (of those that there is a
    doubt of, whose name stands in place of a state), or names (of assets, purged ones too, in the
    index of names' parts; without scenario and state).
    """

    kind: str
    expected: int
    found: int
    scenario: str = ""
    state: str = ""


def miscounted() -> list[Miscounted]:
    """Return every kept number that the rows do not bear out, all as of one moment."""
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
    """Return how many names the index has; None where there is none, or it is the database's own.

    Queried for its number of rows, FTS5 would count those of the assets: its text is theirs. So its
    own total is read, the first number of its record of averages.
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
    """Return SQLite's integer of variable length at the beginning of a block.

    It has seven bits a byte, the high ones first. (A ninth byte would have eight; no number of rows
    is that large.)
    """
    number = 0
    for byte in block[:8]:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return number
