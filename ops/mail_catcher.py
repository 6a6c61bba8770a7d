"""`python -m ops.mail_catcher`: a local mail server that keeps the mails it receives.

It delivers nothing. The console shows the mails, so that notifications can be tried without a mail
server.
"""

from __future__ import annotations

import asyncio
import signal
import sys

import structlog
from aiosmtpd.smtp import SMTP, Envelope, Session

from config.entry import enter
from config.logs import configure_logs
from config.mailbox import Mailbox
from config.pulse import Pulse
from config.settings import LOOPBACK

log = structlog.get_logger("ops.mail_catcher")

MOST_BYTES = 1_048_576
"""Largest mail accepted, bytes."""
SILENCE_S = 60.0
"""How long a client may be silent, s."""
PULSE_S = 5.0


class Catcher:
    """Keeps every mail, with its envelope added to the headers."""

    def __init__(self, mailbox: Mailbox) -> None:
        self._mailbox = mailbox

    async def handle_DATA(  # noqa: N802 - the library's name
        self, _server: SMTP, _session: Session, envelope: Envelope
    ) -> str:
        """Return the answer to a mail: kept, or why not."""
        try:
            number = self._mailbox.keep(_with_envelope(envelope))
        except OSError as error:
            log.warning("a mail could not be kept", error=str(error))
            return "452 The mail cannot be kept at the moment"
        log.info("a mail came", number=number, recipients=len(envelope.rcpt_tos))
        return f"250 Kept as {number}"


def _with_envelope(envelope: Envelope) -> bytes:
    """Return a mail with two additional headers: its envelope sender and recipients."""
    recipients = ",\r\n ".join(envelope.rcpt_tos)
    head = f"X-Envelope-From: {envelope.mail_from}\r\nX-Envelope-To: {recipients}\r\n"
    content = envelope.content or b""
    return head.encode() + (content if isinstance(content, bytes) else content.encode())


async def serve(mailbox: Mailbox, host: str, port: int, pulse: Pulse) -> None:
    """Accept mails until SIGTERM or SIGINT. Raises OSError if the port is in use."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    catcher = Catcher(mailbox)
    server = await loop.create_server(lambda: _session(catcher), host, port)
    log.info("listening", host=host, port=port)
    async with server:
        while not stop.is_set():
            pulse.beat()
            await _wait(stop, PULSE_S)


def _session(catcher: Catcher) -> SMTP:
    return SMTP(
        catcher,
        data_size_limit=MOST_BYTES,
        enable_SMTPUTF8=True,
        hostname="localhost",
        timeout=SILENCE_S,
    )


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return


def main() -> None:
    """Accept mails until SIGTERM. Exits with a message if the port is in use."""
    settings = enter()
    configure_logs(settings.log_level, "mail")
    port, pulse = settings.mail_port, Pulse(settings.data_dir, "mail")
    try:
        asyncio.run(serve(Mailbox(settings.mail_dir), LOOPBACK, port, pulse))
    except OSError as error:
        sys.exit(f"mail: port {port} (TALLYBOARD_MAIL_CATCHER_PORT): {error.strerror}")


if __name__ == "__main__":
    main()
