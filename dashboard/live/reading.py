"""Snapshots of the board: the database, merged with what the tailer knows beyond it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec

from dashboard.board import store
from dashboard.board.models import AssetState
from dashboard.live.process import live_view
from dashboard.live.rows import row_of
from dashboard.live.view import LIMIT, Entry, Filter, Merged, Offsets, Stored, merge, newer_than
from domain.scenario import Scenario


class Read(NamedTuple):
    """A merged snapshot, and the next offset of each sink partition that the database rests on."""

    merged: Merged
    offsets: Offsets


def read(scenario: Scenario, wanted: Filter, overlay: Mapping[str, Entry]) -> Read:
    """Read the database as of one moment, and merge `overlay`, which was taken before."""
    name, found = scenario.name, store.Found([], 0)
    with store.consistent():
        offsets = store.sink_offsets()
        counts = store.counts(name)
        versions = stored_states(name, overlay)
        if wanted.rows:
            found = store.find(
                name,
                sorted(wanted.states),
                wanted.q,
                after=wanted.after,
                limit=LIMIT + 1,  # one more says whether a page follows
                skip=newer_than(overlay, versions).keys(),
            )
    rows = [row_of(scenario, record) for record in found.records]
    stored = Stored(rows, found.total, counts, found.least)
    return Read(merge(stored, versions, overlay, wanted), offsets)


def stored_states(scenario: str, assets: Collection[str]) -> dict[str, tuple[str, str]]:
    """Version and state ("" once purged) that the database has of these assets."""
    if not assets:
        return {}
    return {asset: (version, state) for asset, version, state in store.stored(scenario, assets)}


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
