"""State records as rows of the database."""

from __future__ import annotations

from typing import Any

import msgspec

from domain.records import StateRecord, Tombstone
from domain.scenario import Scenario
from wire.sink import encode_state

COLUMNS = (
    "scenario",
    "asset",
    "partition",
    "state",
    "severity",
    "previous",
    "since",
    "unconfirmed",
    "version",
    "changed_at",
    "cause_type",
    "overridden",
    "pending_due",
    "record",
    "purged",
    "purged_at",
)
"""Columns of board.AssetState, in the order in which `columns_of` gives their values."""


def columns_of(scenario: Scenario, record: StateRecord | Tombstone) -> dict[str, Any]:
    """The row that shows `record`: every column but the key."""
    shown = _state_columns(scenario, record) if isinstance(record, StateRecord) else _HIDDEN
    cause = record.cause
    purged = isinstance(record, Tombstone)
    return {
        "scenario": scenario.name,
        "asset": record.asset,
        "partition": cause.partition,
        **shown,
        "version": record.version.sortable(),
        "changed_at": cause.time,
        "cause_type": cause.type,
        "record": content_of(record),
        "purged": purged,
        "purged_at": cause.time if purged else None,
    }


def content_of(record: StateRecord | Tombstone) -> str:
    """The record as JSON text, as it is kept and compared."""
    if isinstance(record, StateRecord):
        return encode_state(record).decode()
    tombstone = {
        "asset": record.asset,
        "version": str(record.version),
        "cause": record.cause,
        "answer": record.answer,
    }
    return msgspec.json.encode(tombstone).decode()


_HIDDEN: dict[str, Any] = {
    "state": "",
    "severity": 0,
    "previous": "",
    "since": 0,
    "unconfirmed": False,
    "overridden": False,
    "pending_due": None,
}


def _state_columns(scenario: Scenario, record: StateRecord) -> dict[str, Any]:
    return {
        "state": record.state,
        "severity": scenario.severity(record.state),
        "previous": record.previous or "",
        "since": record.since,
        "unconfirmed": record.unconfirmed,
        "overridden": record.override is not None,
        "pending_due": record.pending.due if record.pending else None,
    }
