"""Snapshots of the board: the database, merged with what the tailer knows, read once for many
sockets.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
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
    order_of_token,
    token_of_order,
    unhandled_among,
)
from dashboard.board.live.threads import READERS, per_loop, read_in_thread
from dashboard.core.common.scenarios import dependencies
from dashboard.core.common.times import now_ms
from dashboard.core.states import queries
from dashboard.core.states.board_rows import Row, row_of
from dashboard.core.states.caveats import DOUBTS
from dashboard.core.states.filter_parser import FilterError
from dashboard.core.states.filter_terms import Filter
from dashboard.core.states.queries import NOTHING, Kept
from dashboard.core.states.stores import kept_of
from dashboard.watch.annotations import labels as annotation_labels
from dashboard.watch.annotations.labels import (
    LabelState,
    causes_of,
    failing_causes,
    has_causes,
    labels_of,
    states,
)
from dashboard.watch.annotations.row_marks import (
    NO_HAND,
    Badge,
    Hand,
    Handled,
    RowMark,
    handled,
    marks_of,
)
from dashboard.watch.filters import search
from dashboard.watch.filters.models import SavedFilter
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
        self._with_tabs: set[str] = set()
        self._next = 0.0

    def annotate(self, scenario: str, entries: Collection[LiveRecord]) -> None:
        """Set on records which nobody has been sent yet what else is known of their assets."""
        if self._states is None:
            self._states = states()
        state = self._states.get(scenario, _NONE)
        names = {entry.asset for entry in entries}
        labels = labels_of(scenario, names) if state.n else {}
        behind = causes_of(scenario, names) if state.n else {}
        marks, now = self._view.marks(scenario), time.time_ns() // 1_000_000
        for entry in entries:
            hand = self._hand(scenario, entry, marks.get(entry.asset), now)
            lies = behind.get(entry.asset, "")
            entry.annotate(labels.get(entry.asset, {}), state.chips, hand, lies)

    def _hand(self, scenario: str, entry: LiveRecord, mark: RowMark | None, now: int) -> Hand:
        if mark is None or entry.row is None:
            return NO_HAND
        return mark.hand(self._scenarios[scenario], entry.row["state"], now)

    def look(self, at: float) -> set[str]:
        """Invalidate boards where labels have changed. Return the scenarios to be counted anew:
        these, and those of which filters are tabs or just were. at: of a clock that only rises, s.
        """
        if at < self._next:
            return set()
        self._next = at + LOOK_S
        before, self._states = self._states, states()
        known = self._states.items() if before is not None else ()
        changed = {name for name, state in known if before and state != before.get(name)}
        changed &= self._scenarios.keys()
        for name in changed:
            self.annotate(name, list(self._view.overlay(name).values()))
            self._view.invalidate(name)
        had_tabs = self._with_tabs
        tabs = {tab.scenario for tab in SavedFilter.objects.tabs()}
        self._with_tabs = tabs & self._scenarios.keys()
        return changed | self._with_tabs | had_tabs


# ---- merge ---------------------------------------------------------------------------------------
# The database's rows and what is newer than they are, as one page.


class Merged(NamedTuple):
    """Rows of the database and the overlay as one page, in its order.

    next: the token of the page that follows, None where nothing does; least: more than `total` may
    match; stopped: the place up to which the board was looked at, where that was not its end;
    doubts: how many assets of the whole board there is each doubt of; ranked: whether a detail has
    chosen the rows; end: the position of the last of those, None where no other matches.
    """

    rows: list[Row]
    total: int
    counts: dict[str, int]
    next: str | None = None
    least: bool = False
    stopped: Order | None = None
    doubts: Mapping[str, int] = {}
    ranked: bool = False
    end: Order | None = None

    @property
    def last(self) -> Order | None:
        """The position after which others that match follow, None where nothing does."""
        return order_of_token(self.next) if self.next else self.end


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
    newer: Mapping[str, LiveRecord],
    page_filter: PageFilter,
    hands: Mapping[str, Hand],
) -> Merged:
    """Return the database's rows and what is newer than they are.

    kept: what the database has of the newer assets; hands: what handles assets.
    """
    order = partial(_order, hands, page_filter)
    shown = [row for row in stored.rows if row["asset"] not in newer]
    tally, total = dict(stored.counts), stored.total
    for asset, entry in newer.items():
        before = kept.get(asset, NOTHING).state
        if before:
            tally[before] = tally.get(before, 0) - 1
            total -= not stored.apart and page_filter.matches({"asset": asset, "state": before})
        if entry.row is not None:
            tally[entry.row["state"]] = tally.get(entry.row["state"], 0) + 1
            total += page_filter.matches(entry.row) and page_filter.allows(entry)
            if page_filter.shows(entry):
                shown.append(entry.row)
    shown.sort(key=order)
    ranked = page_filter.ranking is not None
    end = order(shown[LIMIT - 1]) if ranked and len(shown) > LIMIT else None
    follows, stopped = (None, None) if ranked else _cut(shown, order, stored.stopped)
    positive = {state: n for state, n in tally.items() if n > 0}
    doubts = _doubts(stored.doubts, kept, newer)
    fields = (shown[:LIMIT], max(total, 0), positive, follows, stored.least, stopped, doubts)
    return Merged(*fields, ranked, end)


def _order(hands: Mapping[str, Hand], page_filter: PageFilter, row: Row) -> Order:
    return page_filter.order(row, hands.get(row["asset"], NO_HAND).holds)


def _doubts(
    stored: Mapping[str, int], kept: Mapping[str, Kept], newer: Mapping[str, LiveRecord]
) -> dict[str, int]:
    """Return how many assets there is each doubt of, with what is newer than the database."""
    counts = Counter(stored)
    for asset, entry in newer.items():
        counts.subtract(kept.get(asset, NOTHING).doubts)
        counts.update(entry.row["doubts"] if entry.row else ())
    return {doubt: max(0, counts[doubt]) for doubt in DOUBTS}


def _cut(
    shown: list[Row], order: Callable[[Row], Order], stopped: Order | None
) -> tuple[str | None, Order | None]:
    """Return the token of the page that follows, and the place where this one ends early, if any.

    What lies past the place where looking ended belongs to the next page.
    """
    if stopped is not None:
        shown[:] = [row for row in shown if order(row) <= stopped]
    if len(shown) > LIMIT:
        return token_of_order(order(shown[LIMIT - 1])), None
    if stopped is None:
        return None, None
    return token_of_order(stopped), stopped


# ---- snapshots -----------------------------------------------------------------------------------
# Snapshots of the board: the database, merged with what the tailer knows beyond it.


class MergedSnapshot(NamedTuple):
    """A merged snapshot, and the next offset of each sink partition that the database rests on.

    marks: of the rows that have any; handled: what of the scenario is; unhandled: how many are not,
    by state.
    """

    merged: Merged
    offsets: Offsets
    marks: list[RowMark]
    handled: Handled
    unhandled: Mapping[str, int]


def read(
    scenario: Scenario, page_filter: PageFilter, overlay: Mapping[str, LiveRecord]
) -> MergedSnapshot:
    """Return the database as of one moment, merged with `overlay`, which was read before."""
    name, page, now = scenario.name, queries.BoardResult([], 0), now_ms()
    with queries.consistent():
        offsets = queries.sink_offsets()
        counts, doubts = queries.counts(name), queries.doubt_counts(name)
        versions = kept_of(name, overlay)
        newer = newer_than(overlay, versions)
        known = handled(scenario, {asset: _state(entry) for asset, entry in newer.items()}, now)
        if page_filter.rows:
            page = _find(scenario, page_filter, newer.keys(), known.ids, now)
    rows = [row_of(scenario, record) for record in page.records]
    _label(name, rows)
    stored = StoredPage(rows, page.total, counts, page.least, page.stopped, page.apart, doubts)
    judged = {asset: _judged(entry, known) for asset, entry in newer.items()}
    ranking = page_filter.ranking if page.ranked else None
    merged = merge(
        stored, versions, judged, replace(page_filter, now=now, ranking=ranking), known.hands
    )
    marks = marks_of(name, [row["asset"] for row in merged.rows])
    unhandled = known.left(scenario, merged.counts)
    return MergedSnapshot(merged, offsets, marks, known, unhandled)


def _judged(entry: LiveRecord, known: Handled) -> LiveRecord:
    """Return a record with what handles its asset by now: it may have come before that."""
    hand = known.hands.get(entry.asset, NO_HAND)
    return entry if entry.hand == hand else replace(entry, hand=hand)


def _find(
    scenario: Scenario,
    page_filter: PageFilter,
    skip: Collection[str],
    handled: Collection[int],
    now: int,
) -> queries.BoardResult:
    """Return the page's rows in the database, and one more, which says whether a page follows."""
    states, q, terms = sorted(page_filter.states), page_filter.q, page_filter.terms
    find = partial(queries.find, scenario.name, states, q)
    if terms is not None:
        find = partial(search.find, scenario, states, terms, now)
    find = partial(find, skip=skip, handled=handled, ranking=page_filter.ranking)
    return find(after=page_filter.after, limit=LIMIT + 1)


def _label(scenario: str, rows: list[Row]) -> None:
    """Set on the rows what labels the board shows, and what their assets lie behind."""
    names = [row["asset"] for row in rows]
    chips, behind = annotation_labels.state(scenario).chips, causes_of(scenario, names)
    known = annotation_labels.labels_of(scenario, names) if chips else {}
    for row in rows:
        asset = row["asset"]
        row["labels"] = annotation_labels.chips_of(known.get(asset, {}), chips)
        row["behind"] = behind.get(asset, "")


def _state(entry: LiveRecord) -> str:
    """Return the state of an asset, "" once purged."""
    return entry.row["state"] if entry.row else ""


def causes(scenario: str, view: LiveView) -> dict[str, str]:
    """Return what assets of a scenario lie behind and is not well: by name, the label of its
    state."""
    if not has_causes(scenario):
        return {}
    other = dependencies()[scenario].scenario
    overlay = view.overlay(other)
    newer = newer_than(overlay, kept_of(other, overlay))
    return failing_causes(scenario, {asset: _state(entry) for asset, entry in newer.items()})


def tab_badges(
    scenario: Scenario, tabs: Iterable[SavedFilter], overlay: Mapping[str, LiveRecord]
) -> dict[str, Badge]:
    """Return by number what those of the tabs say that are filters of a scenario."""
    tabs = [each for each in tabs if each.scenario == scenario.name]
    if not tabs:
        return {}
    with queries.consistent():
        newer = newer_than(overlay, kept_of(scenario.name, overlay))
        states = {asset: _state(entry) for asset, entry in newer.items()}
        known = handled(scenario, states, now_ms())
        entries = [_judged(entry, known) for entry in newer.values()]
        keys = annotation_labels.keys(scenario.name)  # once for all: each key is a query
        filters = {str(tab.pk): _unhandled_by(scenario, tab.text, keys) for tab in tabs}
        return {pk: _badge(scenario, each, entries, known.ids) for pk, each in filters.items()}


def _unhandled_by(scenario: Scenario, text: str, labels: Collection[str]) -> PageFilter:
    """Return what a filter finds that is unhandled. labels: the known label keys."""
    now = now_ms()
    try:
        return unhandled_among(scenario, text, labels, now)
    except FilterError:  # of a label or a state that there was: its board shows everything, too
        return unhandled_among(scenario, "", labels, now)


def _badge(
    scenario: Scenario,
    page_filter: PageFilter,
    newer: Collection[LiveRecord],
    handled: Collection[int],
) -> Badge:
    """Return how many there are of what is unhandled. newer: what the database has not yet."""
    live = [each for each in newer if page_filter.matches(each.row) and page_filter.allows(each)]
    page = search.find(
        scenario, sorted(page_filter.states), page_filter.terms or Filter(), page_filter.now,
        after=None, limit=1, skip={each.asset for each in newer}, handled=handled,
    )  # fmt: skip
    counts = Counter(map(_state, live))
    if page.records:
        counts[page.records[0].state] += page.total  # in the board's order: the worst of them
    return Badge.of(scenario, counts)


def counted(scenario: Scenario, overlay: Mapping[str, LiveRecord]) -> MergedSnapshot:
    """Return what is counted of a scenario, without any row."""
    return read(scenario, PageFilter(rows=False), overlay)


# ---- shared reads --------------------------------------------------------------------------------
# One reading of the board for all sockets that request the same page at the same time.
#
# After a restart all browsers of a shift come back together, and most show the same.

Key = tuple[str, Page]


class SharedSnapshot(NamedTuple):
    """A page as a socket is sent it and has to know it. last: the position after which the next
    page begins; body: the message, but for its end."""

    rows: list[Row]
    last: Order | None
    stopped: bool
    offsets: Offsets
    body: bytes

    @classmethod
    def of(cls, snapshot: MergedSnapshot, causes: Mapping[str, str]) -> SharedSnapshot:
        """Return the snapshot of what was read; the message is made once for all.

        causes: as the function of this name returns them.
        """
        merged = snapshot.merged
        stopped = merged.stopped is not None
        beside = {
            "marks": snapshot.marks,
            "acknowledged": snapshot.handled.acknowledged,
            "unhandled": snapshot.unhandled,
            "causes": causes,
            "stopped": stopped,
        }
        shown = merged._asdict()
        del shown["end"]
        body = msgspec.json.encode({"type": "snapshot", **shown, **beside})
        return cls(merged.rows, merged.last, stopped, snapshot.offsets, body)

    def message(self, **rest: Any) -> bytes:
        """Return the whole message of one socket."""
        return self.body[:-1] + b"," + msgspec.json.encode(rest)[1:]


class SharedReads:
    """The shared readings for the sockets of one event loop."""

    def __init__(self) -> None:
        self._readers = asyncio.Semaphore(READERS)
        self._waiting: dict[Key, asyncio.Task[SharedSnapshot]] = {}

    async def snapshot(self, scenario: Scenario, page_filter: PageFilter) -> SharedSnapshot:
        """Return the page as it is at some moment after this call. Raises DatabaseError."""
        key = (scenario.name, page_filter.page())
        if key not in self._waiting:
            self._waiting[key] = asyncio.create_task(self._read(key, scenario, page_filter))
        return await asyncio.shield(self._waiting[key])

    async def _read(self, key: Key, scenario: Scenario, page_filter: PageFilter) -> SharedSnapshot:
        async with self._readers:
            del self._waiting[key]  # who asks from here on wants what is newer
            return await read_in_thread(partial(_snapshot, scenario, page_filter))


def _snapshot(scenario: Scenario, page_filter: PageFilter) -> SharedSnapshot:
    view = live_view()
    snapshot = read(scenario, page_filter, view.overlay(scenario.name))
    return SharedSnapshot.of(snapshot, causes(scenario.name, view))


shared_reads = per_loop(SharedReads)
