"""Records of the states topics and of the dead letters as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import msgspec

from domain.records import (
    Answer,
    Cause,
    Muted,
    Override,
    Pending,
    StateRecord,
    Tombstone,
    Vote,
)
from domain.version import Version

Headers = Sequence[tuple[str, bytes]]

MAX_DEAD_VALUE = 65_536
"""How much of a refused record's value is kept, bytes."""


class UnreadableState(ValueError):
    """A record of a states topic that is not one of ours."""


_NULL = msgspec.Raw(b"null")


class _Vote(msgspec.Struct, forbid_unknown_fields=True):
    """A vote as it stands in a state record: its detail as it came; `muted` and `silent` only
    where it is."""

    agent: str
    state: str
    reported_at: int
    time: int
    offset: int
    expires: int | None
    weight: int
    detail: msgspec.Raw = _NULL
    muted: Muted | msgspec.UnsetType = msgspec.UNSET
    silent: int | msgspec.UnsetType = msgspec.UNSET

    @classmethod
    def of(cls, vote: Vote) -> Self:
        """The domain's vote in this form."""
        return cls(
            vote.agent,
            vote.state,
            vote.reported_at,
            vote.time,
            vote.offset,
            vote.expires,
            vote.weight,
            _NULL if vote.detail is None else msgspec.Raw(vote.detail),
            msgspec.UNSET if vote.muted is None else vote.muted,
            msgspec.UNSET if vote.silent is None else vote.silent,
        )

    def vote(self) -> Vote:
        """The domain's form of it. Raises ValueError for a detail that is no object."""
        detail = bytes(self.detail).decode()
        if detail != "null" and not detail.startswith("{"):
            raise ValueError("detail: expected an object")
        return Vote(
            self.agent,
            self.state,
            self.reported_at,
            self.time,
            self.offset,
            self.expires,
            self.weight,
            None if detail == "null" else detail,
            None if self.muted is msgspec.UNSET else self.muted,
            None if self.silent is msgspec.UNSET else self.silent,
            min(self.reported_at, self.time),
            max(0, self.time - self.reported_at),
        )


class _State(msgspec.Struct, kw_only=True):
    """The value of a state record, its fields in their order; two only where they say something."""

    asset: str
    state: str
    previous: str | None
    since: int
    unconfirmed: bool
    unconfirmed_reason: str | msgspec.UnsetType = msgspec.UNSET
    disputed: str | msgspec.UnsetType = msgspec.UNSET
    version: str
    cause: Cause
    votes: list[_Vote]
    pending: Pending | None
    override: Override | None
    answer: Answer | None


_STATE = msgspec.json.Decoder(_State)


def encode_state(record: StateRecord) -> bytes:
    """The value of a state record: JSON, always in the same order of fields."""
    return msgspec.json.encode(
        _State(
            asset=record.asset,
            state=record.state,
            previous=record.previous,
            since=record.since,
            unconfirmed=record.unconfirmed,
            unconfirmed_reason=record.unconfirmed_reason or msgspec.UNSET,
            disputed=record.disputed or msgspec.UNSET,
            version=str(record.version),
            cause=record.cause,
            votes=[_Vote.of(vote) for vote in record.votes],
            pending=record.pending,
            override=record.override,
            answer=record.answer,
        )
    )


def encode_headers(record: StateRecord | Tombstone) -> tuple[tuple[str, bytes], ...]:
    """Version and, for an answer, command and outcome; on a tombstone the cause too."""
    headers = [("version", str(record.version).encode())]
    if record.answer is not None:
        headers.append(("command", record.answer.command.encode()))
        headers.append(("outcome", record.answer.outcome.encode()))
    if isinstance(record, Tombstone):
        headers.append(("cause", msgspec.json.encode(record.cause)))
    return tuple(headers)


def decode_state(
    key: bytes | None, value: bytes | None, headers: Headers = ()
) -> StateRecord | Tombstone:
    """Read a record of a states topic. Raises UnreadableState."""
    try:
        asset = (key or b"").decode("utf-8")
        return _tombstone(asset, dict(headers)) if value is None else state_of_json(value)
    except (AttributeError, KeyError, TypeError, ValueError, msgspec.MsgspecError) as error:
        raise UnreadableState(f"states record of {key!r}: {error}") from None


def state_of_json(value: bytes | str) -> StateRecord:
    """Read the value that `encode_state` wrote. Raises ValueError for anything else."""
    data = _STATE.decode(value)
    return StateRecord(
        data.asset,
        data.state,
        data.previous,
        data.since,
        data.unconfirmed,
        Version.parse(data.version),
        data.cause,
        tuple([vote.vote() for vote in data.votes]),
        data.pending,
        data.override,
        data.answer,
        data.unconfirmed_reason or None,
        data.disputed or None,
    )


def _tombstone(asset: str, headers: dict[str, bytes]) -> Tombstone:
    answer = None
    if "command" in headers:
        answer = Answer(headers["command"].decode(), headers["outcome"].decode())
    cause = Cause(**msgspec.json.decode(headers["cause"]))
    return Tombstone(asset, Version.parse(headers["version"].decode()), cause, answer)


class DeadRecord(NamedTuple):
    """A refused record with its source coordinates; timestamp in ms."""

    reason: str
    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


_ORIGINAL = "original-"
_COORDINATES = ("topic", "partition", "offset", "timestamp")


def encode_dead_letter(dead: DeadRecord) -> tuple[bytes | None, bytes | None, Headers]:
    """Key, value (its first 64 KiB) and headers of a dead letter."""
    headers = [("reason", dead.reason.encode())]
    headers += [(f"source-{name}", str(getattr(dead, name)).encode()) for name in _COORDINATES]
    headers += [(_ORIGINAL + name, value) for name, value in dead.headers]
    value = dead.value if dead.value is None else dead.value[:MAX_DEAD_VALUE]
    return dead.key, value, tuple(headers)


def decode_dead_letter(key: bytes | None, value: bytes | None, headers: Headers) -> DeadRecord:
    """Read a dead letter. Raises KeyError or ValueError for a record that is none."""
    named = dict(headers)
    originals = [(n[len(_ORIGINAL) :], v) for n, v in headers if n.startswith(_ORIGINAL)]
    return DeadRecord(
        reason=named["reason"].decode(),
        topic=named["source-topic"].decode(),
        partition=int(named["source-partition"]),
        offset=int(named["source-offset"]),
        timestamp=int(named["source-timestamp"]),
        key=key,
        value=value,
        headers=tuple(originals),
    )
