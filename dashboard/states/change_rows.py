"""Changes of an asset as rows of its history.

The materialiser writes them from Kafka's records, reconcile makes them from the fold's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from dashboard.states.models import CHANGE, CONFIRMED, UNCONFIRMED
from dashboard.states.record_rows import Seen
from wire.sink import StateValue

COLUMNS = (
    "scenario",
    "asset",
    "place",
    "kind",
    "version",
    "at",
    "previous",
    "state",
    "cause_type",
    "cause",
    "unconfirmed",
)
"""Columns of board.Transition, in the order of `change_row`."""

KEPT_UNCHANGED = frozenset(("reminder", "override-end", "schedule"))
"""Causes of records that are in the history although the state stayed as it was."""


class Shown(NamedTuple):
    """What an asset shows, as its history looks at it. state: empty where it is not there."""

    state: str = ""
    unconfirmed: bool = False


def kind_of(before: Shown, after: Shown, cause_type: str) -> str | None:
    """Return which kind of change a record is, None where the history does not keep it."""
    if after.state != before.state:
        return CHANGE
    if cause_type in KEPT_UNCHANGED:
        return cause_type
    if after.unconfirmed != before.unconfirmed:
        return UNCONFIRMED if after.unconfirmed else CONFIRMED
    return None


def change_row(scenario: str, seen: Seen, kind: str, before: Shown) -> tuple[Any, ...]:
    """Return the row of a record, in the order of COLUMNS. What came before a change of state is as
    the record says, if it does."""
    shape, cause = seen.shape, seen.shape.cause
    text = msgspec.json.encode(cause).decode()
    at, previous = cause.time, before.state
    if kind == CHANGE and isinstance(shape, StateValue):
        at, previous = shape.since, shape.previous or ""
    unconfirmed = isinstance(shape, StateValue) and shape.unconfirmed
    fields = (kind, seen.version, at, previous, seen.state, cause.type, text)
    return (scenario, seen.asset, seen.place, *fields, unconfirmed)
