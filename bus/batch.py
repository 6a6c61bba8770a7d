"""A batch of records as stored in a log: its header and its unpacked size."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass

# Indexed by the codec number in a batch's header.
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

# The unpacked size of a batch that cannot be unpacked at all.
UNREADABLE = -1

_CHUNK = 1 << 20
_XERIAL = b"\x82SNAPPY\0"


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of records: its first and last offset (both included) and its append time (ms).

    size: as stored in the log, bytes; data: its packed records.
    """

    first: int
    last: int
    records: int
    timestamp: int
    codec: str
    size: int
    data: bytes

    def unpacked(self, most: int) -> int:
        """Return the unpacked size of the records, bytes, or any number over `most` if it is
        larger.

        Return UNREADABLE if they cannot be unpacked.
        """
        try:
            return _SIZES[self.codec](self.data, most)
        except (KeyError, OSError, ValueError, struct.error, zlib.error):
            return UNREADABLE


# ---- unpacked sizes ----------------------------------------------------------------------------


def _plain(data: bytes, _most: int) -> int:
    return len(data)


def _gzip(data: bytes, most: int) -> int:
    unpacker, size = zlib.decompressobj(31), 0
    while data and not unpacker.eof and size <= most:
        size += len(unpacker.decompress(data, _CHUNK))
        data = unpacker.unconsumed_tail
    return size


def _stream(codec: str) -> Callable[[bytes, int], int]:
    def size(data: bytes, most: int) -> int:
        import pyarrow as pa  # takes a second to load, and is needed once in a year

        unpacked = 0
        with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
            while unpacked <= most and (part := stream.read(_CHUNK)):
                unpacked += len(part)
        return unpacked

    return size


def _snappy(data: bytes, _most: int) -> int:
    """Return the size that the blocks declare: each begins with its size."""
    if not data.startswith(_XERIAL):
        return _varint(data, 0)
    unpacked, at = 0, len(_XERIAL) + 8
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        if size < 0:
            return UNREADABLE
        unpacked += _varint(data, at + 4)
        at += 4 + size
    return unpacked


def _varint(data: bytes, at: int) -> int:
    value = shift = 0
    for byte in data[at : at + 5]:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value
    raise ValueError("a number that does not end")


_SIZES: dict[str, Callable[[bytes, int], int]] = {
    "none": _plain,
    "gzip": _gzip,
    "snappy": _snappy,
    "lz4": _stream("lz4"),
    "zstd": _stream("zstd"),
}
