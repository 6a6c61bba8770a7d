"""The database's rows and what is newer than they are, as one page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dashboard.live.entries import Entry
from dashboard.live.page_filter import LIMIT, Filter, Order, token_of, token_of_order
from dashboard.states.board_rows import Row, order_of
from dashboard.states.caveats import DOUBTS
from dashboard.states.queries import NOTHING, Kept


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


class Stored(NamedTuple):
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


def newer_than(overlay: Mapping[str, Entry], kept: Mapping[str, Kept]) -> dict[str, Entry]:
    """Return what of the overlay is newer than the database's version of the asset."""
    return {a: e for a, e in overlay.items() if e.version > kept.get(a, NOTHING).version}


def merge(
    stored: Stored,
    kept: Mapping[str, Kept],
    overlay: Mapping[str, Entry],
    wanted: Filter,
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
    stored: Mapping[str, int], kept: Mapping[str, Kept], newer: Mapping[str, Entry]
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
