"""Records of the states topics and of the dead letters as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from domain.records import (
    Answer,
    Cause,
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


def encode_state(record: StateRecord) -> bytes:
    """The value of a state record: JSON, always in the same order of fields."""
    return msgspec.json.encode(
        {
            "asset": record.asset,
            "state": record.state,
            "previous": record.previous,
            "since": record.since,
            "unconfirmed": record.unconfirmed,
            "version": str(record.version),
            "cause": record.cause,
            "votes": record.votes,
            "pending": record.pending,
            "override": record.override,
            "answer": record.answer,
        }
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
    """Read the value that `encode_state` wrote.

    Raises AttributeError, KeyError, TypeError or ValueError for anything else.
    """
    data = msgspec.json.decode(value)
    return StateRecord(
        asset=data["asset"],
        state=data["state"],
        previous=data["previous"],
        since=data["since"],
        unconfirmed=data["unconfirmed"],
        version=Version.parse(data["version"]),
        cause=Cause(**data["cause"]),
        votes=tuple(Vote(**vote) for vote in data["votes"]),
        pending=Pending(**data["pending"]) if data["pending"] else None,
        override=Override(**data["override"]) if data["override"] else None,
        answer=Answer(**data["answer"]) if data["answer"] else None,
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
