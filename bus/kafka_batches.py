"""Batches of a partition's log by their headers: what no consumer can unpack can still be seen.

A client unpacks a batch before it knows what is in it. Here one is fetched as it lies in the log,
over Kafka's own protocol, and at most counted through, in bounded memory.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import socket
import ssl
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Self

from bus.base import BusError, Unavailable
from bus.batch import CODECS, Batch

_HEADER = struct.Struct(">qiibIhiqqqhii")
_FETCH, _HANDSHAKE, _AUTHENTICATE = 1, 17, 36
_FETCH_BYTES = 1 << 20
_CHUNK = 1 << 20
_BY_NAME = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class KafkaBatches:
    """A connection to the leader of one partition. Raises Unavailable, and BusError."""

    def __init__(
        self,
        server: tuple[str, int],
        place: tuple[str, int],
        options: Mapping[str, str],
        timeout_s: float = 15,
    ) -> None:
        """server: host and port; options: of the connection, by librdkafka's names."""
        self._place, self._number = place, 0
        try:
            self._conn = _connect(server, options, timeout_s)
            self._log_in(options)
        except OSError as error:
            raise Unavailable(f"{server[0]}:{server[1]}: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._conn.close()

    def between(self, begin: int, end: int) -> Iterator[Batch]:
        """The batches that hold records of offsets from `begin` to before `end`, in order."""
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
        asked = struct.pack(">iiiibi", -1, 1000, 1, _FETCH_BYTES, 0, 1) + _text(topic)
        asked += struct.pack(">iiqi", 1, partition, offset, _FETCH_BYTES)
        answer = self._ask(_FETCH, 4, asked)
        at = 4 + 4 + 2 + len(topic.encode()) + 4
        _, code, _, _, aborted = struct.unpack_from(">ihqqi", answer, at)
        if code:
            raise BusError(f"{topic}/{partition}: offset {offset}: Kafka's error {code}")
        at += 26 + 16 * max(aborted, 0)
        (size,) = struct.unpack_from(">i", answer, at)
        return answer[at + 4 : at + 4 + max(size, 0)]

    def _ask(self, api: int, version: int, body: bytes) -> bytes:
        """An answer's body, after its number."""
        self._number += 1
        asked = struct.pack(">hhi", api, version, self._number) + _text("tallyboard") + body
        try:
            self._conn.sendall(struct.pack(">i", len(asked)) + asked)
            (size,) = struct.unpack(">i", self._read(4))
            return self._read(size)[4:]
        except OSError as error:
            raise Unavailable(f"{self._place[0]}/{self._place[1]}: {error}") from error

    def _read(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            part = self._conn.recv(min(size - len(received), _CHUNK))
            if not part:
                raise ConnectionResetError("the broker hung up")
            received += part
        return bytes(received)

    # ---- who asks -------------------------------------------------------------------------------

    def _log_in(self, options: Mapping[str, str]) -> None:
        if not options.get("security.protocol", "").startswith("SASL"):
            return
        mechanism = options["sasl.mechanism"]
        self._ask(_HANDSHAKE, 1, _text(mechanism))
        user, password = options["sasl.username"], options["sasl.password"]
        if mechanism == "PLAIN":
            self._prove(f"\0{user}\0{password}".encode())
        else:
            scram(self._prove, _BY_NAME[mechanism], user, password)

    def _prove(self, token: bytes) -> bytes:
        answer = self._ask(_AUTHENTICATE, 0, struct.pack(">i", len(token)) + token)
        code, size = struct.unpack_from(">hh", answer)
        if code:
            raise BusError(f"authentication: {answer[4 : 4 + max(size, 0)].decode()}")
        at = 4 + max(size, 0)
        return answer[at + 4 :]


def scram(prove: Callable[[bytes], bytes], digest: str, user: str, password: str) -> None:
    """Log in as RFC 5802 has it. prove: sends a message and returns the answer."""
    name = user.replace("=", "=3D").replace(",", "=2C")
    mine = f"n={name},r={secrets.token_urlsafe(18)}"
    theirs = prove(f"n,,{mine}".encode()).decode()
    attributes = dict(part.split("=", 1) for part in theirs.split(","))
    salt, rounds = base64.b64decode(attributes["s"]), int(attributes["i"])
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, rounds)
    key = hmac.digest(salted, b"Client Key", digest)
    bare = f"c=biws,r={attributes['r']}"
    spoken = f"{mine},{theirs},{bare}".encode()
    signed = hmac.digest(hashlib.new(digest, key).digest(), spoken, digest)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signed, strict=True)))
    prove(f"{bare},p={proof.decode()}".encode())


def _connect(
    server: tuple[str, int], options: Mapping[str, str], timeout_s: float
) -> socket.socket:
    conn = socket.create_connection(server, timeout_s)
    if not options.get("security.protocol", "").endswith("SSL"):
        return conn
    context = ssl.create_default_context(cafile=options.get("ssl.ca.location"))
    return context.wrap_socket(conn, server_hostname=server[0])


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


def _batches(data: bytes) -> Iterator[Batch]:
    """Those of an answer that are whole: its last one may be cut off."""
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
