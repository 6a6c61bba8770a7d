"""Which partition a key belongs to: murmur2 as computed by Kafka's Java client."""

from __future__ import annotations

from functools import lru_cache

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C


@lru_cache(maxsize=200_000)
def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of `key` in a topic with this many partitions.

    This matches `murmur2_random` for a record with a key.
    """
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Return Kafka's 32 bit murmur2 (org.apache.kafka.common.utils.Utils.murmur2), unsigned."""
    h = (_SEED ^ len(data)) & _MASK
    aligned = len(data) & ~3
    for at in range(0, aligned, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ (k >> 24)) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if aligned < len(data):
        h = (h ^ int.from_bytes(data[aligned:], "little")) * _M & _MASK
    h = (h ^ (h >> 13)) * _M & _MASK
    return h ^ (h >> 15)
