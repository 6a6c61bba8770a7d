"""Read batches of a partition's log by their headers, even if no consumer can unpack them.

A client unpacks a batch before it knows what it contains. Here a batch is fetched as stored, over
Kafka's own protocol, and at most its unpacked size is counted, in bounded memory.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Self

from bus.base import BusError, NotPermitted
from bus.batch import CODECS, Batch
from bus.kafka_connection import KafkaConnection, text
from bus.kafka_errors import refused

_HEADER = struct.Struct(">qiibIhiqqqhii")
_FETCH = 1
_FETCH_BYTES = 1 << 20


class KafkaBatches:
    """A connection to the leader of one partition. Raises Unavailable and BusError."""

    def __init__(
        self,
        server: tuple[str, int],
        place: tuple[str, int],
        options: Mapping[str, str],
        timeout_s: float = 15,
    ) -> None:
        """server: host and port; options: connection settings, by librdkafka's names."""
        self._place = place
        self._conn = KafkaConnection(server, options, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._conn.__exit__(*error)

    def between(self, begin: int, end: int) -> Iterator[Batch]:
        """Yield, in order, the batches that contain offsets from `begin` up to, not including,
        `end`."""
        while begin < end:
            batches = list(_batches(self._fetch(begin)))
            if not batches:
                return
            for batch in batches:
                if batch.last >= begin and batch.first < end:
                    yield batch
            begin = batches[-1].last + 1

    def _fetch(self, offset: int) -> bytes:
        topic, partition = self._place
        body = struct.pack(">iiiibi", -1, 1000, 1, _FETCH_BYTES, 0, 1) + text(topic)
        body += struct.pack(">iiqi", 1, partition, offset, _FETCH_BYTES)
        answer = self._conn.ask(_FETCH, 4, body)
        at = 4 + 4 + 2 + len(topic.encode()) + 4
        _, code, _, _, aborted = struct.unpack_from(">ihqqi", answer, at)
        if code:
            error = refused(code, topic, "READ")
            if isinstance(error, NotPermitted):
                raise error
            raise BusError(f"{topic}/{partition}: offset {offset}: {error}")
        at += 26 + 16 * max(aborted, 0)
        (size,) = struct.unpack_from(">i", answer, at)
        return answer[at + 4 : at + 4 + max(size, 0)]


def _batches(data: bytes) -> Iterator[Batch]:
    """Yield the complete batches of an answer: the last one may be cut off."""
    at = 0
    while at + _HEADER.size <= len(data):
        first, size, _, _, _, kind, last, _, stamp, _, _, _, records = _HEADER.unpack_from(data, at)
        end = at + 12 + size
        if end > len(data):
            return
        codec = CODECS[kind & 7] if kind & 7 < len(CODECS) else "unknown"
        packed = data[at + _HEADER.size : end]
        yield Batch(first, first + last, records, stamp, codec, 12 + size, packed)
        at = end
