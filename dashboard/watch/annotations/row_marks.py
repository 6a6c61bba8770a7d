"""Marks of acknowledgements, notes, maintenance and incidents in a board's row: kept next to them,
sent to every board.

A live process finds what is new by `changes`; the one in which a change happened sends its own at
once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Greatest
from django.dispatch import Signal

from dashboard.core.common.extension_point import Provider
from dashboard.core.common.sql import insert_many, lock_until_commit
from dashboard.core.states.caveats import alarming_ranks
from dashboard.core.states.models import AssetState
from dashboard.core.states.queries import listed
from dashboard.watch.annotations.models import Acknowledgement, Note, calm_of
from dashboard.watch.annotations.models import Mark as Row
from domain.scenario import Scenario

marks_changed = Signal()
"""Sent with `scenario` and `marks` once marks of its rows are written."""

OVERLAP_MS = 10_000
"""So far back it is looked again: a transaction that began first may end last."""
_TEXTS = ("ack_by", "ack_reason", "work_name")
"""Columns that are empty rather than null."""
MOST = 100_000
"""Most marks of one scenario that a live process knows, the newest."""


class AckMark(NamedTuple):
    """An acknowledgement: who has it, since and until when (Unix ms), from which severity, why."""

    by: str
    since: int
    until: int
    severity: int
    reason: str


class Work(NamedTuple):
    """Maintenance of an asset: of which window, until when (Unix ms), the window's number."""

    name: str
    until: int
    window: int


def _no_work(scenario: str, assets: Collection[str], now: int) -> Mapping[str, Work]:  # noqa: ARG001
    return {}


work_on = Provider(_no_work)
"""Returns those of these assets of a scenario that are in a maintenance window at a time."""


def _no_cases(scenario: str, assets: Collection[str]) -> Mapping[str, int]:  # noqa: ARG001
    return {}


case_on = Provider(_no_cases)
"""Returns the numbers of the incidents that those of these assets of a scenario are in."""


class RowMark(NamedTuple):
    """The marks that a row shows; in JSON a list in this order. case: an incident's number."""

    asset: str
    revision: int
    ack: AckMark | None
    notes: int
    work: Work | None = None
    case: int | None = None

    @classmethod
    def of(cls, row: Row) -> RowMark:
        """Return the mark of a row of the database."""
        ack = None
        if row.ack_until is not None:
            assert row.ack_since is not None
            assert row.ack_severity is not None
            ack = AckMark(
                row.ack_by, row.ack_since, row.ack_until, row.ack_severity, row.ack_reason
            )
        work = None
        if row.work_until is not None and row.work_window is not None:
            work = Work(row.work_name, row.work_until, row.work_window)
        return cls(row.asset, row.revision, ack, row.notes, work, row.case)

    def works(self, now: int) -> bool:
        """Return whether the asset is in maintenance at `now` (Unix ms)."""
        return self.work is not None and now < self.work.until

    def hand(self, scenario: Scenario, state: str, now: int) -> Hand:
        """Return what handles the asset in this state at `now` (Unix ms); nothing once purged."""
        if not state:
            return NO_HAND
        held = in_force(self.ack, scenario.severity(state), calm_of(scenario), now)
        return Hand(self.ack.by if self.ack and held else None, self.works(now))


def in_force(ack: AckMark | None, severity: int, calm: int, now: int) -> bool:
    """Return whether it is in force for an asset of this severity. calm: that of the least severe
    state.

    The end itself is stored with the state, which may be a moment later.
    """
    return ack is not None and now < ack.until and ack.severity <= severity < calm


def alone(scenario: str) -> None:
    """Lock a scenario's annotations until the transaction ends.

    Otherwise an acknowledgement could be given on a state that another transaction is changing, and
    neither would see the other.
    """
    lock_until_commit("annotations", scenario)


@contextmanager
def changing(scenario: str, now: int) -> Iterator[list[str]]:
    """Change annotations within it, in a transaction, while nobody else changes the scenario's.

    Yields a list for the assets that are changed: their marks are written at its end, and sent once
    all of it is kept.
    """
    changed: list[str] = []
    with transaction.atomic():
        alone(scenario)
        yield changed
        marks = renew(scenario, changed, now)
    marks_changed.send(None, scenario=scenario, marks=marks)


def renew(scenario: str, assets: Collection[str], now: int) -> list[RowMark]:
    """Write the marks of these assets again, in the transaction that changed what they show.

    Returns them.
    """
    known = {row.asset: row.revision for row in _rows(scenario, assets)}
    notes = Note.objects.shown().filter(scenario=scenario, asset__in=listed(assets))
    counted = dict(notes.values_list("asset").annotate(n=Count("pk")).order_by())
    acks = Acknowledgement.objects.of_assets(scenario, assets).in_force(now)
    newest = {ack.asset: ack for ack in acks.order_by("at", "pk")}
    works, cases = work_on(scenario, assets, now), case_on(scenario, assets)
    rows = [
        _row(scenario, asset, known.get(asset, 0), newest.get(asset), counted.get(asset, 0), now)
        for asset in assets
    ]
    for row in rows:
        row.case = cases.get(row.asset)
        if work := works.get(row.asset):
            row.work_name, row.work_until, row.work_window = work
    Row.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["scenario", "asset"],
        update_fields=list(Row.SHOWN),
    )
    return [RowMark.of(row) for row in rows]


_CASE_COLUMNS = ("scenario", "asset", "case", "revision", "changed_at", "notes", *_TEXTS)
_UPSERT_CASE = """\
ON CONFLICT (scenario, asset) DO UPDATE
SET "case" = excluded."case", changed_at = excluded.changed_at, revision = CASE
WHEN annotations_mark.revision < excluded.revision THEN excluded.revision
ELSE annotations_mark.revision + 1 END
WHERE annotations_mark."case" IS DISTINCT FROM excluded."case"
"""


def renumber(scenario: str, assets: Collection[str], now: int) -> None:
    """Write in the marks of these assets which incidents they are in, in the transaction that
    changed this.

    Plain SQL, as the materialiser writes thousands a second.
    """
    alone(scenario)
    cases = case_on(scenario, assets)
    rest = (now, now, 0, *("" for _ in _TEXTS))
    rows = [(scenario, asset, case, *rest) for asset, case in sorted(cases.items())]
    insert_many("annotations_mark", _CASE_COLUMNS, rows, _UPSERT_CASE)
    left = _rows(scenario, [asset for asset in assets if asset not in cases])
    newer = Greatest(F("revision") + 1, Value(now))
    left.filter(case__isnull=False).update(case=None, changed_at=now, revision=newer)


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


def _rows(scenario: str, assets: Collection[str]) -> QuerySet[Row]:
    return Row.objects.filter(scenario=scenario, asset__in=listed(assets))


def marks_of(scenario: str, assets: Collection[str]) -> list[RowMark]:
    """Return the marks of those of `assets` that have any."""
    return [RowMark.of(row) for row in _rows(scenario, assets)] if assets else []


class MarkChanges:
    """Marks in the order in which they change: all at first, from then on what is new or may be."""

    def __init__(self) -> None:
        self._seen, self._risen = 0, 0.0

    def read(self) -> dict[str, list[RowMark]]:
        """Return the marks by scenario; a mark that is returned twice has the same revision."""
        marks: dict[str, list[RowMark]] = {}
        # A transaction that began before the newest mark has ended by then, so that a wave is not
        # read again for ever.
        over = time.monotonic() - self._risen > OVERLAP_MS / 1000
        rows = Row.objects.filter(changed_at__gt=self._seen - (0 if over else OVERLAP_MS))
        if not self._seen:
            rows = rows.nonempty()
        for row in rows.order_by("-changed_at", "-pk")[:MOST]:
            marks.setdefault(row.scenario, []).append(RowMark.of(row))
            if row.changed_at > self._seen:
                self._seen, self._risen = row.changed_at, time.monotonic()
        return marks


# ---- unhandled -----------------------------------------------------------------------------------
# An asset is unhandled if its state is alarming, nobody has it in hand, and it is not in
# maintenance: `unhandled` of the database's rows, `Sight.unhandled` of live ones.


def unhandled(scenario: Scenario, now: int) -> Q:
    """Return the condition that an asset of this scenario is unhandled at `now` (Unix ms)."""
    held = Q(ack_until__gt=now, ack_severity__lte=OuterRef("severity"))
    marks = Row.objects.filter(scenario=scenario.name, asset=OuterRef("asset"))
    handling = marks.filter(held | Q(work_until__gt=now))
    return Q(rank__in=alarming_ranks(scenario)) & ~Q(Exists(handling))


class Hand(NamedTuple):
    """What handles an asset. by: who has it in hand, or None; works: whether it is in
    maintenance."""

    by: str | None = None
    works: bool = False

    @property
    def holds(self) -> bool:
        """Whether anything does."""
        return self.works or self.by is not None


NO_HAND = Hand()


class Handled(NamedTuple):
    """What is handled of a scenario at some moment. hands: by asset, of alarming ones or not; ids:
    of the alarming rows of the database; alarming, acknowledged: how many, by state; ends: when the
    first acknowledgement or window ends, Unix ms."""

    hands: Mapping[str, Hand] = {}
    ids: Collection[int] = ()
    alarming: Mapping[str, int] = {}
    acknowledged: Mapping[str, int] = {}
    ends: int | None = None

    def left(self, scenario: Scenario, counts: Mapping[str, int]) -> dict[str, int]:
        """Return how many assets are unhandled, by state. counts: how many there are, by state."""
        left = {
            state: n - self.alarming.get(state, 0)
            for state, n in counts.items()
            if scenario.is_alarming(state)
        }
        return {state: n for state, n in left.items() if n > 0}


class Badge(NamedTuple):
    """What a tab says of unhandled assets: how many, and colour and label of their worst state."""

    n: int
    colour: str
    label: str

    @classmethod
    def of(cls, scenario: Scenario, unhandled: Mapping[str, int]) -> Badge:
        """Return the badge of so many unhandled assets, by state."""
        worst = min(unhandled, key=scenario.severity, default=scenario.states[0].name)
        spec = scenario.spec(worst)
        return cls(sum(unhandled.values()), spec.colour, spec.label)


def handled(scenario: Scenario, newer: Mapping[str, str], now: int) -> Handled:
    """Return what is handled at `now` (Unix ms).

    newer: the states of assets that the database does not have yet, "" once purged.
    """
    rows = Row.objects.in_force(scenario.name, now)
    marks: list[Any] = list(rows.values_list("asset", *Row.SHOWN, named=True)[:MOST])
    if not marks:
        return Handled()
    stored = _stored(scenario.name, [mark.asset for mark in marks])
    hands, ids = dict[str, Hand](), set[int]()
    alarming, acknowledged = Counter[str](), Counter[str]()
    for mark in map(RowMark.of, marks):
        pk, kept = stored.get(mark.asset, (0, ""))
        state = newer.get(mark.asset, kept)
        hand = mark.hand(scenario, state, now)
        if not hand.holds:
            continue
        hands[mark.asset] = hand
        acknowledged[state] += hand.by is not None
        if scenario.is_alarming(state):
            alarming[state] += 1
            ids.add(pk)
    ends = (at for mark in marks for at in (mark.ack_until, mark.work_until) if at and at > now)
    return Handled(hands, ids, alarming, +acknowledged, min(ends))


def _stored(scenario: str, assets: Collection[str]) -> dict[str, tuple[int, str]]:
    """Return the id and the state of each of these assets that is on the board."""
    rows = AssetState.objects.filter(scenario=scenario, purged=False, asset__in=listed(assets))
    return {asset: (pk, state) for asset, pk, state in rows.values_list("asset", "pk", "state")}
