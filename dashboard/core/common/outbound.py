"""Requests to URLs that users enter, over a guarded network."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache, partial
from io import BytesIO
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpcore
from django.conf import settings
from requests import PreparedRequest, Response, Session, exceptions, sessions
from requests.adapters import HTTPAdapter
from urllib3 import HTTPHeaderDict, HTTPResponse

# ---- outbound ------------------------------------------------------------------------------------
# Requests to URLs that users enter: webhooks, push services, chats.
#
# Such a URL may lead into our own network. So each connection is made to an address that was
# checked, not to a name that may resolve to another one by then; redirects are not followed, and
# proxies from the environment are not used. A request has one deadline, however slowly the response
# arrives.

TIMEOUT_S = 10.0
LONGEST_ANSWER = 2_000
"""Most bytes of a response that are read."""
LONGEST_RETRY_S = 3_600
"""Longest time to be left alone that a response may ask for, s."""

TRANSLATED = IPv6Network("64:ff9b::/96")
"""IPv4 addresses behind a translator (RFC 6052)."""


class OutboundUnreachable(Exception):
    """The address did not answer; the message says why."""


class AddressRefused(OutboundUnreachable):
    """The product may not call this address."""


class ResponseExcerpt(NamedTuple):
    """The status of a response, and the beginning of its text.

    retry_after_ms: how long it asks to be left alone (RFC 9110, 10.2.3), or None.
    """

    status: int
    text: str
    retry_after_ms: int | None = None


class OutboundRequest(NamedTuple):
    """A request. headers: as sent."""

    method: str
    url: str
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes | None

    def with_body(self, body: bytes) -> OutboundRequest:
        """Return the request with another body, and its length."""
        length = str(len(body)).encode()
        headers = [
            (name, length if name.lower() == b"content-length" else value)
            for name, value in self.headers
        ]
        return self._replace(headers=headers, body=body)


class HttpReply(NamedTuple):
    """A response with its headers and the beginning of its raw content."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    content: bytes


def post(
    url: str, body: bytes, headers: Mapping[str, str], timeout_s: float = TIMEOUT_S
) -> ResponseExcerpt:
    """Return the response to a POST within `timeout_s`.

    Raises OutboundUnreachable, or its subclass AddressRefused.
    """
    plain = [(name.encode(), value.encode()) for name, value in headers.items()]
    request = OutboundRequest("POST", url, plain, body)
    reply = exchange(request, GuardedNetwork(timeout_s), LONGEST_ANSWER)
    asked = next((value for name, value in reply.headers if name.lower() == b"retry-after"), b"")
    text = reply.content.decode(errors="replace")
    return ResponseExcerpt(reply.status, text, retry_after_ms(asked.decode(errors="replace")))


def retry_after_ms(text: str) -> int | None:
    """Return the time that a Retry-After header asks for, ms; None for an invalid one."""
    if text.isascii() and text.isdigit():
        return min(int(text[:9]), LONGEST_RETRY_S) * 1000
    with suppress(ValueError):
        left = parsedate_to_datetime(text) - datetime.now(UTC)
        return min(max(0, int(left.total_seconds())), LONGEST_RETRY_S) * 1000
    return None


def exchange(request: OutboundRequest, network: GuardedNetwork, longest: int) -> HttpReply:
    """Return the response to a request over a network, with at most `longest` bytes of its content.

    Raises OutboundUnreachable, or its subclass AddressRefused.
    """
    check(request.url)
    with closing(httpcore.ConnectionPool(_trusted(), network_backend=network)) as pool:
        try:
            with pool.stream(
                request.method, request.url, headers=request.headers, content=request.body
            ) as response:
                content = _beginning(response.iter_stream(), longest)
                return HttpReply(response.status, response.headers, content)
        except httpcore.TimeoutException:
            raise OutboundUnreachable(f"no answer within {network.timeout_s:g} s") from None
        except (httpcore.NetworkError, httpcore.ProtocolError, UnicodeError) as error:
            raise OutboundUnreachable(str(error) or type(error).__name__) from error


def check(url: str) -> None:
    """Raise AddressRefused unless this is an http or https URL without a user in it."""
    if not url.isascii() or not url.isprintable() or " " in url:
        raise AddressRefused(
            "expected an address without spaces and letters such as ä (write xn--…)"
        )
    try:
        parts = urlsplit(url)
        complete = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        complete = False
    if not complete:
        raise AddressRefused("expected an address such as https://example.org/hook")
    if parts.username is not None or parts.password is not None:
        raise AddressRefused("expected an address without user and password")


def _beginning(parts: Iterable[bytes], longest: int) -> bytes:
    content = b""
    for part in parts:
        content += part
        if len(content) >= longest:
            break
    return content[:longest]


@lru_cache(maxsize=1)
def _trusted() -> ssl.SSLContext:
    return ssl.create_default_context()


class GuardedNetwork(httpcore.SyncBackend):
    """Connects to public addresses, for `timeout_s` from now."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *args: Any, **kwargs: Any
    ) -> httpcore.NetworkStream:
        """Return a connection to the first address of a host.

        Raises AddressRefused, or the library's own errors.
        """
        address = _checked_address(host, port)
        left = _left(self._deadline, timeout)
        stream = super().connect_tcp(address, port, left, *args, **kwargs)
        return DeadlineStream(stream, self._deadline)


class DeadlineStream(httpcore.NetworkStream):
    """A connection that waits for nothing beyond its deadline."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: float) -> None:
        self._stream, self._deadline = stream, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return the next bytes."""
        return self._stream.read(max_bytes, _left(self._deadline, timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of the buffer."""
        self._stream.write(buffer, _left(self._deadline, timeout))

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        """Return the same connection, encrypted; the certificate must match the host's name."""
        left = _left(self._deadline, timeout)
        stream = self._stream.start_tls(ssl_context, server_hostname, left)
        return DeadlineStream(stream, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        """Return what the library requests to know about the connection."""
        return self._stream.get_extra_info(info)


def _left(deadline: float, timeout: float | None) -> float:
    """Return the time left to wait, s. Raises the library's error if there is none."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout
    return left if timeout is None else min(left, timeout)


def _checked_address(host: str, port: int) -> str:
    """Return a host's first address.

    Raises AddressRefused if any of its addresses is not public.
    """
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise httpcore.ConnectError(f"{host}: {error.strerror}") from error
    addresses = [str(entry[4][0]) for entry in entries]
    private = [address for address in addresses if not _is_public(address)]
    if private and not settings.TALLYBOARD.private_targets:
        raise AddressRefused(
            f"{host} is {private[0]}, an address of this machine or of a private network: "
            "set TALLYBOARD_PRIVATE_TARGETS=1 if it is meant to be called"
        )
    return addresses[0]


def _is_public(text: str) -> bool:
    address = ip_address(text.partition("%")[0])
    return all(each.is_global and not each.is_multicast for each in (address, *_carried(address)))


def _carried(address: IPv4Address | IPv6Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses that an IPv6 address embeds."""
    if isinstance(address, IPv6Address):
        yield from filter(None, (address.ipv4_mapped, address.sixtofour))
        yield from (address.teredo or ())
        if address in TRANSLATED:
            yield IPv4Address(int(address) & 0xFFFFFFFF)


# ---- outbound requests ---------------------------------------------------------------------------
# Requests of libraries that use `requests`, over the guarded network.
#
# Such a library connects by itself, and also to addresses that it finds on the way: in a parameter,
# a response or a redirect. So each connection is checked, not the address that a user entered.

MOST_ANSWER = 65_536
"""Largest response that a library receives, bytes."""
TOO_MANY = 429
ENCODED = (b"content-encoding", b"transfer-encoding")
"""Headers about how a response was transferred, not about the content given to the library."""

Exchange = Callable[[OutboundRequest], HttpReply]
"""Sends a request over the guarded network, and returns the response."""
Relay = Callable[[OutboundRequest, Exchange], HttpReply]
"""Returns the response to a library's request, by the requests that it sends in its place."""

_TURN = Lock()


class Calls:
    """The requests of a library within one deadline.

    obstacle: why one of them got no response; a refusal takes precedence over what came after it.
    """

    def __init__(self, timeout_s: float, relay: Relay | None = None) -> None:
        self.network = GuardedNetwork(timeout_s)
        self.obstacle: OutboundUnreachable | None = None
        self._relay = relay

    def answer(self, request: OutboundRequest) -> HttpReply:
        """Return the response. Raises OutboundUnreachable or AddressRefused, and stores it."""
        try:
            return self._relay(request, self._send) if self._relay else self._send(request)
        except OutboundUnreachable as why:
            if not isinstance(self.obstacle, AddressRefused):
                self.obstacle = why
            raise

    def _send(self, request: OutboundRequest) -> HttpReply:
        return _usable(exchange(request, self.network, MOST_ANSWER + 1))


def _usable(reply: HttpReply) -> HttpReply:
    """Return a response, or raise OutboundUnreachable if it is too long or asks to wait.

    Libraries would sleep for as long as it says.
    """
    if reply.status == TOO_MANY:
        raise OutboundUnreachable("429: too many requests")
    if len(reply.content) > MOST_ANSWER:
        raise OutboundUnreachable(f"an answer of more than {MOST_ANSWER} bytes")
    return reply


class GuardedAdapter(HTTPAdapter):
    """Sends each request over the guarded network, and always verifies certificates."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self._calls = calls

    def send(self, request: PreparedRequest, *_args: Any, **_kwargs: Any) -> Response:
        """Return the response. Raises the library's error if there is none."""
        try:
            reply = self._calls.answer(_plain(request))
        except OutboundUnreachable as why:
            raise exceptions.ConnectionError(str(why), request=request) from why
        return self.build_response(request, _response(reply))


def _response(reply: HttpReply) -> HTTPResponse:
    """Return a response in the form the library expects, still compressed."""
    headers = HTTPHeaderDict(
        (name.decode("latin1"), value.decode("latin1"))
        for name, value in reply.headers
        if name.lower() not in ENCODED
    )
    content = BytesIO(reply.content)
    return HTTPResponse(content, headers, reply.status, preload_content=False)


def _plain(request: PreparedRequest) -> OutboundRequest:
    """Return a request to send. It asks for an unencoded response, which unpacks no larger."""
    body = request.body.encode() if isinstance(request.body, str) else request.body
    if not isinstance(body, bytes | None):
        raise exceptions.RequestException("a body that comes in pieces is not sent")
    request.headers["Accept-Encoding"] = "identity"
    headers = [(_bytes(name), _bytes(value)) for name, value in request.headers.items()]
    return OutboundRequest(request.method or "", request.url or "", headers, body)


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


class GuardedSession(Session):
    """A session of the library over the guarded network.

    It uses no redirects, no proxies from the environment, and no password files.
    """

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self.trust_env = False
        for scheme in ("http://", "https://"):
            self.mount(scheme, GuardedAdapter(calls))

    def get_redirect_target(self, resp: Response) -> None:  # noqa: ARG002 - the library's form
        """Return None, so that no redirect is followed."""
        return


@contextmanager
def guarded(timeout_s: float, relay: Relay | None = None) -> Iterator[Calls]:
    """Send whatever `requests` sends in this process over the guarded network, within the context.

    Users of the context take turns. timeout_s: for all requests together; relay: what they pass on
    their way, if anything.

    `requests.post` and similar functions create a session for each request and do not accept one.
    """
    calls = Calls(timeout_s, relay)
    with _TURN:
        usual = sessions.Session
        sessions.Session = partial(GuardedSession, calls)  # type: ignore[misc, assignment]
        try:
            yield calls
        finally:
            sessions.Session = usual  # type: ignore[misc]
