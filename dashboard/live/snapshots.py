"""Snapshots of the board: the database, merged with what the tailer knows beyond it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from dashboard.annotations.row_marks import Held, Mark, held, marks_of
from dashboard.core.times import now_ms
from dashboard.filters import search
from dashboard.labels import queries as labels
from dashboard.live.entries import Entry, Offsets
from dashboard.live.merge import Merged, Stored, merge, newer_than
from dashboard.live.page_filter import LIMIT, Filter
from dashboard.states import queries
from dashboard.states.board_rows import Row, row_of
from dashboard.states.newest import kept_of
from domain.scenario import Scenario


class Read(NamedTuple):
    """A merged snapshot, and the next offset of each sink partition that the database rests on.

    marks: of the rows that have any; held: what of the scenario is acknowledged.
    """

    merged: Merged
    offsets: Offsets
    marks: list[Mark]
    held: Held


def read(scenario: Scenario, wanted: Filter, overlay: Mapping[str, Entry]) -> Read:
    """Return the database as of one moment, merged with `overlay`, which was read before."""
    name, page, now = scenario.name, queries.Found([], 0), now_ms()
    with queries.consistent():
        offsets = queries.sink_offsets()
        counts, doubts = queries.counts(name), queries.doubt_counts(name)
        versions = kept_of(name, overlay)
        if wanted.rows:
            page = _find(scenario, wanted, newer_than(overlay, versions).keys(), now)
    rows = [row_of(scenario, record) for record in page.records]
    _label(name, rows)
    stored = Stored(rows, page.total, counts, page.least, page.stopped, page.apart, doubts)
    merged = merge(stored, versions, overlay, replace(wanted, now=now))
    marks = marks_of(name, [row["asset"] for row in merged.rows])
    return Read(merged, offsets, marks, held(scenario, partial(_newer, overlay), now))


def _find(scenario: Scenario, wanted: Filter, skip: Collection[str], now: int) -> queries.Found:
    """Return the page's rows in the database, and one more, which says whether a page follows."""
    states, after, limit = sorted(wanted.states), wanted.after, LIMIT + 1
    if wanted.terms is None:
        name = scenario.name
        return queries.find(name, states, wanted.q, after=after, limit=limit, skip=skip)
    return search.find(scenario, states, wanted.terms, now, after=after, limit=limit, skip=skip)


def _label(scenario: str, rows: list[Row]) -> None:
    """Set on the rows what labels the board shows."""
    chips = labels.state(scenario).chips
    known = labels.labels_of(scenario, [row["asset"] for row in rows]) if chips else {}
    for row in rows:
        row["labels"] = labels.chips_of(known.get(row["asset"], {}), chips)


def _newer(overlay: Mapping[str, Entry], asset: str) -> str | None:
    """Return the state of an asset of the overlay, "" once purged; None for any other."""
    entry = overlay.get(asset)
    if entry is None:
        return None
    return entry.row["state"] if entry.row else ""


def count(scenario: Scenario, overlay: Mapping[str, Entry]) -> dict[str, int]:
    """Return the counts by state, the overlay included."""
    return counted(scenario, overlay).merged.counts


def counted(scenario: Scenario, overlay: Mapping[str, Entry]) -> Read:
    """Return what is counted of a scenario, without any row."""
    return read(scenario, Filter(rows=False), overlay)
