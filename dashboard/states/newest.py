"""The newest of one asset: what the database has, and what this process has heard beyond it.

The process that listens to the states topics registers what it has heard: `overlay.register`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from dashboard.core.extension_point import Provider
from dashboard.states.board_rows import Row
from dashboard.states.models import AssetState
from dashboard.states.queries import Kept, stored
from wire.sink import StateValue, state_value


class NewestRecord(Protocol):
    """A state record that may be newer than the database's. row: None after a purge."""

    version: str
    row: Row | None
    value: bytes


overlay: Provider[[str, str], NewestRecord | None] = Provider(lambda _scenario, _asset: None)
"""Returns the newest record of an asset of a scenario, or None where the database has it."""


def record_of(scenario: str, asset: str) -> StateValue | None:
    """Return the newest state record of one visible asset, or None."""
    newer = overlay(scenario, asset)
    row = AssetState.objects.filter(scenario=scenario, asset=asset).first()
    if newer is not None and (row is None or newer.version > row.version):
        return state_value(newer.value) if newer.row is not None else None
    return state_value(row.record) if row and not row.purged else None


def newest_states(scenario: str, assets: Collection[str]) -> dict[str, tuple[str, str]]:
    """Return version and state of each known asset; the state is "" once it is purged."""
    newest = {name: (each.version, each.state) for name, each in kept_of(scenario, assets).items()}
    for asset in assets:
        newer = overlay(scenario, asset)
        if newer is not None and newer.version > newest.get(asset, ("", ""))[0]:
            newest[asset] = (newer.version, newer.row["state"] if newer.row else "")
    return newest


def kept_of(scenario: str, assets: Collection[str]) -> dict[str, Kept]:
    """Return what the database has of those of these assets that it knows."""
    return stored(scenario, assets) if assets else {}
