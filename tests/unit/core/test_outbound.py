"""Requests to addresses that users name: none into our own network, none without an end."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from django.conf import settings

from dashboard.core.common import outbound
from dashboard.core.common.outbound import LONGEST_ANSWER, AddressRefused, OutboundUnreachable, post


@pytest.fixture
def private(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses of this machine are allowed."""
    allowed = settings.TALLYBOARD.model_copy(update={"private_targets": True})
    monkeypatch.setattr(settings, "TALLYBOARD", allowed)


class Receiver(BaseHTTPRequestHandler):
    """Answers what its path names, and keeps what came."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.came = (self.path, dict(self.headers), body)  # type: ignore[attr-defined]
        self.send_response(302 if self.path == "/moved" else 200)
        self.send_header("Location", "/elsewhere")
        answer = b"x" * 100_000 if self.path == "/long" else b"thanks"
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def receiver() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def address(server: HTTPServer, path: str = "/hook") -> str:
    return f"http://127.0.0.1:{server.server_port}{path}"


@contextmanager
def dripping(line: bytes) -> Iterator[int]:
    """The port of a server that sends a line again and again, and never ends."""

    def drip() -> None:
        connection, _ = server.accept()
        with connection:
            try:
                while True:
                    connection.sendall(line)
                    time.sleep(0.05)
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as server:
        Thread(target=drip, daemon=True).start()
        yield server.getsockname()[1]


def test_what_is_sent_arrives_and_the_answer_comes_back(private: None, receiver: HTTPServer):
    assert post(address(receiver), b"hello", {"X-Key": "7"})[:2] == (200, "thanks")
    path, headers, body = receiver.came  # type: ignore[attr-defined]
    assert (path, headers["X-Key"], body) == ("/hook", "7", b"hello")


def test_a_redirect_is_not_followed(private: None, receiver: HTTPServer):
    assert post(address(receiver, "/moved"), b"", {}).status == 302
    assert receiver.came[0] == "/moved"  # type: ignore[attr-defined]


def test_of_a_long_answer_only_the_beginning_is_read(private: None, receiver: HTTPServer):
    assert len(post(address(receiver, "/long"), b"", {}).text) == LONGEST_ANSWER


@pytest.mark.parametrize("line", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\nx", b"X: y\r\n"])
def test_an_answer_that_never_ends_has_an_end(private: None, line: bytes):
    with dripping(line) as port:
        begun = time.monotonic()
        with pytest.raises(OutboundUnreachable):
            post(f"http://127.0.0.1:{port}/", b"", {}, timeout_s=0.4)
        assert time.monotonic() - begun < 3


def test_nobody_there_is_said(private: None):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(OutboundUnreachable, match="refused"):
        post(f"http://127.0.0.1:{port}/", b"", {})


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "localhost", "0.0.0.0", "10.1.2.3", "192.168.1.1", "172.16.0.1",
        "169.254.169.254", "100.64.0.1", "224.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[fe80::1]",
        "[fc00::1]", "[2002:7f00:1::]", "[64:ff9b::7f00:1]", "2130706433", "0x7f.1", "127.1",
    ],
)  # fmt: skip
def test_our_own_network_is_not_called(receiver: HTTPServer, host: str):
    with pytest.raises(AddressRefused, match="TALLYBOARD_PRIVATE_TARGETS"):
        post(f"http://{host}:{receiver.server_port}/", b"", {})
    assert not hasattr(receiver, "came")


def test_a_name_is_resolved_once_and_every_address_counts(monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []

    def resolve(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        asked.append(host)
        return [(0, 0, 0, "", (address, port)) for address in ("93.184.216.34", "127.0.0.1")]

    monkeypatch.setattr(outbound.socket, "getaddrinfo", resolve)
    with pytest.raises(AddressRefused):
        post("http://rebinding.example/", b"", {})
    assert asked == ["rebinding.example"]


@pytest.mark.parametrize(
    "url",
    [
        "", "hook", "ftp://example.org/", "file:///etc/passwd", "http://", "http://:80/",
        "http://user:pass@example.org/", "http://[::1/", "http://example.org:0/",
        "http://example.org:99999/", "gopher://example.org",
    ],
)  # fmt: skip
def test_what_is_no_web_address_is_refused(url: str):
    with pytest.raises(AddressRefused, match=r"^expected an address"):
        post(url, b"", {})


@pytest.mark.parametrize(
    "url", ["http://example.org/\r\nX: y", "http://exa mple.org/", "http://ä/"]
)
def test_a_strange_address_raises_nothing_else(url: str, monkeypatch: pytest.MonkeyPatch):
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(outbound.socket, "getaddrinfo", unknown)
    with pytest.raises(OutboundUnreachable):
        post(url, b"", {})


def test_proxies_of_the_environment_are_not_used(
    private: None, receiver: HTTPServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert post(address(receiver), b"", {}).status == 200
