"""An HTTP client with a limit on the total time of an answer, however slow, and on its size."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from threading import local
from typing import Any, NamedTuple

import httpcore

from stores.base import Unreachable

CONNECTIONS = 100
IDLE_S = 5.0
"""How long an idle connection is kept."""


class Reply(NamedTuple):
    """An answer. headers: by name in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpClient:
    """Sends requests over persistent connections. Can be shared among threads."""

    def __init__(self, step_s: float, whole_s: float, longest: int) -> None:
        """step_s: timeout of each step of an answer; whole_s: timeout of the whole answer; longest:
        largest body, bytes."""
        self._step_s, self._whole_s, self._longest = step_s, whole_s, longest
        self._asking = local()
        self._pool = httpcore.ConnectionPool(
            max_connections=CONNECTIONS,
            keepalive_expiry=IDLE_S,
            network_backend=_Network(self._left),
        )

    def get(self, address: str, target: str, headers: Mapping[str, str]) -> Reply:
        """Return the answer of the server at an address to a path with its query.

        Raises Unreachable.
        """
        self._asking.until = time.monotonic() + self._whole_s
        sent = [(name.encode(), value.encode()) for name, value in headers.items()]
        steps = dict.fromkeys(("connect", "read", "write", "pool"), self._step_s)
        try:
            with self._pool.stream(
                "GET", f"http://{address}{target}", headers=sent, extensions={"timeout": steps}
            ) as answer:
                body = self._body(answer, address)
                names = {key.decode("latin-1").lower(): value for key, value in answer.headers}
        except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise Unreachable(f"{address} does not answer ({error!r}).") from error
        return Reply(answer.status, {n: v.decode("latin-1") for n, v in names.items()}, body)

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    def _body(self, answer: httpcore.Response, address: str) -> bytes:
        body = bytearray()
        for part in answer.iter_stream():
            body += part
            if len(body) > self._longest:
                raise Unreachable(f"{address} answers more than {self._longest} bytes.")
        return bytes(body)

    def _left(self, step_s: float | None) -> float:
        """Return the time left for this thread's request, s. Raises ReadTimeout."""
        left: float = self._asking.until - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout
        return left if step_s is None else min(left, step_s)


class _Network(httpcore.SyncBackend):
    """Connections that wait no longer than `left` returns."""

    def __init__(self, left: Callable[[float | None], float]) -> None:
        self._left = left

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *args: Any, **kwargs: Any
    ) -> httpcore.NetworkStream:
        stream = super().connect_tcp(host, port, self._left(timeout), *args, **kwargs)
        return _Stream(stream, self._left)


class _Stream(httpcore.NetworkStream):
    def __init__(
        self, stream: httpcore.NetworkStream, left: Callable[[float | None], float]
    ) -> None:
        self._stream, self._left = stream, left

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._left(timeout))

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
