"""What libraries send by `requests`: none of it into our own network, none without an end."""

from __future__ import annotations

import gzip
import socket
import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import requests
from django.conf import settings

from dashboard.core.common import outbound
from dashboard.core.common.outbound import (
    MOST_ANSWER,
    AddressRefused,
    Exchange,
    HttpReply,
    OutboundRequest,
    guarded,
)
from support.web.certificates import certificate_in


class Site(ThreadingHTTPServer):
    """A web server that keeps what came, and answers what each path names."""

    came: list[tuple[str, str, dict[str, str], bytes]]

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.came = []

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.server_port}{path}"


class Handler(BaseHTTPRequestHandler):
    server: Site

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.came.append((self.command, self.path, dict(self.headers), body))
        status, headers, text = ANSWERS.get(self.path, (200, {}, b"thanks"))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = answer  # noqa: N815 - the library's form

    def log_message(self, *_: object) -> None:
        """Nothing."""


ANSWERS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "/moved": (302, {"Location": "/inside"}, b""),
    "/busy": (429, {"Retry-After": "3600"}, b"{}"),
    "/long": (200, {}, b"x" * (MOST_ANSWER + 1)),
    "/bomb": (200, {"Content-Encoding": "gzip"}, gzip.compress(b"x" * 5_000_000)),
    "/json": (200, {"Set-Cookie": "a=b", "Content-Type": "application/json"}, b'{"ok": true}'),
}


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def private(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses of this machine are allowed."""
    allowed = settings.TALLYBOARD.model_copy(update={"private_targets": True})
    monkeypatch.setattr(settings, "TALLYBOARD", allowed)


def test_what_a_library_sends_arrives_and_it_is_given_the_answer(private: None, site: Site):
    with guarded(5) as calls:
        answer = requests.post(
            site.url("/json?a=ä"), json={"text": "ü"}, headers={"X-Key": "7"}, timeout=5
        )
        assert requests.get(site.url("/json"), timeout=5).json() == {"ok": True}
    assert (answer.status_code, answer.ok, calls.obstacle) == (200, True, None)
    method, path, headers, body = site.came[0]
    assert (method, path, headers["X-Key"]) == ("POST", "/json?a=%C3%A4", "7")
    assert body == b'{"text": "\\u00fc"}'


def twice(request: OutboundRequest, send: Exchange) -> HttpReply:
    """A relay that sends another body first."""
    send(request.with_body(b"a longer body"))
    return send(request)


def test_a_relay_may_send_something_else(private: None, site: Site):
    with guarded(5, twice):
        assert requests.post(site.url(), data="a body", timeout=5).text == "thanks"
    assert [body for *_, body in site.came] == [b"a longer body", b"a body"]


def test_what_a_relay_sends_is_guarded_too(site: Site):
    with guarded(5, twice) as calls, pytest.raises(requests.ConnectionError):
        requests.post(site.url(), data="a body", timeout=5)
    assert isinstance(calls.obstacle, AddressRefused)
    assert site.came == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "0.0.0.0"])
def test_our_own_network_is_not_called(site: Site, host: str):
    with (
        guarded(5) as calls,
        pytest.raises(requests.ConnectionError, match="TALLYBOARD_PRIVATE_TARGETS"),
    ):
        requests.post(site.url(host=host), timeout=5)
    assert isinstance(calls.obstacle, AddressRefused)
    assert site.came == []


def test_a_name_that_means_our_own_network_is_not_called(
    site: Site, monkeypatch: pytest.MonkeyPatch
):
    def resolve(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        return [(0, 0, 0, "", ("127.0.0.1", port))]

    monkeypatch.setattr(outbound.socket, "getaddrinfo", resolve)
    with guarded(5) as calls, pytest.raises(requests.ConnectionError):
        requests.get(site.url(host="inside.example.org"), timeout=5)
    assert isinstance(calls.obstacle, AddressRefused)
    assert site.came == []


def test_no_redirect_is_followed_though_the_library_wants_to(private: None, site: Site):
    with guarded(5):
        answer = requests.get(site.url("/moved"), allow_redirects=True, timeout=5)
    assert answer.status_code == 302
    assert [path for _, path, _, _ in site.came] == ["/moved"]


def test_no_file_is_read():
    with guarded(5), pytest.raises(requests.exceptions.InvalidSchema):
        requests.get("file:///etc/hostname", timeout=5)


def test_no_proxy_of_the_environment_is_used(
    private: None, site: Site, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with guarded(5):
        assert requests.get(site.url(), timeout=5).text == "thanks"


@pytest.mark.parametrize(("path", "why"), [("/long", "more than 65536 bytes"), ("/busy", "429")])
def test_what_is_no_use_to_a_library_is_an_obstacle(private: None, site: Site, path: str, why: str):
    with guarded(5) as calls, pytest.raises(requests.ConnectionError, match=why):
        requests.get(site.url(path), timeout=5)
    assert why in str(calls.obstacle)


def test_an_answer_is_not_unpacked(private: None, site: Site):
    with guarded(5):
        assert len(requests.get(site.url("/bomb"), timeout=5).content) < 10_000
    assert site.came[0][2]["Accept-Encoding"] == "identity"


def test_certificates_are_verified_though_the_library_wants_otherwise(
    private: None, site: Site, tmp_path: Path
):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate_in(tmp_path))
    site.socket = context.wrap_socket(site.socket, server_side=True)
    url = f"https://127.0.0.1:{site.server_port}/"
    with guarded(5), pytest.raises(requests.ConnectionError, match="certificate verify failed"):
        requests.get(url, verify=False, timeout=5)
    assert site.came == []


def test_all_requests_share_one_deadline(private: None):
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        guarded(0.3) as calls,
    ):
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        for _ in range(3):
            with pytest.raises(requests.ConnectionError):
                requests.get(url, timeout=60)
    assert str(calls.obstacle) == "no answer within 0.3 s"


def test_what_is_sent_afterwards_goes_its_usual_way(site: Site):
    usual = requests.sessions.Session
    with pytest.raises(RuntimeError), guarded(5):
        raise RuntimeError
    assert requests.sessions.Session is usual
    assert requests.get(site.url(), timeout=5).text == "thanks"
