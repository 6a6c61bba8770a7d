"""What a connection may send, and how long it may take: on a transport in memory, by a clock."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from daphne.server import Server  # noqa: F401 - first, as it installs an event loop
from django.conf import settings
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransportWithDisconnection

from config.settings import Settings
from dashboard.serve.server import request_limits
from dashboard.serve.server.request_limits import (
    ANONYMOUS,
    FRAME,
    LINGER,
    Bounds,
    Connection,
    Crowd,
    bounds_of,
)

BOUNDS = Bounds(head_s=10, body_s=30, connections=4, at_once=2)
LOGIN = b"POST /account/login/ HTTP/1.1\r\nHost: here\r\n"
TOKEN = b"Authorization: Bearer x\r\n"
REPORTS = b"POST /api/v1/scenarios/attack/reports HTTP/1.1\r\nHost: here\r\n"


class Transport(StringTransportWithDisconnection):
    """Remembers how it was closed."""

    aborted = half_closed = False

    @property
    def gone(self) -> bool:
        """Return whether it is closed."""
        return not self.connected

    def loseWriteConnection(self) -> None:  # noqa: N802
        self.half_closed = True

    def abortConnection(self) -> None:  # noqa: N802
        self.aborted = True
        self.loseConnection()

    def setTcpNoDelay(self, _on: bool) -> None:  # noqa: N802
        pass


class House:
    """A crowd, a clock, and a server that answers nothing by itself."""

    def __init__(self, bounds: Bounds = BOUNDS) -> None:
        self.clock, self.crowd = Clock(), Crowd(bounds)
        self.asked: list[Any] = []
        server = SimpleNamespace(
            protocol_connected=lambda _: None,
            protocol_disconnected=lambda _: None,
            create_application=lambda request, _scope: self.asked.append(request),
            proxy_forwarded_address_header=None,
            root_path="",
            server_name="",
        )
        self.factory = SimpleNamespace(crowd=self.crowd, server=server, log=lambda _: None)

    def connect(self, sent: bytes = b"", host: str = "10.0.0.1") -> Any:
        one: Any = Connection()
        one.factory, one.callLater, one.timeOut = self.factory, self.clock.callLater, 60
        transport: Any = Transport(peerAddress=SimpleNamespace(host=host, port=1))
        transport.protocol = one
        one.makeConnection(transport)
        if sent:
            one.dataReceived(sent)
        return one

    def answer(self) -> None:
        """Answer what was asked first, as an application does."""
        request = self.asked.pop(0)
        request.setResponseCode(204)
        request.finish()


@pytest.fixture
def house() -> House:
    return House()


def status_line(one: Any) -> bytes:
    """The status line that the client sees."""
    return bytes(one.transport.value().partition(b"\r\n")[0])


def length(size: int) -> bytes:
    return b"Content-Length: %d\r\n\r\n" % size


def chunk(size: int) -> bytes:
    return b"%x\r\n%s\r\n" % (size, b"x" * size)


def test_too_long_a_body_is_refused_by_its_length(house: House):
    one = house.connect(LOGIN + length(300 << 20))
    assert status_line(one) == b"HTTP/1.1 413 Content Too Large"
    assert one.requests[0].content is None, "no room was made for it"
    assert one.transport.half_closed


def test_it_is_not_asked_to_be_sent(house: House):
    one = house.connect(LOGIN + b"Expect: 100-continue\r\n" + length(300 << 20))
    assert status_line(one) == b"HTTP/1.1 413 Content Too Large"


def test_too_long_a_body_of_unknown_length_is_refused_once_it_is_too_long(house: House):
    one = house.connect(LOGIN + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(ANONYMOUS))
    assert status_line(one) == b""
    one.dataReceived(chunk(1))
    assert status_line(one) == b"HTTP/1.1 413 Content Too Large"
    one.dataReceived(chunk(1) * 100)
    assert not house.asked


def test_what_is_sent_after_a_refusal_is_dropped_and_then_cut_off(house: House):
    one = house.connect(LOGIN + length(300 << 20))
    one.dataReceived(b"x" * LINGER)
    assert not one.transport.aborted
    one.dataReceived(b"x")
    assert one.transport.aborted
    other = house.connect(LOGIN + length(300 << 20))
    house.clock.advance(request_limits.LINGER_S)
    assert other.transport.aborted


@pytest.mark.parametrize(
    ("path", "most"),
    [
        (b"/account/login/", 2_621_440 + FRAME),
        (b"/api/v1/scenarios/attack/reports", (16 << 20) + FRAME),
        (b"/api/v1/scenarios/attack/alertmanager", (16 << 20) + FRAME),
        (b"/api/v1/scenarios/attack/assets/x", 2_621_440 + FRAME),
        (b"/labels/upload/", (16 << 20) + FRAME),
        (b"/bulk/review/", (32 << 20) + 2_621_440),
    ],
)
def test_with_a_token_or_a_session_a_path_takes_what_its_view_does(path: bytes, most: int):
    cookie = b"Cookie: a=b; %s=x\r\n" % settings.SESSION_COOKIE_NAME.encode()
    for known in (TOKEN, cookie):
        head = b"POST %s HTTP/1.1\r\nHost: here\r\n%s" % (path, known)
        house = House()
        assert status_line(house.connect(head + length(most))) == b""
        assert status_line(house.connect(head + length(most + 1))).startswith(b"HTTP/1.1 413")
    head = b"POST %s HTTP/1.1\r\nHost: here\r\n" % path
    assert status_line(House().connect(head + length(ANONYMOUS + 1))).startswith(b"HTTP/1.1 413")


def test_programs_are_told_in_json(house: House):
    one = house.connect(REPORTS + length(300 << 20))
    assert b"application/problem+json" in one.transport.value()
    assert b'"reason": "too-large"' in one.transport.value()


def drip(one: Any, clock: Clock, seconds: int, byte: bytes) -> int:
    """Send a byte each second until it is refused; the second at which it was, or 0."""
    for second in range(1, seconds + 1):
        clock.advance(1)
        if one.transport.value() or one.transport.gone:
            return second
        one.dataReceived(byte)
    return 0


@pytest.mark.parametrize(
    ("begun", "byte", "after"),
    [
        (b"GET / HTTP/1.1\r\nX-", b"x", 10),
        (LOGIN + length(1000), b"x", 31),
        (LOGIN + b"Transfer-Encoding: chunked\r\n\r\n3e8\r\n", b"x", 31),
        (REPORTS + TOKEN + length(16 << 20), b"x", 30 + 128),
    ],
)
def test_bytes_that_drip_put_no_end_off(house: House, begun: bytes, byte: bytes, after: int):
    one = house.connect(begun)
    assert drip(one, house.clock, 200, byte) == after
    assert status_line(one) == b"HTTP/1.1 408 Request Timeout"


def test_whoever_asks_nothing_is_closed_without_an_answer(house: House):
    one = house.connect()
    house.clock.advance(10)
    assert one.transport.gone
    assert status_line(one) == b""


def test_the_next_request_has_its_time_from_its_first_byte_on(house: House):
    one = house.connect(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
    house.clock.advance(40)  # the answer takes its time
    house.answer()
    one.transport.clear()
    house.clock.advance(40)  # and so may whoever reads it
    assert not one.transport.gone
    one.dataReceived(b"G")
    assert drip(one, house.clock, 30, b"x") == 10
    assert status_line(one) == b"HTTP/1.1 408 Request Timeout"


def test_whoever_rests_for_a_minute_is_closed(house: House):
    one = house.connect(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
    house.answer()
    house.clock.advance(request_limits.IDLE_S)
    assert one.transport.gone


@pytest.mark.parametrize(
    "head",
    [
        b"GET /%s HTTP/1.1\r\n" % (b"x" * 20_000),
        b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: x\r\n" % n for n in range(101)) + b"\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"x" * 500) for n in range(40)),
        b"GET / HTTP/1.1\r\nX-Endless: " + b"x" * 40_000,
    ],
)
def test_headers_are_bounded(house: House, head: bytes):
    one = house.connect(head)
    assert one.transport.gone
    assert status_line(one) in (b"", b"HTTP/1.1 400 Bad Request")
    assert not house.asked


def test_an_address_has_so_many_at_once(house: House):
    first = house.connect()
    house.connect(b"GET / HTTP/1.1\r\n")
    third = house.connect()
    assert status_line(third) == b"HTTP/1.1 503 Service Unavailable"
    assert b"Retry-After" in third.transport.value()
    assert status_line(house.connect(host="10.0.0.2")) == b""
    first.transport.loseConnection()
    assert status_line(house.connect()) == b""


def test_behind_a_proxy_only_all_together_are_bounded():
    proxied = bounds_of(Settings(trusted_proxies=1))
    assert proxied.at_once == 0
    assert bounds_of(Settings()).at_once == 250
    house = House(proxied._replace(connections=4))
    four = [house.connect() for _ in range(4)]
    assert [status_line(one) for one in four] == [b""] * 4
    assert status_line(house.connect()) == b"HTTP/1.1 503 Service Unavailable"


def test_who_rests_longest_makes_room():
    house = House(BOUNDS._replace(at_once=0))
    resting = [house.connect(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n") for _ in range(2)]
    house.answer()
    house.answer()
    house.connect()
    house.connect()
    assert status_line(house.connect()) == b""
    assert [one.transport.gone for one in resting] == [True, False]
    house.connect()
    assert resting[1].transport.gone
    assert status_line(house.connect()) == b"HTTP/1.1 503 Service Unavailable"


def test_larger_bodies_share_their_room(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(request_limits, "BODIES", 20 << 20)
    house = House(BOUNDS._replace(at_once=0))
    first = house.connect(REPORTS + TOKEN + length(16 << 20))
    assert status_line(house.connect(REPORTS + TOKEN + length(16 << 20))).startswith(
        b"HTTP/1.1 503"
    )
    assert status_line(house.connect(LOGIN + length(ANONYMOUS))) == b"", "a login always has room"
    first.transport.loseConnection()
    assert house.crowd.bodies == 0
    assert status_line(house.connect(REPORTS + TOKEN + length(16 << 20))) == b""


def test_a_form_is_not_read_where_all_connections_wait(house: House):
    body = b"&".join(b"a=%d" % n for n in range(1000))
    kind = b"Content-Type: application/x-www-form-urlencoded\r\n"
    house.connect(LOGIN + kind + length(len(body)) + body)
    assert house.asked[0].args == {}
    assert house.asked[0].content.read() == body


def test_nothing_is_left_of_who_has_gone():
    house = House(BOUNDS._replace(at_once=1))
    leave: list[Callable[[Any], object]] = [
        lambda one: one.transport.loseConnection(),
        lambda one: house.clock.advance(60),
        lambda one: one.dataReceived(LOGIN + length(300 << 20)),
    ]
    for how in leave:
        how(house.connect())
        house.clock.advance(request_limits.LINGER_S)
        assert (house.crowd._here, house.crowd._resting) == (set(), {})
        assert not house.crowd._at_once
