"""A browser and its push service: real keys, a real HTTP server that reads what comes."""

from __future__ import annotations

import json
import os
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


class Came(NamedTuple):
    """A request of the product."""

    path: str
    headers: dict[str, str]
    body: bytes


class Browser:
    """A browser's keys: what it subscribes with, and reads messages with."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._auth = os.urandom(16)

    def subscription(self, endpoint: str) -> dict[str, str]:
        """What the browser's script sends."""
        raw = self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return {"endpoint": endpoint, "p256dh": _text(raw), "auth": _text(self._auth)}

    def read(self, body: bytes) -> dict[str, Any]:
        """Decrypt a message. Raises ECEException for one that is for another browser."""
        plain = http_ece.decrypt(body, private_key=self._key, auth_secret=self._auth)
        notification: dict[str, Any] = json.loads(plain)
        return notification


class PushService(ThreadingHTTPServer):
    """Answers each push with `status`, and keeps what came."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 201
        self.came: list[Came] = []

    @property
    def origin(self) -> str:
        """Whom a token has to be for."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: PushService

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.came.append(Came(self.path, dict(self.headers), body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def push_service() -> Iterator[PushService]:
    """A running push service."""
    with PushService() as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def checked_claims(came: Came, public_key: str) -> dict[str, Any]:
    """The claims of a request's token, once its signature is checked with the key that browsers
    subscribed with, as RFC 8292 has it. Raises InvalidSignature."""
    scheme, _, rest = came.headers["Authorization"].partition(" ")
    parts = dict(part.strip().split("=", 1) for part in rest.split(","))
    assert scheme == "vapid"
    assert parts["k"] == public_key
    signed, _, signature = parts["t"].rpartition(".")
    raw = _bytes(signature)
    numbers = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), _bytes(public_key))
    key.verify(encode_dss_signature(*numbers), signed.encode(), ec.ECDSA(SHA256()))
    claims: dict[str, Any] = json.loads(_bytes(signed.partition(".")[2]))
    assert time.time() < claims["exp"] <= time.time() + 86_400
    return claims


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
