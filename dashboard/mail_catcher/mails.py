"""Mails as the catcher kept them: heads for the list, one mail with its texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message

from django.conf import settings

from config.mailbox import Mailbox, arrived_at
from dashboard.core.listing import Page
from dashboard.core.tables import Column, Table

MAIL_TABLE = Table("", "Subject", "To", "From", Column.time("Came"))
PAGE_SIZE = 50
LONGEST_TEXT = 200_000
"""Most characters of a text that a page shows."""


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail. at: when it came, Unix ms; recipients: all, as the envelope has them; texts: the
    plain ones; html: empty where it has none; attachments: their names."""

    number: int
    at: int
    subject: str
    sender: str
    recipients: str
    headers: list[tuple[str, str]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    html: str = ""
    attachments: list[str] = field(default_factory=list)


def mailbox() -> Mailbox:
    """Return the folder that the catcher writes to."""
    return Mailbox(settings.TALLYBOARD.mail_dir)


def page_of_mails(before: int | None = None) -> Page[Mail]:
    """Return the newest mails, or those before a number."""
    numbers = [number for number in mailbox().numbers() if before is None or number < before]
    found = [mail for number in numbers[:PAGE_SIZE] if (mail := read_mail(number))]
    more = len(numbers) > PAGE_SIZE
    return Page(found, numbers[PAGE_SIZE - 1] if more else None)


def read_mail(number: int) -> Mail | None:
    """Return a mail; None where there is none of this number (any more)."""
    content = mailbox().read(number)
    if content is None:
        return None
    message = message_from_bytes(content)
    headers = [(name, _decoded(str(value))) for name, value in message.items()]
    by_name = {name.lower(): value for name, value in reversed(headers)}
    return Mail(
        number,
        arrived_at(number),
        by_name.get("subject", ""),
        by_name.get("from", ""),
        by_name.get("x-envelope-to", ""),
        headers,
        [_text(part)[:LONGEST_TEXT] for part in _texts(message, "text/plain")],
        "\n".join(_text(part) for part in _texts(message, "text/html")),
        [part.get_filename() or part.get_content_type() for part in _parts(message, True)],
    )


def _decoded(value: str) -> str:
    """Return a header as it reads; as it came where that cannot be told."""
    try:
        return str(make_header(decode_header(value)))
    except (HeaderParseError, LookupError, ValueError):
        return value


def _texts(message: Message, kind: str) -> Iterator[Message]:
    """Yield the parts of a kind that are shown, so without those that are attached."""
    return (part for part in _parts(message, False) if part.get_content_type() == kind)


def _parts(message: Message, attached: bool) -> Iterator[Message]:
    for part in message.walk():
        if not part.is_multipart() and attached == (part.get_content_disposition() == "attachment"):
            yield part


def _text(part: Message) -> str:
    """Return a part's text; what is no text in its own encoding comes with marks in its place."""
    content = part.get_payload(decode=True)
    raw = content if isinstance(content, bytes) else b""
    try:
        return raw.decode(part.get_content_charset("utf-8"), errors="replace")
    except LookupError:
        return raw.decode(errors="replace")
