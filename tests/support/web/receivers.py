"""Real receivers of notifications: a mail server, and a web server that takes webhooks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from ops.ports import free_port


@dataclass
class MailServer:
    """What a mail server got. answer: to the text of a mail; on_mail: called before it answers."""

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    answer: str = "250 OK"
    on_mail: Callable[[], None] = lambda: None

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        """Keep a mail."""
        if self.answer.startswith("250"):
            content = envelope.content
            assert isinstance(content, bytes)
            mail = message_from_bytes(content, policy=policy.default)
            assert isinstance(mail, EmailMessage)
            self.mails.append(mail)
            self.recipients += envelope.rcpt_tos
        self.on_mail()
        return self.answer


@contextmanager
def mail_server(port: int = 0) -> Iterator[MailServer]:
    """A mail server on a port of this machine; by default on a free one."""
    server = MailServer(port or free_port())
    controller = Controller(server, hostname="127.0.0.1", port=server.port, ready_timeout=10)
    controller.start()
    try:
        yield server
    finally:
        controller.stop()


def text_of_mail(mail: EmailMessage, kind: str = "plain") -> str:
    """Return the text of a mail. kind: plain or html."""
    body = mail.get_body((kind,))
    assert body is not None
    return str(body.get_content())


@dataclass
class Posted:
    """A request that a receiver got."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class HookServer:
    """What a web server got, and with what it answers. answer: to one request, status and text."""

    port: int = 0
    posted: list[Posted] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    text: bytes = b"thank you"
    answer: Callable[[Posted], tuple[int, bytes]] | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}/hook"


@contextmanager
def hook_server(port: int = 0) -> Iterator[HookServer]:
    """A web server that takes posts, on a free port of this machine."""
    hooks = HookServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            posted = Posted(self.path, dict(self.headers), body)
            hooks.posted.append(posted)
            status, text = hooks.answer(posted) if hooks.answer else (hooks.status, hooks.text)
            self.send_response(status)
            for name, value in hooks.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST  # noqa: N815 - the library's form

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    hooks.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hooks
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
