"""Buckets, the bounds of their clocks, and the engines that fold them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Literal, NamedTuple, TypeVar
from zlib import crc32

import msgspec

from domain.bounds import Bound
from streaming.state.storage import StoragePath

# ---- engine --------------------------------------------------------------------------------------
# The two engines, how their queries run, and what both rest on.

Engine = Literal["kernel", "python"]
# How a query runs. catch-up: micro-batches up to the log's present end, then it ends by itself;
# leg: the batch alone that its checkpoint has planned.
Trigger = Literal["real-time", "micro-batch", "catch-up", "leg"]

# State partitions of a checkpoint whose epoch names no number: see streaming/fold/epochs.py.
UNNAMED_STATE_PARTITIONS = 2


# ---- buckets -------------------------------------------------------------------------------------
# Buckets and the keys under which Spark groups them.

_MASK = 0xFFFFFFFF
_SEED = 42


class BucketId(NamedTuple):
    """One source partition of one scenario."""

    scenario: str
    partition: int

    def __str__(self) -> str:
        return f"{self.scenario}/{self.partition}"

    @classmethod
    def parse(cls, text: str) -> BucketId:
        """Read `attack/3`, or a grouping key made from it. Raises ValueError."""
        scenario, _, partition = text.partition("#")[0].rpartition("/")
        return cls(scenario, int(partition))


def bucket_key(bucket: BucketId, state_partitions: int) -> str:
    """Return the grouping key of a bucket: its name, with a suffix that puts it where it belongs.

    Spark spreads keys over state partitions by their hash; a dozen names would lie unevenly. The
    key depends on the bucket and the number of state partitions alone, so that a further scenario
    moves no bucket of a checkpoint.
    """
    target = (bucket.partition + crc32(bucket.scenario.encode())) % state_partitions
    attempt, key = 0, str(bucket)
    while spark_hash(key) % state_partitions != target:
        attempt += 1
        key = f"{bucket}#{attempt}"
    return key


def bucket_keys(buckets: Iterable[BucketId], state_partitions: int) -> dict[BucketId, str]:
    """Return the grouping key of each bucket."""
    return {bucket: bucket_key(bucket, state_partitions) for bucket in buckets}


def spark_hash(text: str) -> int:
    """Return Spark SQL's `hash(text)`: Murmur3 with seed 42, its tail byte by byte.

    The number is of 32 bits, signed.
    """
    data = text.encode()
    aligned = len(data) - len(data) % 4
    state = _SEED
    for at in range(0, aligned, 4):
        state = _mix(state, int.from_bytes(data[at : at + 4], "little"))
    for byte in data[aligned:]:
        state = _mix(state, (byte - 256 if byte > 127 else byte) & _MASK)
    return _finish(state, len(data))


def _mix(state: int, word: int) -> int:
    word = word * 0xCC9E2D51 & _MASK
    word = _rotate(word, 15) * 0x1B873593 & _MASK
    return (_rotate(state ^ word, 13) * 5 + 0xE6546B64) & _MASK


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _MASK


def _finish(state: int, length: int) -> int:
    state ^= length
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


# ---- bounds --------------------------------------------------------------------------------------
# The bounds on append times that rebuilds were given, kept next to the checkpoints.
#
# An epoch keeps its own, as its state rests on them. Those that come after it take them over, as
# long as the log holds what they are about.

log = logging.getLogger("streaming.state.buckets")

FILE = "bounds.json"
# By bucket, as `attack/0`, in order of the offsets before which they hold.
Bounds = dict[str, list[Bound]]

T = TypeVar("T")
_WRITING = Lock()  # each engine has a driver of its own


def known(folder: StoragePath) -> Bounds:
    """Return all bounds; folder: of all checkpoints. Raises OSError, and ValueError for a
    file that cannot be read: without it states would be others."""
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=Bounds)
    except FileNotFoundError:
        return {}
    except msgspec.MsgspecError as error:
        raise ValueError(f"UnreadableStart: {folder / FILE}: {error}") from None


def remember(folder: StoragePath, more: Mapping[str, Iterable[Bound]]) -> None:
    """Keep these besides. Raises OSError and ValueError."""
    with _WRITING:
        before = known(folder)
        after = merged(before, more)
        if after == before:
            return
        (folder / FILE).write_whole(msgspec.json.encode(after))


def forget(folder: StoragePath, scenarios: Iterable[str]) -> None:
    """Drop the bounds of scenarios whose log is another one now. Raises OSError and ValueError."""
    with _WRITING:
        before = known(folder)
        kept = of_other_scenarios(before, scenarios)
        if kept != before:
            (folder / FILE).write_whole(msgspec.json.encode(kept))


def of_other_scenarios(entries: Mapping[str, T], scenarios: Iterable[str]) -> dict[str, T]:
    """Return the entries of buckets, by name, that are of none of these scenarios."""
    gone = set(scenarios)
    return {
        name: each for name, each in entries.items() if BucketId.parse(name).scenario not in gone
    }


def merged(one: Mapping[str, Iterable[Bound]], other: Mapping[str, Iterable[Bound]]) -> Bounds:
    """Return the bounds of both, each once."""
    return {
        name: sorted({*one.get(name, ()), *other.get(name, ())}, key=lambda each: each[::-1])
        for name in sorted({*one, *other})
    }


def in_log(bounds: Mapping[str, Iterable[Bound]], edges: Mapping[str, tuple[int, int]]) -> Bounds:
    """Return the bounds about records that the logs still hold.

    edges: first and next offset, by bucket.
    """
    kept = {
        name: [each for each in bounds[name] if each[1] > edges[name][0]]
        for name in sorted(bounds.keys() & edges.keys())
    }
    return {name: held for name, held in kept.items() if held}
