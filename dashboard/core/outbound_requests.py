"""Requests of libraries that send by `requests`, over the guarded network.

Such a library connects itself, and also to addresses that it finds on its way: in a parameter, in
an answer, in a redirect. So not the address that a user has entered is checked, but each
connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from threading import Lock
from typing import Any

from requests import PreparedRequest, Response, Session, exceptions, sessions
from requests.adapters import HTTPAdapter
from urllib3 import HTTPHeaderDict, HTTPResponse

from dashboard.core.outbound import (
    GuardedNetwork,
    Refused,
    Reply,
    Request,
    Unreachable,
    exchange,
)

MOST_ANSWER = 65_536
"""Largest answer that a library is given, bytes."""
TOO_MANY = 429
ENCODED = (b"content-encoding", b"transfer-encoding")
"""Headers of how an answer came, not of what the library is given."""

_TURN = Lock()


class Calls:
    """The requests of a library within one deadline.

    obstacle: why one of them was not answered; a refusal rather than what came after it.
    """

    def __init__(self, timeout_s: float) -> None:
        self.network = GuardedNetwork(timeout_s)
        self.obstacle: Unreachable | None = None

    def answer(self, request: Request) -> Reply:
        """Return what is answered. Raises Unreachable, or Refused, and keeps it."""
        try:
            return _usable(exchange(request, self.network, MOST_ANSWER + 1))
        except Unreachable as why:
            if not isinstance(self.obstacle, Refused):
                self.obstacle = why
            raise


def _usable(reply: Reply) -> Reply:
    """Return an answer. Raises Unreachable for one that is too long, or asks to wait: libraries
    would sleep as long as it says."""
    if reply.status == TOO_MANY:
        raise Unreachable("429: too many requests")
    if len(reply.content) > MOST_ANSWER:
        raise Unreachable(f"an answer of more than {MOST_ANSWER} bytes")
    return reply


class GuardedAdapter(HTTPAdapter):
    """Sends each request over the guarded network, and verifies certificates always."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self._calls = calls

    def send(self, request: PreparedRequest, *_args: Any, **_kwargs: Any) -> Response:
        """Return what is answered. Raises the library's error where nothing is."""
        try:
            reply = self._calls.answer(_plain(request))
        except Unreachable as why:
            raise exceptions.ConnectionError(str(why), request=request) from why
        return self.build_response(request, _response(reply))


def _response(reply: Reply) -> HTTPResponse:
    """Return an answer as the library takes it, which unpacks none of it."""
    headers = HTTPHeaderDict(
        (name.decode("latin1"), value.decode("latin1"))
        for name, value in reply.headers
        if name.lower() not in ENCODED
    )
    content = BytesIO(reply.content)
    return HTTPResponse(content, headers, reply.status, preload_content=False)


def _plain(request: PreparedRequest) -> Request:
    """Return a request as it is sent. It asks for an answer that unpacks to nothing larger."""
    body = request.body.encode() if isinstance(request.body, str) else request.body
    if not isinstance(body, bytes | None):
        raise exceptions.RequestException("a body that comes in pieces is not sent")
    request.headers["Accept-Encoding"] = "identity"
    headers = [(_bytes(name), _bytes(value)) for name, value in request.headers.items()]
    return Request(request.method or "", request.url or "", headers, body)


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


class GuardedSession(Session):
    """A session of the library over the guarded network, without redirects, proxies of the
    environment, and files of passwords."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self.trust_env = False
        for scheme in ("http://", "https://"):
            self.mount(scheme, GuardedAdapter(calls))

    def get_redirect_target(self, resp: Response) -> None:  # noqa: ARG002 - the library's form
        """Return None: no redirect is followed."""
        return


@contextmanager
def guarded(timeout_s: float) -> Iterator[Calls]:
    """Have what `requests` sends in this process meanwhile go over the guarded network, one after
    another. timeout_s: for all requests together.

    `requests.post` and its like make a session for each request, and take none.
    """
    calls = Calls(timeout_s)
    with _TURN:
        usual = sessions.Session
        sessions.Session = partial(GuardedSession, calls)  # type: ignore[misc, assignment]
        try:
            yield calls
        finally:
            sessions.Session = usual  # type: ignore[misc]
