"""Snapshots of the board: the database, merged with what the tailer knows beyond it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from dashboard.board import store
from dashboard.board.models import AssetState
from dashboard.live.process import live_view
from dashboard.live.rows import row_of
from dashboard.live.view import LIMIT, Entry, Filter, Merged, Offsets, merge
from domain.scenario import Scenario

CHUNK = 400
"""Assets asked for in one query: SQLite takes a limited number of parameters."""


class Read(NamedTuple):
    """A merged snapshot, and the next offset of each sink partition that the database rests on."""

    merged: Merged
    offsets: Offsets


def read(scenario: Scenario, wanted: Filter, overlay: Mapping[str, Entry]) -> Read:
    """Read the database as of one moment, and merge `overlay`, which was taken before."""
    name, states = scenario.name, sorted(wanted.states)
    with store.consistent():
        offsets = store.sink_offsets()
        counts = store.counts(name)
        stored = stored_states(name, overlay)
        records, total = [], 0
        if wanted.rows:
            limit = LIMIT + len(overlay)  # so many rows may give way to newer ones
            records = store.rows(name, states, wanted.q, limit)
            total = _total(name, states, wanted.q, counts)
    rows = [row_of(scenario, record) for record in records]
    return Read(merge(rows, total, counts, stored, overlay, wanted), offsets)


def _total(name: str, states: list[str], q: str, counts: Mapping[str, int]) -> int:
    if q:
        return store.matching(name, states, q).count()
    return sum(n for state, n in counts.items() if not states or state in states)


def stored_states(scenario: str, assets: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Version and state ("" once purged) that the database has of these assets."""
    found: dict[str, tuple[str, str]] = {}
    left = iter(assets)
    while chunk := list(islice(left, CHUNK)):
        rows = AssetState.objects.filter(scenario=scenario, asset__in=chunk)
        for asset, version, state, purged in rows.values_list(
            "asset", "version", "state", "purged"
        ):
            found[asset] = (version, "" if purged else state)
    return found


def record_of(scenario: str, asset: str) -> dict[str, Any] | None:
    """The newest state record of one visible asset, of the overlay or the database."""
    entry = live_view().entry(scenario, asset)
    stored = AssetState.objects.filter(scenario=scenario, asset=asset).first()
    if entry is not None and (stored is None or entry.version > stored.version):
        return msgspec.json.decode(entry.value) if entry.row is not None else None
    return msgspec.json.decode(stored.record) if stored and not stored.purged else None


def count(scenario: Scenario, overlay: Mapping[str, Entry]) -> dict[str, int]:
    """The counts by state, the overlay included."""
    return read(scenario, Filter(rows=False), overlay).merged.counts
