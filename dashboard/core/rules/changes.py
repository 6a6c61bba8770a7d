"""Comparison of the fold's state changes with those in the database.

It covers the changes of the records that are replayed, except those so old that retention may have
deleted them. A change that reached the log while the database was being read may be there or not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

from dashboard.core.common.sql import STATEMENT, chunks
from dashboard.core.states.models import CHANGE, Transition, history_edge
from dashboard.core.states.rows import (
    CHANGE_COLUMNS,
    VERSION_PARTS,
    Shown,
    change_row,
    kind_of,
    place_of,
    seen_of,
)
from domain.records import StateRecord, Tombstone
from domain.version import Version
from wire.partitioner import partition_of

Emitted = StateRecord | Tombstone
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


@dataclass
class FoldedHistory:
    """The changes made by one partition's fold since it began at offset `begin`.

    by_asset: in order; seen_to: by asset, how many of them the database must have.
    """

    begin: int
    by_asset: dict[str, list[RecordedChange]] = field(default_factory=dict)
    seen_to: dict[str, int] | None = None

    def watch(self) -> None:
        """Stop requiring changes: the database need not have those made from now on."""
        self.seen_to = {asset: len(own) for asset, own in self.by_asset.items()}

    def take(self, scenario: str, before: Emitted | None, emitted: Emitted) -> None:
        """Add the change that a record makes, if any. before: the asset's previous record."""
        shown = shown_by(before)
        kind = kind_of(shown, shown_by(emitted), emitted.cause.type)
        if kind is not None:
            row = change_row(scenario, seen_of(emitted), kind, shown)
            self.by_asset.setdefault(emitted.asset, []).append(RecordedChange(*row[1:]))

    def is_due(self, asset: str, number: int) -> bool:
        """Return whether the database must have this change of an asset."""
        return self.seen_to is None or number < self.seen_to.get(asset, 0)

    @property
    def first_place(self) -> str:
        """The first place in the log from which every change is compared. A change due to time
        alone since the previous record has an earlier place."""
        return place_of(_sortable_version(self.begin))


def _sortable_version(offset: int) -> str:
    return ".".join(
        str(part).zfill(digits)
        for part, digits in zip(Version(1, offset, 0), VERSION_PARTS, strict=True)
    )


def shown_by(record: Emitted | None) -> Shown:
    """Return what an asset shows after a record."""
    if isinstance(record, StateRecord):
        return Shown(record.state, record.unconfirmed)
    return Shown()


class ChangeComparison:
    """Compares the changes of one scenario. histories: by partition, for those replayed."""

    def __init__(
        self,
        scenario: str,
        partitions: int,
        histories: Mapping[int, FoldedHistory],
        clock: Callable[[], int],
    ) -> None:
        self._scenario, self._partitions = scenario, partitions
        self._histories, self._clock = histories, clock
        self.compared = 0

    def all(self) -> list[ChangeDifference]:
        """Return the differences of all assets, and count the changes compared."""
        self.compared = 0
        unseen = {asset for history in self._histories.values() for asset in history.by_asset}
        found: list[ChangeDifference] = []
        for asset, own in self._rows(Transition.objects.all()):
            unseen.discard(asset)
            found += self._of_asset(asset, own)
        for asset in sorted(unseen):
            found += self._of_asset(asset, [])
        return found

    def rows_of(self, assets: Collection[str]) -> dict[str, list[RecordedChange]]:
        """Return the stored changes of some assets, by asset."""
        known: dict[str, list[RecordedChange]] = {}
        for portion in chunks(sorted(assets), STATEMENT):
            known |= self._rows(Transition.objects.filter(asset__in=portion))
        return known

    def of(
        self, assets: Collection[str], rows: Mapping[str, list[RecordedChange]]
    ) -> list[ChangeDifference]:
        """Return the differences of some assets, given their stored changes."""
        return [
            each for asset in sorted(assets) for each in self._of_asset(asset, rows.get(asset, []))
        ]

    def _rows(self, rows: Any) -> Iterator[tuple[str, list[RecordedChange]]]:
        """Yield each asset with its stored changes in order."""
        rows = rows.filter(scenario=self._scenario, at__gte=self._edge).order_by("asset", "place")
        changes = map(
            RecordedChange._make, rows.values_list(*RecordedChange._fields).iterator(2_000)
        )
        for asset, own in groupby(changes, key=lambda change: change.asset):
            yield asset, list(own)

    @property
    def _edge(self) -> int:
        return history_edge(self._scenario, self._clock())

    def _of_asset(self, asset: str, rows: list[RecordedChange]) -> Iterator[ChangeDifference]:
        history = self._histories.get(partition_of(asset.encode(), self._partitions))
        if history is None:
            return
        edge, folded = self._edge, history.by_asset.get(asset, [])
        found = {row.place: row for row in rows}
        for number, change in enumerate(folded):
            row = found.pop(change.place, None)
            if row is not None:
                self.compared += 1
                if fields := _differing(change, row):
                    yield self._difference("differs", change, fields)
            elif (
                change.at >= edge
                and history.is_due(asset, number)
                and not _is_reported_later(change, rows)
            ):
                yield self._difference("missing", change)
        for row in found.values():
            if row.place >= history.first_place:
                self.compared += 1
                if not _is_repeated(row, folded):
                    yield self._difference("extra", row)

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
