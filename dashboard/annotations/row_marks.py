"""Marks of acknowledgement and notes in a board's row: kept beside them, sent to every board.

A live process finds what is new by `changes`; the one in which a change happened sends its own at
once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from django.db import connection
from django.db.models import Count
from django.dispatch import Signal

from dashboard.annotations.models import Acknowledgement, Note
from dashboard.annotations.models import Mark as Row
from dashboard.states.models import AssetState
from dashboard.states.queries import listed
from domain.scenario import Scenario

marks_changed = Signal()
"""Sent with `scenario` and `marks` once marks of its rows are written."""

OVERLAP_MS = 10_000
"""So far back it is looked again: a transaction that began first may end last."""
MOST = 100_000
"""Most marks of one scenario that a live process knows, the newest."""


class Ack(NamedTuple):
    """An acknowledgement: who has it, since and until when (Unix ms), from which severity, why."""

    by: str
    since: int
    until: int
    severity: int
    reason: str


class Mark(NamedTuple):
    """The marks that a row shows; in JSON a list in this order."""

    asset: str
    revision: int
    ack: Ack | None
    notes: int

    @classmethod
    def of(cls, row: Row) -> Mark:
        """Return the mark of a row of the database."""
        ack = None
        if row.ack_until is not None:
            assert row.ack_since is not None
            assert row.ack_severity is not None
            ack = Ack(row.ack_by, row.ack_since, row.ack_until, row.ack_severity, row.ack_reason)
        return cls(row.asset, row.revision, ack, row.notes)


def in_force(ack: Ack | None, severity: int, calm: int, now: int) -> bool:
    """Return whether it is in force for an asset of this severity. calm: that of the least severe
    state.

    The end itself is stored with the state, which may be a moment later.
    """
    return ack is not None and now < ack.until and ack.severity <= severity < calm


def calm_of(scenario: Scenario) -> int:
    """Return the severity from which on nothing is to be done."""
    return len(scenario.states) - 1


def alone(scenario: str) -> None:
    """Lock a scenario's annotations until the transaction ends.

    Otherwise an acknowledgement could be given on a state that another transaction is changing, and
    neither would see the other. SQLite has one writer at a time anyway.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_advisory_xact_lock(hashtext('annotations'), hashtext(%s))", [scenario]
            )


def renew(scenario: str, assets: Collection[str], now: int) -> list[Mark]:
    """Write the marks of these assets anew, in the transaction that changed what they show.

    Returns them.
    """
    known = {row.asset: row.revision for row in _rows(scenario, assets)}
    names = listed(assets)
    acks = Acknowledgement.objects.filter(
        scenario=scenario, asset__in=names, ended_at=None, until__gt=now
    )
    notes = Note.objects.filter(scenario=scenario, asset__in=names, deleted_at=None)
    counted = dict(notes.values_list("asset").annotate(n=Count("pk")).order_by())
    newest = {ack.asset: ack for ack in acks.order_by("at")}
    rows = [
        _row(scenario, asset, known.get(asset, 0), newest.get(asset), counted.get(asset, 0), now)
        for asset in assets
    ]
    Row.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["scenario", "asset"],
        update_fields=list(Row.SHOWN),
    )
    return [Mark.of(row) for row in rows]


def _row(
    scenario: str, asset: str, revision: int, ack: Acknowledgement | None, notes: int, now: int
) -> Row:
    row = Row(
        scenario=scenario,
        asset=asset,
        revision=max(revision + 1, now),
        changed_at=now,
        notes=notes,
    )
    if ack is not None:
        row.ack_by, row.ack_reason = ack.username, ack.reason
        row.ack_since, row.ack_until, row.ack_severity = ack.at, ack.until, ack.severity
    return row


def _rows(scenario: str, assets: Collection[str]) -> Iterable[Row]:
    return Row.objects.filter(scenario=scenario, asset__in=listed(assets))


def marks_of(scenario: str, assets: Collection[str]) -> list[Mark]:
    """Return the marks of those of `assets` that have any."""
    return [Mark.of(row) for row in _rows(scenario, assets)] if assets else []


class Changes:
    """Marks in the order in which they change: all at first, from then on what is new or may be."""

    def __init__(self) -> None:
        self._seen = 0

    def read(self) -> dict[str, list[Mark]]:
        """Return the marks by scenario; a mark that is returned twice has the same revision."""
        marks: dict[str, list[Mark]] = {}
        rows = Row.objects.filter(changed_at__gt=self._seen - OVERLAP_MS)
        for row in rows.order_by("-changed_at")[:MOST]:
            marks.setdefault(row.scenario, []).append(Mark.of(row))
            self._seen = max(self._seen, row.changed_at)
        return marks


class Held(NamedTuple):
    """The number of acknowledged assets in each state, and when the first of these ends."""

    counts: dict[str, int]
    ends: int | None


def held(scenario: Scenario, newer: Callable[[str], str | None], now: int) -> Held:
    """Return how many assets are acknowledged at `now`, by state, and when the first ends; Unix ms.

    newer: the state of an asset that the database may not have yet, "" once purged, else None.
    """
    rows = Row.objects.filter(scenario=scenario.name, ack_until__gt=now)[:MOST]
    acks = {mark.asset: mark.ack for mark in map(Mark.of, rows) if mark.ack}
    if not acks:
        return Held({}, None)
    stored = _states(scenario.name, acks)
    calm, counts = calm_of(scenario), Counter[str]()
    for asset, ack in acks.items():
        newest = newer(asset)
        state = stored.get(asset, "") if newest is None else newest
        if state and in_force(ack, scenario.severity(state), calm, now):
            counts[state] += 1
    return Held(dict(counts), min(ack.until for ack in acks.values()))


def _states(scenario: str, assets: Collection[str]) -> dict[str, str]:
    rows = AssetState.objects.filter(scenario=scenario, purged=False, asset__in=listed(assets))
    return dict(rows.values_list("asset", "state"))
