"""Limits of connections, and of what each may send and how long it may take."""

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
# The number of connections that a web process has, and how long a request may take to come.


class Bounds(NamedTuple):
    """The time that headers and a small body may take, s, and how many connections there may be.

    at_once: of one address with a request that is not answered; 0: no bound.
    """

    head_s: float
    body_s: float
    connections: int
    at_once: int


def bounds_of(settings: Settings) -> Bounds:
    """Return the bounds by the settings.

    Behind a proxy all come from its address, and clients are its to bound.
    """
    return Bounds(
        settings.http_head_s,
        settings.http_body_s,
        settings.http_connections,
        0 if settings.trusted_proxies else settings.http_connections_per_address,
    )


SPARE = 300
"""What a web process needs beside its connections: modules, the database, Kafka, a body's files."""


class TooFew(Exception):
    """The refusal where the system allows fewer than are needed; the message says what to do."""


def raise_limit(connections: int) -> None:
    """Raise this process's limit as far as the system allows. Raises TooFew."""
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
# Limits of what a connection may send and how long it may take, judged before it is kept.
#
# daphne hands a request on once it is whole; until then twisted collects it. Here its length is
# held against what its address accepts, and an end that no further byte puts off stands for its
# headers and for its body. docs/security.md has the bounds.

# Largest body without a token or the cookie of a session, bytes: of a login it is some hundred.
ANONYMOUS = 65_536
# What a form around a file, or around what a view bounds itself, may add, bytes.
FRAME = 65_536
# Where more than a form is sent, and how much with it, bytes: a little over what the view takes,
# which says so in its own words. Elsewhere it is Django's DATA_UPLOAD_MAX_MEMORY_SIZE.
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
# A body may take a second more for so many bytes that it announces, or may have.
LEAST_RATE = 131_072
# Most bytes of larger bodies on their way at once, of all connections.
BODIES = 256 << 20
# How long a connection may wait for its next request.
IDLE_S = 60
# How long what a refused client still sends is read and dropped, so that it reads the answer.
LINGER_S = 2.0
# How much of it, bytes.
LINGER = 32 << 20

WORDS = {
    408: ("Request Timeout", "The request came too slowly."),
    413: ("Content Too Large", "The body is too large."),
    503: ("Service Unavailable", "This server has no room for more connections. Try again soon."),
}


class Crowd:
    """The HTTP connections of a server: those with a request on its way, and those that rest."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.bodies = 0
        self._here: set[Connection] = set()
        self._resting: dict[Connection, None] = {}
        self._at_once: Counter[str] = Counter()

    def enter(self, connection: Connection) -> bool:
        """Add a new connection, if need be in place of the one that rests longest.

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
        """Begin a request. Returns whether its address may have one more."""
        most = self.bounds.at_once
        if connection in self._resting:
            del self._resting[connection]
            self._at_once[connection.address] += 1
        return not most or self._at_once[connection.address] <= most

    def end(self, connection: Connection) -> None:
        """End a request, which is answered: its connection rests."""
        if connection in self._here and connection not in self._resting:
            self._resting[connection] = None
            self._at_once[connection.address] -= 1
            if not self._at_once[connection.address]:
                del self._at_once[connection.address]

    def leave(self, connection: Connection) -> None:
        """Remove a connection, which is closed, or a websocket now."""
        self.end(connection)
        self._resting.pop(connection, None)
        self._here.discard(connection)


class LimitedRequest(WebRequest):
    """daphne's request, but what a form holds is not read here: Django does so, in a thread."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, parsePOSTFormSubmission=False, **kwargs)

    def process(self) -> Any:
        """Hand it on; a websocket is none of the HTTP connections from here on."""
        channel = self.channel
        result = super().process()
        if self.transport is None:
            channel.become_websocket()
        return result


class Connection(HTTPChannel):
    """A connection that is refused as soon as it requests too much, or takes too long."""

    maxHeaders = 100  # noqa: N815 - twisted's
    transport: Any
    _path: Any  # bytes, which twisted sets by its first line
    address = ""
    _refused = False
    _begun = False
    _clock: Any = None
    _most = 0
    _reserved = 0
    _dropped = 0

    @property
    def requestFactory(self) -> type[LimitedRequest]:  # noqa: N802 - twisted's
        """Return our class, which daphne's factory would set to its own."""
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
        """Receive what came; from the first byte of a request on its headers have their time."""
        if self._refused:
            self._drop(len(data))
            return
        if not self._begun and not self._handlingRequest:
            self._begin()
        if not self._refused:
            super().dataReceived(data)

    def lineReceived(self, line: bytes) -> None:  # noqa: N802
        """Receive a line of the headers, of which twisted's bounds hold too: it answers 400."""
        if not self._refused and not self._closing():
            super().lineReceived(line)

    def rawDataReceived(self, data: bytes) -> None:  # noqa: N802
        """Receive a part of a body, of which no more may come than its address accepts."""
        if self._refused:
            return
        super().rawDataReceived(data)
        if self._begun and not self._handlingRequest and self.requests:
            content = self.requests[-1].content
            if content is not None and not content.closed and content.tell() > self._most:
                self.refuse(413, "bodies")

    def allHeadersReceived(self) -> None:  # noqa: N802
        """Judge the body by what is said of it, before room is made for it."""
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
        """Stop the clock: the request is whole, and what answers it has its time."""
        self._stop_clock()
        super().allContentReceived()

    def requestDone(self, request: Any) -> None:  # noqa: N802
        """Let the connection rest once its request is answered.

        The next one may have begun to come meanwhile.
        """
        self._begun = False
        self._release()
        self.crowd.end(self)
        if self._dataBuffer and self.persistent:
            self._begin()
        super().requestDone(request)

    def become_websocket(self) -> None:
        """Leave the connection to another protocol, which has it now."""
        self.setTimeout(None)
        self._release()
        self.crowd.leave(self)

    # ---- what is done about it ----

    def refuse(self, status: int, limit: str) -> None:
        """Send an answer, and close; what was sent is dropped. limit: how it is counted."""
        LIMITED.labels(limit).inc()
        self._refused, self.length = True, None
        self._stop_clock()
        self.setTimeout(None)
        self._release()
        self.transport.write(answer_of(status, getattr(self, "_path", b"")))
        if limit == "connections":  # and no room for one that lingers
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
        else:  # nothing was asked, so nothing is answered
            self.timeoutConnection()

    def _reserve(self, size: int) -> bool:
        """Make room for a body; small ones always have it. Returns whether there is room."""
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
    """Return a whole response, after which the connection is closed."""
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


# The reasons that programs are told.
PROBLEMS = {408: "too-slow", 413: "too-large", 503: "no-room"}
