"""Limits on connections, and on what each may send and how long it may take."""

from __future__ import annotations

import re
import resource
from collections import Counter
from typing import Any, NamedTuple

from daphne.http_protocol import WebRequest
from django.conf import settings
from django.utils.module_loading import import_string
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel

from config.settings import Settings
from dashboard.core.api.problems import Problem
from dashboard.core.common.metrics import LIMITED

# ---- limits --------------------------------------------------------------------------------------
# How many connections a web process accepts, and how long a request may take to arrive.


class Bounds(NamedTuple):
    """How long headers and a small body may take, s, and how many connections there may be.

    at_once: connections from one address with an unanswered request; 0 for no limit.
    """

    head_s: float
    body_s: float
    connections: int
    at_once: int


def bounds_of(settings: Settings) -> Bounds:
    """Return the limits from the settings.

    Behind a proxy all connections come from its address, so limiting clients is up to the proxy.
    """
    return Bounds(
        settings.http_head_s,
        settings.http_body_s,
        settings.http_connections,
        0 if settings.trusted_proxies else settings.http_connections_per_address,
    )


SPARE = 300
"""Files needed besides connections: modules, the database, Kafka, a body's files."""


class TooFew(Exception):
    """The system allows fewer files than needed; the message says what to do."""


def raise_limit(connections: int) -> None:
    """Raise this process's file limit as far as the system allows. Raises TooFew."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and hard < connections + SPARE:
        raise TooFew(
            f"This process may have {hard} files open and needs {connections + SPARE}: raise the "
            "hard limit (ulimit -Hn, LimitNOFILE=), or lower TALLYBOARD_HTTP_CONNECTIONS or "
            "TALLYBOARD_SOCKETS."
        )


# ---- request limits ------------------------------------------------------------------------------
# Limits on what a connection may send and how long it may take, checked before anything is stored.
#
# daphne passes a request on when it is complete; until then twisted collects it. Here its length is
# checked against what its URL accepts, and its headers and body each have a deadline that further
# bytes do not extend. docs/security.md lists the limits.

# Largest body without a token or a session cookie, bytes; that of a login is some hundred.
ANONYMOUS = 65_536
# Bytes that a form may add around a file, or around whatever a view limits itself.
FRAME = 65_536
# URLs that accept more than a form, and how many bytes: slightly more than the view does, so that
# the view can answer in its own words. Elsewhere Django's DATA_UPLOAD_MAX_MEMORY_SIZE applies.
LARGE = tuple(
    (re.compile(address), import_string(most) + frame)
    for address, most, frame in (
        (
            rb"/api/v1/scenarios/[^/]+/(reports|alertmanager)",
            "dashboard.watch.agents.reporting.MAX_BODY",
            FRAME,
        ),
        (rb"/labels/upload/", "dashboard.watch.annotations.label_files.MAX_BYTES", FRAME),
        (
            rb"/bulk/",
            "dashboard.watch.bulk.forms.MAX_FILE",
            settings.DATA_UPLOAD_MAX_MEMORY_SIZE,
        ),
    )
)
# A body gets one more second for each of this many bytes that it announces, or may have.
LEAST_RATE = 131_072
# Most bytes of larger bodies in transit at once, over all connections.
BODIES = 256 << 20
# How long a connection may wait for its next request, s.
IDLE_S = 60
# How long to read and drop what a refused client still sends, so that it reads the answer, s.
LINGER_S = 2.0
# How much of it to read, bytes.
LINGER = 32 << 20

WORDS = {
    408: ("Request Timeout", "The request came too slowly."),
    413: ("Content Too Large", "The body is too large."),
    503: ("Service Unavailable", "This server has no room for more connections. Try again soon."),
}


class Crowd:
    """A server's HTTP connections: those with a request in progress, and those at rest."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.bodies = 0
        self._here: set[Connection] = set()
        self._resting: dict[Connection, None] = {}
        self._at_once: Counter[str] = Counter()

    def enter(self, connection: Connection) -> bool:
        """Add a new connection, if necessary in place of the one that has rested longest.

        Returns whether it may stay.
        """
        if len(self._here) >= self.bounds.connections:
            if not self._resting:
                return False
            oldest = next(iter(self._resting))
            self.leave(oldest)
            oldest.timeoutConnection()
        self._here.add(connection)
        self._resting[connection] = None
        return self.begin(connection)

    def begin(self, connection: Connection) -> bool:
        """Begin a request. Returns whether its address may have another one."""
        most = self.bounds.at_once
        if connection in self._resting:
            del self._resting[connection]
            self._at_once[connection.address] += 1
        return not most or self._at_once[connection.address] <= most

    def end(self, connection: Connection) -> None:
        """End an answered request; its connection is now at rest."""
        if connection in self._here and connection not in self._resting:
            self._resting[connection] = None
            self._at_once[connection.address] -= 1
            if not self._at_once[connection.address]:
                del self._at_once[connection.address]

    def leave(self, connection: Connection) -> None:
        """Remove a connection that was closed or became a websocket."""
        self.end(connection)
        self._resting.pop(connection, None)
        self._here.discard(connection)


class LimitedRequest(WebRequest):
    """daphne's request without form parsing: Django does that, in a thread."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, parsePOSTFormSubmission=False, **kwargs)

    def process(self) -> Any:
        """Pass the request on; a websocket no longer counts as an HTTP connection."""
        channel = self.channel
        result = super().process()
        if self.transport is None:
            channel.become_websocket()
        return result


class Connection(HTTPChannel):
    """A connection that is refused as soon as it sends too much or takes too long."""

    maxHeaders = 100  # noqa: N815 - twisted's
    transport: Any
    _path: Any  # bytes, set by twisted from its first line
    address = ""
    _refused = False
    _begun = False
    _clock: Any = None
    _most = 0
    _reserved = 0
    _dropped = 0

    @property
    def requestFactory(self) -> type[LimitedRequest]:  # noqa: N802 - twisted's
        """Return our class, where daphne's factory would set its own."""
        return LimitedRequest

    @requestFactory.setter
    def requestFactory(self, _daphnes: object) -> None:  # noqa: N802
        pass

    # ---- what twisted tells ----

    def connectionMade(self) -> None:  # noqa: N802
        """Wait for the first request, if there is room."""
        super().connectionMade()
        self.crowd: Crowd = self.factory.crowd
        self.address = str(getattr(self.transport.getPeer(), "host", ""))
        if self.crowd.enter(self):
            self._wait(self.crowd.bounds.head_s)
        else:
            self.refuse(503, "connections")

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802
        """Forget the connection."""
        self._stop_clock()
        self._release()
        self.crowd.leave(self)
        super().connectionLost(reason)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        """Receive data; the deadline for headers starts at the first byte of a request."""
        if self._refused:
            self._drop(len(data))
            return
        if not self._begun and not self._handlingRequest:
            self._begin()
        if not self._refused:
            super().dataReceived(data)

    def lineReceived(self, line: bytes) -> None:  # noqa: N802
        """Receive a header line; twisted's own limits also apply, with status 400."""
        if not self._refused and not self._closing():
            super().lineReceived(line)

    def rawDataReceived(self, data: bytes) -> None:  # noqa: N802
        """Receive part of a body, up to the size that its URL accepts."""
        if self._refused:
            return
        super().rawDataReceived(data)
        if self._begun and not self._handlingRequest and self.requests:
            content = self.requests[-1].content
            if content is not None and not content.closed and content.tell() > self._most:
                self.refuse(413, "bodies")

    def allHeadersReceived(self) -> None:  # noqa: N802
        """Check the announced size of the body before making room for it."""
        self._stop_clock()
        self._most = most_of(self.requests[-1], self._path)
        announced = self._most if self.length is None else self.length
        if announced > self._most:
            self.refuse(413, "bodies")
        elif not self._reserve(announced):
            self.refuse(503, "bodies")
        else:
            super().allHeadersReceived()
            if self.length != 0:
                self._wait(self.crowd.bounds.body_s + announced / LEAST_RATE)

    def allContentReceived(self) -> None:  # noqa: N802
        """Stop the clock: the request is complete, and whatever answers it may take its time."""
        self._stop_clock()
        super().allContentReceived()

    def requestDone(self, request: Any) -> None:  # noqa: N802
        """Let the connection rest once its request is answered.

        The next request may have begun to arrive in the meantime.
        """
        self._begun = False
        self._release()
        self.crowd.end(self)
        if self._dataBuffer and self.persistent:
            self._begin()
        super().requestDone(request)

    def become_websocket(self) -> None:
        """Hand the connection over to another protocol."""
        self.setTimeout(None)
        self._release()
        self.crowd.leave(self)

    # ---- what is done about it ----

    def refuse(self, status: int, limit: str) -> None:
        """Send a response and close; anything else received is dropped.

        limit: its label in the metrics.
        """
        LIMITED.labels(limit).inc()
        self._refused, self.length = True, None
        self._stop_clock()
        self.setTimeout(None)
        self._release()
        self.transport.write(answer_of(status, getattr(self, "_path", b"")))
        if limit == "connections":  # there is no room for one that lingers
            self.crowd.leave(self)
            self.loseConnection()
            return
        self._networkProducer.unregisterProducer()
        self.transport.loseWriteConnection()
        self._clock = self.callLater(LINGER_S, self._abort)

    def _closing(self) -> bool:
        return bool(self.transport.disconnecting or not self.transport.connected)

    def _abort(self) -> None:
        self._clock = None
        self.transport.abortConnection()

    def _drop(self, size: int) -> None:
        self._dropped += size
        if self._dropped > LINGER:
            self._stop_clock()
            self.transport.abortConnection()

    def _begin(self) -> None:
        self._begun = True
        if not self.crowd.begin(self):
            self.refuse(503, "connections")
        elif self._clock is None:
            self._wait(self.crowd.bounds.head_s)

    def _wait(self, seconds: float) -> None:
        self._clock = self.callLater(seconds, self._too_late)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _too_late(self) -> None:
        self._clock = None
        if self._begun:
            self.refuse(408, "slow")
        else:  # there was no request to answer
            self.timeoutConnection()

    def _reserve(self, size: int) -> bool:
        """Reserve room for a body; small ones always fit. Returns whether there is room."""
        if size <= ANONYMOUS:
            return True
        if self.crowd.bodies + size > BODIES:
            return False
        self.crowd.bodies += size
        self._reserved = size
        return True

    def _release(self) -> None:
        self.crowd.bodies -= self._reserved
        self._reserved = 0


def most_of(request: Any, path: bytes) -> int:
    """Return the largest body that a request to this path may have, bytes."""
    cookies = b";".join(request.requestHeaders.getRawHeaders(b"cookie", []))
    known = request.requestHeaders.hasHeader(b"authorization")
    if not known and f"{settings.SESSION_COOKIE_NAME}=".encode() not in cookies:
        return ANONYMOUS
    usual: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE + FRAME
    return next((size for pattern, size in LARGE if pattern.match(path)), usual)


def answer_of(status: int, path: bytes) -> bytes:
    """Return a complete response, after which the connection is closed."""
    title, words = WORDS[status]
    kind, body = "text/plain; charset=utf-8", words.encode()
    if path.startswith(b"/api/"):
        problem = Problem(status, PROBLEMS[status], words).response()
        kind, body = problem["Content-Type"], problem.content
    head = [
        f"HTTP/1.1 {status} {title}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *(["Retry-After: 5"] if status == 503 else []),
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


# The problem types that programs receive.
PROBLEMS = {408: "too-slow", 413: "too-large", 503: "no-room"}
