"""What the job tells of itself and what it is asked: heartbeats, progress, control."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

import msgspec

T = TypeVar("T")

Status = Literal["starting", "catching-up", "running", "restarting", "waiting", "stopped", "failed"]


class Heartbeat(msgspec.Struct, frozen=True):
    """One bucket's sign of life: what it has reached. Times in ms.

    log_time and offset: the bucket's clock and the last offset applied; records, dead_letters,
    stale: counted since the heartbeat before; at: the worker's own clock.
    """

    bucket: str
    scenario: str
    partition: int
    epoch: int
    executor: str
    host: str
    log_time: int
    offset: int
    assets: int
    dues: int
    records: int
    dead_letters: int
    stale: int
    engine: str
    at: int


class Progress(msgspec.Struct, frozen=True):
    """How a query fares: its status, or (`batch`) Spark's own progress of one batch."""

    query: str
    at: int
    status: Status
    epoch: int
    message: str = ""
    restarts: int = 0
    batch: dict[str, Any] | None = None


class Control(msgspec.Struct, frozen=True):
    """What the console asks of the job; answered in the progress topic."""

    id: str
    query: str
    action: Literal["stop", "start", "reload"]


class UnreadableJobRecord(ValueError):
    """A record of a job topic that is not one of ours."""


def bucket_name(scenario: str, partition: int) -> str:
    """The name of a bucket, the key of its heartbeats: `attack/0`."""
    return f"{scenario}/{partition}"


def encode(record: Heartbeat | Progress | Control) -> bytes:
    """The value of a record of a job topic."""
    return msgspec.json.encode(record)


def decode_heartbeat(value: bytes | None) -> Heartbeat:
    """Read a heartbeat. Raises UnreadableJobRecord."""
    return _decode(value, Heartbeat)


def decode_progress(value: bytes | None) -> Progress:
    """Read a progress record. Raises UnreadableJobRecord."""
    return _decode(value, Progress)


def decode_control(value: bytes | None) -> Control:
    """Read a control record. Raises UnreadableJobRecord."""
    return _decode(value, Control)


def _decode(value: bytes | None, type_: type[T]) -> T:
    try:
        return msgspec.json.decode(value or b"", type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UnreadableJobRecord(f"{type_.__name__}: {error}") from None
