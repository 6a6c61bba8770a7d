"""Records that are small on the wire and huge once they are read, sent as raw batches."""

from __future__ import annotations

import gzip
import io
import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from bus.batch import CODECS

MIB = 1 << 20
_PRODUCE, _VERSION = 0, 7
_ATTEMPTS = 3


@dataclass(frozen=True)
class Big:
    """A record whose value is one letter, `size` times."""

    key: bytes
    size: int


Plain = tuple[bytes, bytes]
"""A record's key and value."""


def batch(codec: str, records: Iterable[Plain | Big]) -> bytes:
    """A record batch of these records. codec: a name of CODECS."""
    records = list(records)
    packed = _PACKERS[codec](_stream(records))
    body = struct.pack(">hiqqqhii", CODECS.index(codec), len(records) - 1, 0, 0, -1, -1, -1,
                       len(records)) + packed  # fmt: skip
    head = struct.pack(">ibI", 0, 2, crc32c(body))
    return struct.pack(">qi", 0, len(head) + len(body)) + head + body


def send(bootstrap: str, topic: str, partition: int, data: bytes) -> tuple[int, int]:
    """Produce one batch as it is. Returns Kafka's error code and the batch's first offset."""
    name = struct.pack(">h", len(topic)) + topic.encode()
    records = struct.pack(">i", len(data)) + data
    body = struct.pack(">hhii", -1, -1, 30_000, 1) + name
    body += struct.pack(">ii", 1, partition) + records
    head = struct.pack(">hhih", _PRODUCE, _VERSION, 1, 4) + b"bomb"
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), 120) as conn:
        conn.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        answer = io.BytesIO(_answer(conn))
    answer.seek(4 + 4 + 2 + len(topic) + 4 + 4)
    code, offset = struct.unpack(">hq", answer.read(10))
    return code, offset


def _answer(conn: socket.socket) -> bytes:
    with conn.makefile("rb") as file:
        size = file.read(4)
        if len(size) < 4:
            raise ConnectionError("the broker hung up")
        return file.read(struct.unpack(">i", size)[0])


def _stream(records: list[Plain | Big]) -> Iterator[bytes]:
    """The records' bytes, some at a time."""
    for delta, record in enumerate(records):
        if isinstance(record, Big):
            key, size, value = record.key, record.size, _letters(record.size)
        else:
            key, size, value = record[0], len(record[1]), iter([record[1]])
        head = b"\0\0" + _varint(delta) + _varint(len(key)) + key + _varint(size)
        yield _varint(len(head) + size + 1) + head
        yield from value
        yield _varint(0)


def _letters(size: int) -> Iterator[bytes]:
    block = b"a" * MIB
    for _ in range(size // MIB):
        yield block
    yield block[: size % MIB]


def _varint(number: int) -> bytes:
    number, octets = number << 1 if number >= 0 else (-number << 1) - 1, bytearray()
    while number > 0x7F:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*octets, number])


def _plain(chunks: Iterable[bytes]) -> bytes:
    return b"".join(chunks)


def _gzip(chunks: Iterable[bytes]) -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6) as file:
        file.writelines(chunks)
    return packed.getvalue()


def _zstd(chunks: Iterable[bytes]) -> bytes:
    packed = pa.BufferOutputStream()
    with pa.CompressedOutputStream(packed, "zstd") as file:
        for chunk in chunks:
            file.write(chunk)
    return bytes(packed.getvalue())


def _lz4(chunks: Iterable[bytes]) -> bytes:
    """A frame of independent blocks of at most 64 KiB, as Kafka wants it."""
    codec, frame_parts = pa.Codec("lz4_raw"), [b"\x04\x22\x4d\x18\x60\x40\x82"]
    for block in _blocks(chunks, 64 << 10):
        packed = bytes(codec.compress(block))
        size = len(packed) if len(packed) < len(block) else len(block) | 1 << 31
        frame_parts.append(struct.pack("<I", size) + (packed if size == len(packed) else block))
    return b"".join([*frame_parts, bytes(4)])


def _snappy(chunks: Iterable[bytes]) -> bytes:
    """As snappy-java frames it: blocks of 32 KiB, each after its length."""
    codec, frame_parts = pa.Codec("snappy"), [b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)]
    for block in _blocks(chunks, 32 << 10):
        packed = bytes(codec.compress(block))
        frame_parts.append(struct.pack(">i", len(packed)) + packed)
    return b"".join(frame_parts)


def _blocks(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    for chunk in chunks:
        for begin in range(0, len(chunk), size):
            yield chunk[begin : begin + size]


_PACKERS = {
    "none": _plain,
    "gzip": _gzip,
    "snappy": _snappy,
    "lz4": _lz4,
    "zstd": _zstd,
}


def _table() -> list[int]:
    entries = []
    for number in range(256):
        rest = number
        for _ in range(8):
            rest = rest >> 1 ^ 0x82F63B78 if rest & 1 else rest >> 1
        entries.append(rest)
    return entries


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """Castagnoli's checksum, which Kafka's batches carry."""
    crc, table = 0xFFFFFFFF, _TABLE
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF
