"""Comparison of the fold's state changes with those in the database.

It covers the changes of the records that are replayed, except those so old that retention may have
deleted them. A change that reached the log while the database was being read may be there or not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

from dashboard.core.common.sql import STATEMENT, by_code_points, chunks
from dashboard.core.common.times import SECOND_MS
from dashboard.core.states.models import CHANGE, IMPORT, Transition, history_edge
from dashboard.core.states.rows import (
    CHANGE_COLUMNS,
    VERSION_PARTS,
    ReadableRecord,
    Shown,
    change_row,
    kind_of,
)
from wire.bucket_fold import FoldedRecord
from wire.sink import StateValue

FIRST_EPOCH = "1".zfill(VERSION_PARTS[0])


class RecordedChange(NamedTuple):
    """A change of an asset. at: Unix ms; cause: JSON; unconfirmed: the mark after the change."""

    asset: str
    place: str
    kind: str
    version: str
    at: int
    previous: str
    state: str
    cause_type: str
    cause: str
    unconfirmed: bool | None


COMPARED = tuple(
    name for name in RecordedChange._fields if name not in ("asset", "place", "version")
)
assert RecordedChange._fields == CHANGE_COLUMNS[1:]


@dataclass
class ChangeDifference:
    """A change that differs from the log: kind is missing, extra or differs.

    what: the kind of change; state: after it; at: Unix ms; fields: (expected, found) by name.
    """

    scenario: str
    asset: str
    place: str
    kind: str
    what: str
    state: str
    at: int
    fields: dict[str, tuple[Any, Any]] = field(default_factory=dict)


def changes_of(
    scenario: str, records: Iterable[tuple[FoldedRecord, ReadableRecord]]
) -> list[RecordedChange]:
    """Return the changes that an asset's records make.

    records: in order, from its first one, as the fold wrote them and as the materialiser reads
    them. One that a snapshot held makes none: those before it are not known.
    """
    shown, made = Shown(), []
    for folded, record in records:
        shape = record.shape
        after = Shown(record.state, isinstance(shape, StateValue) and shape.unconfirmed)
        kind = kind_of(shown, after, shape.cause.type)
        if kind is not None and not folded.restored:
            made.append(RecordedChange(*change_row(scenario, record, kind, shown)[1:]))
        shown = after
    return made


@lru_cache(maxsize=1_000)
def place_at(offset: int) -> str:
    """Return the first place of an offset, as a change has it."""
    return ".".join(
        str(part).zfill(digits) for part, digits in zip((offset, 0), VERSION_PARTS[1:], strict=True)
    )


class ChangeComparison:
    """Compares the changes of one scenario, asset by asset."""

    def __init__(self, scenario: str, clock: Callable[[], int]) -> None:
        self._scenario, self._clock = scenario, clock
        self._edge, self._edge_until = 0, 0

    def rows(self) -> Iterator[tuple[str, list[RecordedChange]]]:
        """Yield each asset with its stored changes, both in order; read bit by bit."""
        yield from self._rows(Transition.objects.all())

    def rows_of(self, assets: Collection[str]) -> dict[str, list[RecordedChange]]:
        """Return the stored changes of some assets, by asset."""
        known: dict[str, list[RecordedChange]] = {}
        for portion in chunks(sorted(assets), STATEMENT):
            known |= self._rows(Transition.objects.filter(asset__in=portion))
        return known

    def _rows(self, rows: Any) -> Iterator[tuple[str, list[RecordedChange]]]:
        rows = rows.filter(scenario=self._scenario, at__gte=self.edge)
        rows = rows.exclude(cause_type=IMPORT)  # no log has these
        rows = rows.order_by(*by_code_points("asset"), "place")
        changes = map(
            RecordedChange._make, rows.values_list(*RecordedChange._fields).iterator(2_000)
        )
        for asset, own in groupby(changes, key=lambda change: change.asset):
            yield asset, list(own)

    @property
    def edge(self) -> int:
        """The time since which retention has deleted no change, Unix ms; a second old at most."""
        now = self._clock()
        if now >= self._edge_until:
            self._edge, self._edge_until = history_edge(self._scenario, now), now + SECOND_MS
        return self._edge

    def of_asset(
        self,
        folded: Sequence[RecordedChange],
        rows: Sequence[RecordedChange],
        *,
        due: int,
        begin: int,
    ) -> tuple[list[ChangeDifference], int]:
        """Return the differences of an asset, and how many stored changes were compared.

        folded: what the fold made since offset `begin`; due: how many of these the database must
        have.
        """
        edge, compared = self.edge, 0
        by_place = {row.place: row for row in rows}
        differences = []
        for number, change in enumerate(folded):
            row = by_place.pop(change.place, None)
            if row is not None:
                compared += 1
                if fields := _differing(change, row):
                    differences.append(self._difference("differs", change, fields))
            elif change.at >= edge and number < due and not _is_reported_later(change, rows):
                differences.append(self._difference("missing", change))
        for row in by_place.values():
            if row.place >= place_at(begin):
                compared += 1
                if not _is_repeated(row, folded):
                    differences.append(self._difference("extra", row))
        return differences, compared

    def _difference(
        self, kind: str, change: RecordedChange, fields: dict[str, tuple[Any, Any]] | None = None
    ) -> ChangeDifference:
        own = (change.asset, change.place, kind, change.kind, change.state, change.at)
        return ChangeDifference(self._scenario, *own, fields or {})


def _differing(folded: RecordedChange, row: RecordedChange) -> dict[str, tuple[Any, Any]]:
    """Return the fields in which a row differs from the fold's change."""
    pairs = {name: (getattr(folded, name), getattr(row, name)) for name in COMPARED}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _is_reported_later(change: RecordedChange, rows: Iterable[RecordedChange]) -> bool:
    """Return whether a later record reported the same change of state.

    The change's own record may have been compacted away before the database read it.
    """
    same = (row for row in rows if row[4:7] == change[4:7] and row.kind == change.kind == CHANGE)
    return any(row.place > change.place for row in same)


def _is_repeated(row: RecordedChange, folded: Iterable[RecordedChange]) -> bool:
    """Return whether a row of a later epoch repeats what the asset already showed.

    When the log is read again, the last record of an asset is emitted again.
    """
    before = [change for change in folded if change.place < row.place]
    if row.version[: VERSION_PARTS[0]] <= FIRST_EPOCH or not before:
        return False
    return (row.state, row.unconfirmed) == (before[-1].state, before[-1].unconfirmed)
