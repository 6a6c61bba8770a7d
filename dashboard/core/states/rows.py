"""Records of the states topics as rows of the database: states and their changes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from dashboard.core.common.times import MINUTE_MS
from dashboard.core.states.board_rows import details_of, history_cause
from dashboard.core.states.caveats import Doubts, doubted_agents, doubts_of, rank_of, silent_votes
from dashboard.core.states.models import CHANGE, CONFIRMED, DETAIL_KINDS, UNCONFIRMED
from domain.names import USER_PREFIX, name_ok, state_name_ok
from domain.records import StateRecord, Tombstone
from domain.scenario import MAX_DETAILS, Scenario
from wire.sink import (
    AnswerValue,
    OverrideValue,
    StateValue,
    TombstoneValue,
    UnreadableState,
    VoteValue,
    encode_headers,
    encode_state,
    read_state,
)

# ---- record rows ---------------------------------------------------------------------------------
# Records of the states topics as rows of the database.
#
# The materialiser reads records from Kafka, and reconcile gets them from the fold. Both go through
# `read`, so that the rows are the same either way.

DETAIL_COLUMNS = tuple(f"{kind}_{n + 1}" for n in range(MAX_DETAILS) for kind in DETAIL_KINDS)
"""Columns of AssetState for the scenario's details: each has one for texts and one for numbers."""

COLUMNS = (
    "scenario",
    "asset",
    "partition",
    "state",
    "severity",
    "rank",
    "previous",
    "since",
    "unconfirmed",
    "unconfirmed_reason",
    "disputed",
    "silent",
    "doubt",
    "version",
    "changed_at",
    "cause_type",
    "reported_at",
    "reported_in",
    "voteless_in",
    "overridden",
    "override_since",
    "override_until",
    "override_user",
    "pending_due",
    *DETAIL_COLUMNS,
    "record",
    "purged",
    "purged_at",
)
"""Columns of AssetState, in the order of `record_row`."""

VERSION_PARTS = _EPOCH, _OFFSET, _STEP = (6, 19, 13)
"""Digits of epoch, offset and step in a version's sortable form."""

_VERSION = re.compile(r"\.".join(rf"([0-9]{{1,{digits}}})" for digits in VERSION_PARTS))

QUARTER_MS = 15 * MINUTE_MS

Headers = Sequence[tuple[str, bytes]]


class ReadableRecord(NamedTuple):
    """A readable record of a states topic.

    version: in sortable form; shape: its content; text: its JSON (a state's, as in the topic).
    """

    asset: str
    version: str
    shape: StateValue | TombstoneValue
    text: str

    @property
    def state(self) -> str:
        """Return the state, empty after a purge."""
        return self.shape.state if isinstance(self.shape, StateValue) else ""

    @property
    def doubts(self) -> Doubts:
        """Return the doubts of the state; none after a purge."""
        shape = self.shape
        if not isinstance(shape, StateValue):
            return ()
        silent, doubt = silent_votes(shape.votes), doubted_agents(shape.votes, shape.doubts)
        return doubts_of(shape.disputed, shape.unconfirmed, silent, doubt)

    @property
    def place(self) -> str:
        """Return the offset and step of the version, which are the same in every epoch."""
        return place_of(self.version)


def read(key: bytes | None, value: bytes | None, headers: Headers = ()) -> ReadableRecord:
    """Decode a record of a states topic and check everything that the database requires.

    Return the record. Raises UnreadableState.
    """
    shape = read_state(key, value, headers)
    try:
        asset = _asset(key)
        _check_answer(shape.answer)
        if value is None or not isinstance(shape, StateValue):
            text = msgspec.json.encode(shape).decode()
        else:
            _check_state(asset, shape)
            text = value.decode()
        return ReadableRecord(asset, sortable(shape.version), shape, text)
    except ValueError as error:  # UnicodeDecodeError included
        raise UnreadableState(f"states record of {key!r}: {error!r}") from None


def _asset(key: bytes | None) -> str:
    asset = (key or b"").decode()
    if not name_ok(asset):
        raise ValueError("the key is not a valid name of an asset")
    return asset


def _check_state(asset: str, shape: StateValue) -> None:
    if shape.asset != asset:
        raise ValueError(f"it is about {shape.asset!r}, not about its key")
    for state in (shape.state, shape.previous, shape.disputed):
        if state is not None and not _state_ok(state):
            raise ValueError("its state is not a valid name")
    if "\0" in (shape.unconfirmed_reason or ""):
        raise ValueError("its reason cannot be stored")


def _check_answer(answer: AnswerValue | None) -> None:
    if answer is not None:
        UUID(answer.command)
        if "\0" in answer.outcome:
            raise ValueError("its outcome cannot be stored")


_state_ok = lru_cache(maxsize=10_000)(state_name_ok)


def sortable(version: str) -> str:
    """Return a version such as `1.42.0` in sortable form. Raises ValueError."""
    parts = _VERSION.fullmatch(version)
    if parts is None:
        raise ValueError(f"expected epoch.offset.step, got {version!r}")
    return f"{parts[1].zfill(_EPOCH)}.{parts[2].zfill(_OFFSET)}.{parts[3].zfill(_STEP)}"


def place_of(version: str) -> str:
    """Return the offset and step of a sortable version."""
    return version[VERSION_PARTS[0] + 1 :]


def imported_place(at: int) -> str:
    """Return the place of a change that was brought in, by its time (Unix ms): before all places of
    the log, but those of its very first record."""
    return f"{0:0{_OFFSET}}.{at:0{_STEP}}"


IMPORTED_PLACES = imported_place(10 ** (_STEP - 1)), imported_place(10**_STEP - 1)
"""The first and the last place of what was brought in; a record has far fewer steps."""


def same_epoch(version: str, other: str) -> bool:
    """Return whether two sortable versions have the same epoch."""
    return version[:_EPOCH] == other[:_EPOCH]


def is_read_again(version: str, before: str) -> bool:
    """Return whether a sortable version is no later in the log than the one before.

    If so, a new epoch reads again what was already known.
    """
    return version[_EPOCH:] <= before[_EPOCH:]


def seen_of(emission: StateRecord | Tombstone) -> ReadableRecord:
    """Return a record emitted by the fold as if it had been read from the topic."""
    value = encode_state(emission) if isinstance(emission, StateRecord) else None
    return read(emission.asset.encode(), value, encode_headers(emission))


def record_row(scenario: Scenario, seen: ReadableRecord) -> tuple[Any, ...]:
    """Return the database row of a record, in the order of COLUMNS."""
    shape, cause = seen.shape, seen.shape.cause
    if isinstance(shape, TombstoneValue):
        shown: tuple[Any, ...] = ("", 0, None, "", 0, False, None, None, None, None)
        marks: tuple[Any, ...] = (None, None, None, *_NO_OVERRIDE, None, *_NO_DETAILS)
        purged: tuple[Any, ...] = (True, cause.time)
    else:
        shown = _shown(scenario, shape)
        due = shape.pending.due if shape.pending else None
        report, override = _last_report(shape.votes, cause.time), _override(shape.override)
        marks = (*report, *override, due, *detail_columns(scenario, shape))
        purged = (False, None)
    return (
        scenario.name,
        seen.asset,
        cause.partition,
        *shown,
        seen.version,
        cause.time,
        cause.type,
        *marks,
        seen.text,
        *purged,
    )


def _shown(scenario: Scenario, shape: StateValue) -> tuple[Any, ...]:
    """Return the columns of the state and its doubts."""
    severity = scenario.severity(shape.state)
    return (
        shape.state,
        severity,
        rank_of(severity, shape.disputed),
        shape.previous or "",
        shape.since,
        shape.unconfirmed,
        shape.unconfirmed_reason,
        shape.disputed,
        silent_votes(shape.votes),
        doubted_agents(shape.votes, shape.doubts),
    )


_NO_DETAILS = (None,) * len(DETAIL_COLUMNS)


def detail_columns(scenario: Scenario, shape: StateValue) -> tuple[str | float | None, ...]:
    """Return the values of DETAIL_COLUMNS: text and number of each detail."""
    columns: list[str | float | None] = []
    for value in details_of(scenario, shape):
        columns += (value, None) if isinstance(value, str) else (None, value)
    return (*columns, *_NO_DETAILS[len(columns) :])


_NO_OVERRIDE = (False, None, None, None)


def _override(override: OverrideValue | None) -> tuple[Any, ...]:
    if override is None:
        return _NO_OVERRIDE
    return (True, override.since, override.until, override.user)


def quarter_of(at: int) -> int:
    """Return the number of quarter hours from 1970 to a time (Unix ms)."""
    return at // QUARTER_MS


def _last_report(votes: Iterable[VoteValue], changed_at: int) -> tuple[int | None, ...]:
    """Return reported_at, reported_in and voteless_in."""
    at = _reported_at(votes)
    return (None, None, quarter_of(changed_at)) if at is None else (at, quarter_of(at), None)


def _reported_at(votes: Iterable[VoteValue]) -> int | None:
    """Return when the newest live vote of an agent was reported; None without one."""
    last = None
    for vote in votes:  # a plain loop: a generator and `max` take twice as long
        if vote.silent is None and (last is None or vote.time > last):
            last = last if vote.agent.startswith(USER_PREFIX) else vote.time
    return last


def same_content(one: str, other: str) -> bool:
    """Return whether two records' texts have equal content, in whatever order of fields."""
    if one == other:
        return True
    try:
        return bool(msgspec.json.decode(one) == msgspec.json.decode(other))
    except msgspec.DecodeError:
        return False


# ---- change rows ---------------------------------------------------------------------------------
# Changes of an asset as rows of its history.
#
# The materialiser makes them from Kafka's records, reconcile from the fold's.

CHANGE_COLUMNS = (
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
"""Causes of records that the history keeps even if the state did not change."""


class Shown(NamedTuple):
    """What an asset shows, as far as its history is concerned. state: "" if there is no asset."""

    state: str = ""
    unconfirmed: bool = False


def kind_of(before: Shown, after: Shown, cause_type: str) -> str | None:
    """Return the kind of change that a record is; None if the history does not keep it."""
    if after.state != before.state:
        return CHANGE
    if cause_type in KEPT_UNCHANGED:
        return cause_type
    if after.unconfirmed != before.unconfirmed:
        return UNCONFIRMED if after.unconfirmed else CONFIRMED
    return None


def change_row(scenario: str, seen: ReadableRecord, kind: str, before: Shown) -> tuple[Any, ...]:
    """Return the history row of a record, in the order of CHANGE_COLUMNS.

    For a change of state, the time and the previous state come from the record if it has them.
    """
    shape, cause = seen.shape, seen.shape.cause
    held = cause.type == "hold" and isinstance(shape, StateValue)
    text = msgspec.json.encode(history_cause(shape) if held else cause).decode()  # type: ignore[arg-type]
    at, previous = cause.time, before.state
    if kind == CHANGE and isinstance(shape, StateValue):
        at, previous = shape.since, shape.previous or ""
    unconfirmed = isinstance(shape, StateValue) and shape.unconfirmed
    fields = (kind, seen.version, at, previous, seen.state, cause.type, text)
    return (scenario, seen.asset, seen.place, *fields, unconfirmed)
