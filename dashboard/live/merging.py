"""The database's rows and what is newer than they are, as one page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dashboard.live.entries import Entry
from dashboard.live.rows import Row, order_of
from dashboard.live.shown import LIMIT, Filter, Order, token_of


class Merged(NamedTuple):
    """Rows of the database and the overlay as one page, in the board's order.

    next: the token of the page that follows, None where nothing does; least: more than `total` may
    match; stopped: the place up to which the board was looked at, where that was not its end.
    """

    rows: list[Row]
    total: int
    counts: dict[str, int]
    next: str | None = None
    least: bool = False
    stopped: Order | None = None


class Stored(NamedTuple):
    """What the database has of a page. rows: more than LIMIT of those that no newer record has
    taken the place of, or all that there are; total: of all that match; stopped: where looking
    ended before the board did; apart: `total` is without what a newer record has taken the place
    of."""

    rows: Iterable[Row]
    total: int
    counts: Mapping[str, int]
    least: bool = False
    stopped: Order | None = None
    apart: bool = False


def newer_than(
    overlay: Mapping[str, Entry], versions: Mapping[str, tuple[str, str]]
) -> dict[str, Entry]:
    """Of the overlay, what is newer than the database's version of the asset."""
    return {a: e for a, e in overlay.items() if e.version > versions.get(a, ("", ""))[0]}


def merge(
    stored: Stored,
    versions: Mapping[str, tuple[str, str]],
    overlay: Mapping[str, Entry],
    wanted: Filter,
) -> Merged:
    """The newest of both by version.

    versions: version and state ("" once purged) that the database has of the overlay's assets.
    """
    newer = newer_than(overlay, versions)
    shown = [row for row in stored.rows if row["asset"] not in newer]
    tally, total = dict(stored.counts), stored.total
    for asset, entry in newer.items():
        before = versions.get(asset, ("", ""))[1]
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
    return Merged(shown[:LIMIT], max(total, 0), positive, follows, stored.least, stopped)


def _cut(shown: list[Row], stopped: Order | None) -> tuple[str | None, Order | None]:
    """The token of the page that follows, and the place where this one ends early, if either is.

    What lies past the place where looking ended belongs to the next page.
    """
    if stopped is not None:
        shown[:] = [row for row in shown if order_of(row) <= stopped]
    if len(shown) > LIMIT:
        return token_of(shown[LIMIT - 1]), None
    if stopped is None:
        return None, None
    severity, newest, asset = stopped
    return f"{severity}.{-newest}.{asset}", stopped
