"""A connection to one broker over Kafka's own protocol, for requests that clients do not offer."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from typing import Self

from bus.base import Unavailable
from bus.kafka_errors import refused

_HANDSHAKE, _AUTHENTICATE = 17, 36
_CHUNK = 1 << 20
_BY_NAME = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class KafkaConnection:
    """A logged-in connection to a broker. Raises Unavailable and BusError."""

    def __init__(
        self, server: tuple[str, int], options: Mapping[str, str], timeout_s: float = 15
    ) -> None:
        """server: host and port; options: connection settings, by librdkafka's names."""
        self._name, self._number = f"{server[0]}:{server[1]}", 0
        try:
            self._conn = _connect(server, options, timeout_s)
            self._log_in(options)
        except OSError as error:
            raise Unavailable(f"{self._name}: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._conn.close()

    def ask(self, api: int, version: int, body: bytes) -> bytes:
        """Send a request and return the answer's body without its correlation id.

        Raises Unavailable.
        """
        self._number += 1
        request = struct.pack(">hhi", api, version, self._number) + text("tallyboard") + body
        try:
            self._conn.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", self._read(4))
            return self._read(size)[4:]
        except OSError as error:
            raise Unavailable(f"{self._name}: {error}") from error

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
        self.ask(_HANDSHAKE, 1, text(mechanism))
        user, password = options["sasl.username"], options["sasl.password"]
        if mechanism == "PLAIN":
            self._prove(f"\0{user}\0{password}".encode())
        else:
            scram(self._prove, _BY_NAME[mechanism], user, password)

    def _prove(self, token: bytes) -> bytes:
        answer = self.ask(_AUTHENTICATE, 0, struct.pack(">i", len(token)) + token)
        code, size = struct.unpack_from(">hh", answer)
        if code:
            raise refused(code)
        at = 4 + max(size, 0)
        return answer[at + 4 :]


def scram(prove: Callable[[bytes], bytes], digest: str, user: str, password: str) -> None:
    """Log in as specified by RFC 5802. prove: sends a message and returns the answer."""
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


def text(value: str) -> bytes:
    """Return a string in the protocol's encoding: its length, then its bytes."""
    return struct.pack(">h", len(value.encode())) + value.encode()
