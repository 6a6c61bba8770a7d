"""Snapshots of the board: the database, merged with what the tailer knows, read once for many
sockets.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import msgspec

from dashboard.board.live.live_view import LiveView, live_view
from dashboard.board.live.page_filter import (
    LIMIT,
    LiveRecord,
    Offsets,
    Order,
    Page,
    PageFilter,
    token_of,
    token_of_order,
)
from dashboard.board.live.threads import READERS, per_loop, read_in_thread
from dashboard.core.common.times import now_ms
from dashboard.core.states import queries
from dashboard.core.states.board_rows import Row, order_of, row_of
from dashboard.core.states.caveats import DOUBTS
from dashboard.core.states.queries import NOTHING, Kept
from dashboard.core.states.stores import kept_of
from dashboard.watch.annotations import labels as annotation_labels
from dashboard.watch.annotations.labels import LabelState, labels_of, states
from dashboard.watch.annotations.row_marks import (
    AckCounts,
    RowMark,
    calm_of,
    held,
    in_force,
    marks_of,
)
from dashboard.watch.filters import search
from domain.scenario import Scenario

# ---- row context ---------------------------------------------------------------------------------
# Labels and acknowledgements, which filters and rows need of an asset besides its records.

# How often it is looked whether labels have changed: each time boards are read anew.
LOOK_S = 2.0
_NONE = LabelState()


class Beside:
    """The labels and acknowledgements, for the thread that applies records."""

    def __init__(self, scenarios: Mapping[str, Scenario], view: LiveView) -> None:
        self._scenarios, self._view = scenarios, view
        self._states: dict[str, LabelState] | None = None
        self._next = 0.0

    def annotate(self, scenario: str, entries: Collection[LiveRecord]) -> None:
        """Set on records which nobody has been sent yet what else is known of their assets."""
        if self._states is None:
            self._states = states()
        state = self._states.get(scenario, _NONE)
        names = {entry.asset for entry in entries}
        labels = labels_of(scenario, names) if state.n else {}
        marks, now = self._view.marks(scenario), time.time_ns() // 1_000_000
        for entry in entries:
            mark = marks.get(entry.asset)
            by = self._by(scenario, entry, mark, now)
            works = mark is not None and mark.works(now)
            entry.annotate(labels.get(entry.asset, {}), state.chips, by, works)

    def _by(self, scenario: str, entry: LiveRecord, mark: RowMark | None, now: int) -> str | None:
        if mark is None or mark.ack is None or entry.row is None:
            return None
        calm = calm_of(self._scenarios[scenario])
        return mark.ack.by if in_force(mark.ack, entry.row["severity"], calm, now) else None

    def look(self, at: float) -> None:
        """Invalidate boards where labels have changed. at: of a clock that only rises, s."""
        if at < self._next:
            return
        self._next = at + LOOK_S
        before, self._states = self._states, states()
        for name, state in self._states.items():
            if before is not None and name in self._scenarios and state != before.get(name):
                self.annotate(name, list(self._view.overlay(name).values()))
                self._view.invalidate(name)


# ---- merge ---------------------------------------------------------------------------------------
# The database's rows and what is newer than they are, as one page.


class Merged(NamedTuple):
    """Rows of the database and the overlay as one page, in the board's order.

    next: the token of the page that follows, None where nothing does; least: more than `total` may
    match; stopped: the place up to which the board was looked at, where that was not its end;
    doubts: how many assets of the whole board there is each doubt of.
    """

    rows: list[Row]
    total: int
    counts: dict[str, int]
    next: str | None = None
    least: bool = False
    stopped: Order | None = None
    doubts: Mapping[str, int] = {}


class StoredPage(NamedTuple):
    """The database's part of a page. rows: more than LIMIT of those that no newer record has taken
    the place of, or all that there are; total: of all that match; stopped: where looking ended
    before the board did; apart: `total` is without what a newer record has taken the place of."""

    rows: Iterable[Row]
    total: int
    counts: Mapping[str, int]
    least: bool = False
    stopped: Order | None = None
    apart: bool = False
    doubts: Mapping[str, int] = {}


def newer_than(
    overlay: Mapping[str, LiveRecord], kept: Mapping[str, Kept]
) -> dict[str, LiveRecord]:
    """Return what of the overlay is newer than the database's version of the asset."""
    return {a: e for a, e in overlay.items() if e.version > kept.get(a, NOTHING).version}


def merge(
    stored: StoredPage,
    kept: Mapping[str, Kept],
    overlay: Mapping[str, LiveRecord],
    wanted: PageFilter,
) -> Merged:
    """Return the newest of both by version.

    kept: what the database has of the overlay's assets.
    """
    newer = newer_than(overlay, kept)
    shown = [row for row in stored.rows if row["asset"] not in newer]
    tally, total = dict(stored.counts), stored.total
    for asset, entry in newer.items():
        before = kept.get(asset, NOTHING).state
        if before:
            tally[before] = tally.get(before, 0) - 1
            total -= not stored.apart and wanted.matches({"asset": asset, "state": before})
        if entry.row is not None:
            tally[entry.row["state"]] = tally.get(entry.row["state"], 0) + 1
            if wanted.matches(entry.row) and wanted.allows(entry):
                total += 1
                if wanted.shows(entry.row):
                    shown.append(entry.row)
    shown.sort(key=order_of)
    follows, stopped = _cut(shown, stored.stopped)
    positive = {state: n for state, n in tally.items() if n > 0}
    doubts = _doubts(stored.doubts, kept, newer)
    return Merged(shown[:LIMIT], max(total, 0), positive, follows, stored.least, stopped, doubts)


def _doubts(
    stored: Mapping[str, int], kept: Mapping[str, Kept], newer: Mapping[str, LiveRecord]
) -> dict[str, int]:
    """Return how many assets there is each doubt of, with what is newer than the database."""
    counts = Counter(stored)
    for asset, entry in newer.items():
        counts.subtract(kept.get(asset, NOTHING).doubts)
        counts.update(entry.row["doubts"] if entry.row else ())
    return {doubt: max(0, counts[doubt]) for doubt in DOUBTS}


def _cut(shown: list[Row], stopped: Order | None) -> tuple[str | None, Order | None]:
    """Return the token of the page that follows, and the place where this one ends early, if any.

    What lies past the place where looking ended belongs to the next page.
    """
    if stopped is not None:
        shown[:] = [row for row in shown if order_of(row) <= stopped]
    if len(shown) > LIMIT:
        return token_of(shown[LIMIT - 1]), None
    if stopped is None:
        return None, None
    return token_of_order(stopped), stopped


# ---- snapshots -----------------------------------------------------------------------------------
# Snapshots of the board: the database, merged with what the tailer knows beyond it.


class MergedSnapshot(NamedTuple):
    """A merged snapshot, and the next offset of each sink partition that the database rests on.

    marks: of the rows that have any; held: what of the scenario is acknowledged.
    """

    merged: Merged
    offsets: Offsets
    marks: list[RowMark]
    held: AckCounts


def read(
    scenario: Scenario, wanted: PageFilter, overlay: Mapping[str, LiveRecord]
) -> MergedSnapshot:
    """Return the database as of one moment, merged with `overlay`, which was read before."""
    name, page, now = scenario.name, queries.BoardResult([], 0), now_ms()
    with queries.consistent():
        offsets = queries.sink_offsets()
        counts, doubts = queries.counts(name), queries.doubt_counts(name)
        versions = kept_of(name, overlay)
        if wanted.rows:
            page = _find(scenario, wanted, newer_than(overlay, versions).keys(), now)
    rows = [row_of(scenario, record) for record in page.records]
    _label(name, rows)
    stored = StoredPage(rows, page.total, counts, page.least, page.stopped, page.apart, doubts)
    merged = merge(stored, versions, overlay, replace(wanted, now=now))
    marks = marks_of(name, [row["asset"] for row in merged.rows])
    return MergedSnapshot(merged, offsets, marks, held(scenario, partial(_newer, overlay), now))


def _find(
    scenario: Scenario, wanted: PageFilter, skip: Collection[str], now: int
) -> queries.BoardResult:
    """Return the page's rows in the database, and one more, which says whether a page follows."""
    states, after, limit = sorted(wanted.states), wanted.after, LIMIT + 1
    if wanted.terms is None:
        name = scenario.name
        return queries.find(name, states, wanted.q, after=after, limit=limit, skip=skip)
    return search.find(scenario, states, wanted.terms, now, after=after, limit=limit, skip=skip)


def _label(scenario: str, rows: list[Row]) -> None:
    """Set on the rows what labels the board shows."""
    chips = annotation_labels.state(scenario).chips
    known = annotation_labels.labels_of(scenario, [row["asset"] for row in rows]) if chips else {}
    for row in rows:
        row["labels"] = annotation_labels.chips_of(known.get(row["asset"], {}), chips)


def _newer(overlay: Mapping[str, LiveRecord], asset: str) -> str | None:
    """Return the state of an asset of the overlay, "" once purged; None for any other."""
    entry = overlay.get(asset)
    if entry is None:
        return None
    return entry.row["state"] if entry.row else ""


def count(scenario: Scenario, overlay: Mapping[str, LiveRecord]) -> dict[str, int]:
    """Return the counts by state, the overlay included."""
    return counted(scenario, overlay).merged.counts


def counted(scenario: Scenario, overlay: Mapping[str, LiveRecord]) -> MergedSnapshot:
    """Return what is counted of a scenario, without any row."""
    return read(scenario, PageFilter(rows=False), overlay)


# ---- shared reads --------------------------------------------------------------------------------
# One reading of the board for all sockets that request the same page at the same time.
#
# After a restart all browsers of a shift come back together, and most show the same.

Key = tuple[str, Page]


class SharedSnapshot(NamedTuple):
    """A page as a socket is sent it and has to know it. body: the message, but for its end."""

    rows: list[Row]
    more: bool
    stopped: Order | None
    offsets: Offsets
    body: bytes

    @classmethod
    def of(cls, snapshot: MergedSnapshot) -> SharedSnapshot:
        """Return the snapshot of what was read; the message is made once for all."""
        merged = snapshot.merged
        beside = {"marks": snapshot.marks, "acknowledged": snapshot.held.counts}
        body = {"type": "snapshot", **merged._asdict(), **beside}
        body["stopped"] = merged.stopped is not None
        more = merged.next is not None
        return cls(merged.rows, more, merged.stopped, snapshot.offsets, msgspec.json.encode(body))

    def message(self, **rest: Any) -> bytes:
        """Return the whole message of one socket."""
        return self.body[:-1] + b"," + msgspec.json.encode(rest)[1:]


class SharedReads:
    """The shared readings for the sockets of one event loop."""

    def __init__(self) -> None:
        self._readers = asyncio.Semaphore(READERS)
        self._waiting: dict[Key, asyncio.Task[SharedSnapshot]] = {}

    async def snapshot(self, scenario: Scenario, wanted: PageFilter) -> SharedSnapshot:
        """Return the page as it is at some moment after this call. Raises DatabaseError."""
        key = (scenario.name, wanted.page())
        if key not in self._waiting:
            self._waiting[key] = asyncio.create_task(self._read(key, scenario, wanted))
        return await asyncio.shield(self._waiting[key])

    async def _read(self, key: Key, scenario: Scenario, wanted: PageFilter) -> SharedSnapshot:
        async with self._readers:
            del self._waiting[key]  # who asks from here on wants what is newer
            return await read_in_thread(partial(_snapshot, scenario, wanted))


def _snapshot(scenario: Scenario, wanted: PageFilter) -> SharedSnapshot:
    return SharedSnapshot.of(read(scenario, wanted, live_view().overlay(scenario.name)))


shared_reads = per_loop(SharedReads)
