"""State put into a bucket: from another checkpoint, or from before a record."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from domain.asset import next_timer
from domain.fold import Bucket
from domain.records import Mute, StateRecord
from domain.scenario import Scenario
from streaming.kernel.state_codec import dump_kernel_asset, dump_kernel_meta
from streaming.state.buckets import BucketId
from streaming.state.store import SLOT, BucketAssets, Map, TimerStore
from wire.asset import dump_asset, load_asset
from wire.sink import encode_headers, encode_state
from wire.snapshot import DamagedSnapshot, Emitted

# ---- initial state -------------------------------------------------------------------------------
# A bucket's state as a file, which an engine begins with where its own state is empty.
#
# Frames, each after its length in four bytes (-1: null): a head, as the engine keeps it with the
# assets; of each asset its name and the entry of the engine's state; null; of each asset its name
# and what was last emitted of it, packed; null.

if TYPE_CHECKING:
    from streaming.state.buckets import Engine

_LENGTH = 4


def read_snapshot(path: Path, digest: str) -> bytes:
    """Return a snapshot's file. digest: its SHA-256. Raises DamagedSnapshot."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DamagedSnapshot(f"snapshot: {path.name}: {error}") from None
    if hashlib.sha256(data).hexdigest() != digest:
        raise DamagedSnapshot(f"digest: expected that of {path.name}")
    return data


def check_place(bucket: Bucket, name: str, offset: int) -> None:
    """Raise DamagedSnapshot unless it is the bucket `name` before the record at `offset`."""
    actual = str(BucketId(bucket.scenario.name, bucket.partition))
    if (actual, bucket.offset + 1) != (name, offset):
        raise DamagedSnapshot(
            f"snapshot: expected one up to offset {offset}, "
            f"got one of {actual} up to {bucket.offset + 1}"
        )


class Head(msgspec.Struct):
    """The Python engine's head: a bucket's clock, last offset, assets that exist, and mutes."""

    clock: int
    offset: int
    live: int
    mutes: list[Mute] = []


def write_initial_state(
    path: Path, bucket: Bucket, last: Mapping[str, Emitted], engine: Engine, epoch: int
) -> None:
    """Write the state of a bucket for an engine, and what was last emitted as `epoch` tells it."""
    with path.open("wb") as file:
        file.write(framed(_head(bucket, engine)))
        for name in bucket.assets:
            file.write(framed(name.encode()) + framed(_entry(bucket, name, engine)))
        file.write(framed(None))
        for name, record in last.items():
            file.write(framed(name.encode()) + framed(_last(record, epoch)))
        file.write(framed(None))


def _head(bucket: Bucket, engine: Engine) -> bytes:
    if engine == "kernel":
        return dump_kernel_meta(bucket)
    mutes = list(bucket.mutes.values())
    return msgspec.json.encode(Head(bucket.clock, bucket.offset, bucket.live, mutes))


def _entry(bucket: Bucket, name: str, engine: Engine) -> bytes:
    asset = bucket.assets[name]
    if engine == "python":
        return dump_asset(asset)
    timer = next_timer(asset, bucket.scenario)
    return dump_kernel_asset(asset, timer.time if timer else None)


def _last(record: Emitted, epoch: int) -> bytes:
    emitted = replace(record, version=record.version._replace(epoch=epoch))
    value = encode_state(emitted) if isinstance(emitted, StateRecord) else None
    return pack(value, encode_headers(emitted))


Pairs = list[tuple[str, bytes]]


def read_initial_state(path: str) -> tuple[Head, Pairs, Pairs]:
    """Return the Python engine's initial state: head, entries and last emissions by name."""
    frames = _frames(Path(path).read_bytes())
    head = msgspec.json.decode(next(frames) or b"", type=Head)
    return head, _pairs(frames), _pairs(frames)


def _pairs(frames: Iterator[bytes | None]) -> Pairs:
    pairs = []
    while (name := next(frames)) is not None:
        pairs.append((name.decode(), next(frames) or b""))
    return pairs


# ---- a record that is held back -------------------------------------------------------------


def pack(value: bytes | None, headers: Iterable[tuple[str, bytes]]) -> bytes:
    """Return a record's value and headers as frames."""
    parts = [value, *(part for name, data in headers for part in (name.encode(), data))]
    return b"".join(framed(part) for part in parts)


def unpack(data: bytes) -> tuple[bytes | None, list[tuple[str, bytes]]]:
    """Read what `pack` wrote."""
    value, *rest = _frames(data)
    names, values = rest[::2], rest[1::2]
    return value, [((n or b"").decode(), v or b"") for n, v in zip(names, values, strict=True)]


def framed(part: bytes | None) -> bytes:
    """Return a part after its length."""
    if part is None:
        return (-1).to_bytes(_LENGTH, "big", signed=True)
    return len(part).to_bytes(_LENGTH, "big") + part


def _frames(data: bytes) -> Iterator[bytes | None]:
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at : at + _LENGTH], "big", signed=True)
        at += _LENGTH
        yield None if length < 0 else data[at : at + length]
        at += max(length, 0)


# ---- state restore -------------------------------------------------------------------------------
# How the Python engine begins in mid-log: a bucket's seed, and what is held back meanwhile.

# A record's value and headers.
Record = tuple[bytes | None, list[tuple[str, bytes]]]


class Listed(Map, Protocol):
    """What is used of Spark's MapState where its entries are gone through."""

    def iterator(self) -> Iterator[tuple[tuple, tuple]]: ...
    def clear(self) -> None: ...


class RestoredState(NamedTuple):
    """What a bucket begins with; slot, waiting: see TimerStore."""

    head: Head
    slot: int
    waiting: int


def restore_state(
    path: str, assets: Map, timers: Map, last: Map, scenario: Scenario
) -> RestoredState:
    """Put a seed into a bucket's empty state."""
    head, entries, emitted = read_initial_state(path)
    store = BucketAssets(assets)
    index = TimerStore(timers, store, head.clock // SLOT, 0)
    for name, data in entries:
        asset = load_asset(data)
        store[name] = asset
        timer = next_timer(asset, scenario)
        index.set(name, timer.time if timer else None)
    slot, waiting = index.flush(head.clock)
    store.flush()
    for name, record in emitted:
        last.updateValue((name,), (record,))
    return RestoredState(head, slot, waiting)


class SuppressedOutput:
    """The last record of each asset, while the log is read up to where readers have been before.

    They would see the past otherwise: versions of a later epoch are the higher ones.
    """

    def __init__(self, entries: Listed, upto: int) -> None:
        """upto: the last offset whose records are held back, -1 for none."""
        self._entries, self._upto = entries, upto
        self._fresh: dict[str, bytes] = {}

    def covers(self, offset: int) -> bool:
        """Return whether what the record at this offset causes is held back."""
        return offset <= self._upto

    def put(self, name: str, value: bytes | None, headers: Iterable[tuple[str, bytes]]) -> None:
        """Hold a record back, in place of the asset's one before."""
        self._fresh[name] = pack(value, headers)

    def before(self, offset: int, reached: int) -> Iterator[tuple[str, Record]]:
        """Return what is to be emitted before the record at `offset`, the one after `reached`."""
        if not reached <= self._upto < offset:
            return
        self.flush()
        for (name,), (data,) in list(self._entries.iterator()):
            yield name, unpack(bytes(data))
        self._entries.clear()

    def flush(self) -> None:
        """Write what has been held back since."""
        for name, data in self._fresh.items():
            self._entries.updateValue((name,), (data,))
        self._fresh = {}
