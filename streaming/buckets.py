"""Buckets and the keys under which Spark groups them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32

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
