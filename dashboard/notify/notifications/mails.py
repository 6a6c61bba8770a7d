"""The mails that the mail catcher has stored, and their pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message
from email.parser import BytesHeaderParser
from functools import wraps
from typing import Any

from csp.constants import NONE, SELF, UNSAFE_INLINE
from csp.decorators import csp
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from config.mailbox import Mailbox, arrived_at
from dashboard.core.common.access import View, role_required
from dashboard.core.common.lists import ListPage
from dashboard.core.common.navigation import OPERATORS
from dashboard.core.common.tables import Column, Page, Pager, Table, number_of
from dashboard.core.common.times import now_ms

# ---- mails ---------------------------------------------------------------------------------------
# Mails as the catcher stored them: headers for the list, and single mails with their texts.

MAIL_TABLE = Table("", "Subject", "To", "From", Column.time("Received"))
PAGE_SIZE = 50
LONGEST_TEXT = 200_000
"""Most characters of a text on a page."""
LONGEST_HEAD = 65_536
"""Most bytes read from a mail for the list."""


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail. at: when it arrived, Unix ms; recipients: all those of the envelope; thread: the id
    of the first mail of its thread, or its own number if it has no id; earlier: whether it is below
    a newer mail of its thread."""

    number: int
    at: int
    subject: str
    sender: str
    recipients: str
    headers: list[tuple[str, str]]
    body: Body
    thread: str
    earlier: bool = False


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a mail. texts: its plain texts; html: empty if there is none; attachments: their
    names; readable: whether it could be parsed."""

    texts: list[str] = field(default_factory=list)
    html: str = ""
    attachments: list[str] = field(default_factory=list)
    readable: bool = True


def mailbox() -> Mailbox:
    """Return the mailbox that the catcher writes to."""
    return Mailbox(settings.TALLYBOARD.mail_dir)


def page_of_mails(before: int | None = None) -> Page[Mail]:
    """Return the newest mails, or those before a number, with the mails of a thread together."""
    numbers = [number for number in mailbox().numbers() if before is None or number < before]
    heads = {number: mailbox().read(number, LONGEST_HEAD) for number in numbers[:PAGE_SIZE]}
    rows = [_mail(number, head, Body()) for number, head in heads.items() if head is not None]
    more = len(numbers) > PAGE_SIZE
    return Page(_by_thread(rows), numbers[PAGE_SIZE - 1] if more else None)


def _by_thread(mails: Iterable[Mail]) -> list[Mail]:
    """Return mails with the earlier ones of each thread below its newest."""
    threads: dict[str, list[Mail]] = {}
    for each in mails:
        earlier = threads.setdefault(each.thread, [])
        earlier.append(replace(each, earlier=bool(earlier)))
    return [each for thread in threads.values() for each in thread]


def read_mail(number: int) -> Mail | None:
    """Return a mail, or None if there is none with this number (any more)."""
    content = mailbox().read(number)
    return None if content is None else _mail(number, content, _body(content))


def _mail(number: int, content: bytes, body: Body) -> Mail:
    """Return a mail, parsing only the header of its content."""
    message = BytesHeaderParser().parsebytes(content)
    headers = [(name, _decoded(str(value))) for name, value in message.items()]
    by_name = {name.lower(): value for name, value in reversed(headers)}
    return Mail(
        number,
        arrived_at(number),
        by_name.get("subject", ""),
        by_name.get("from", ""),
        by_name.get("x-envelope-to", ""),
        headers,
        body,
        _thread(by_name) or str(number),
    )


def _thread(headers: Mapping[str, str]) -> str:
    """Return the id of the first mail of a thread; empty if the headers have none."""
    ids = f"{headers.get('references', '')} {headers.get('message-id', '')}".split()
    return ids[0] if ids else ""


def _body(content: bytes) -> Body:
    """Return the body of a mail, as far as it can be parsed."""
    try:
        message = message_from_bytes(content)
        return Body(
            [_text(part)[:LONGEST_TEXT] for part in _texts(message, "text/plain")],
            "\n".join(_text(part) for part in _texts(message, "text/html")),
            [_name(part) for part in _parts(message, True)],
        )
    except (RecursionError, ValueError):  # nested too deep, or not what the parser expects
        return Body(readable=False)


def _decoded(value: str) -> str:
    """Return a header decoded, or unchanged if that is not possible."""
    try:
        return str(make_header(decode_header(value)))
    except (HeaderParseError, LookupError, ValueError):
        return value


def _texts(message: Message, kind: str) -> Iterator[Message]:
    """Yield the parts of a content type that are shown, which leaves out attachments."""
    return (part for part in _parts(message, False) if part.get_content_type() == kind)


def _parts(message: Message, attached: bool) -> Iterator[Message]:
    for part in message.walk():
        if not part.is_multipart() and attached == (part.get_content_disposition() == "attachment"):
            yield part


def _text(part: Message) -> str:
    """Return a part's text; bytes that its encoding does not allow are replaced by marks."""
    content = part.get_payload(decode=True)
    raw = content if isinstance(content, bytes) else b""
    try:
        return raw.decode(part.get_content_charset("utf-8"), errors="replace")
    except (LookupError, ValueError):  # an unknown encoding, or one that cannot replace
        return raw.decode(errors="replace")


def _name(part: Message) -> str:
    """Return the name of an attachment, or its type if it has no readable name."""
    try:
        name = part.get_filename()
    except (LookupError, ValueError):
        name = None
    return name or part.get_content_type()


# ---- mail catcher --------------------------------------------------------------------------------
# The pages of the mail catcher: the list of mails, a single mail, and the HTML in it.

LOCKED = {
    "default-src": [NONE],
    "style-src": [UNSAFE_INLINE],
    "img-src": ["data:"],
    "base-uri": [NONE],
    "form-action": [NONE],
    "frame-ancestors": [SELF],
    "sandbox": True,
}
"""The content security policy of a mail's HTML: it can only be displayed, and only by us."""


def where_mail_is_caught(view: View) -> View:
    """Return the view wrapped to raise Http404 unless the mail catcher is in use."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not settings.TALLYBOARD.catches_mail:
            raise Http404
        return view(request, *args, **kwargs)

    return guarded


@method_decorator(where_mail_is_caught, name="get")
class MailList(ListPage):
    """The list of mails, newest first."""

    template = "notifications/mail_catcher/mails"
    table = MAIL_TABLE
    parameters = ("before",)
    roles = OPERATORS

    def list_context(self) -> dict[str, Any]:
        """Return the mails of the page, and the pager."""
        before = number_of(self.request.GET.get("before", "")) or None
        page = page_of_mails(before)
        pager = Pager.by_key("", "before", before, page.following, ("The newest", "Older"))
        return {"page": page, "first": not before, "pager": pager}


@require_safe
@never_cache
@role_required("read", among=OPERATORS)
@where_mail_is_caught
def mail(request: HttpRequest, number: int) -> HttpResponse:
    """Show one mail."""
    return render(
        request,
        "notifications/mail_catcher/mail.html",
        {"now": now_ms(), "mail": _mail_catcher_mail(number)},
    )


@require_safe
@never_cache
@role_required("read", among=OPERATORS)
@where_mail_is_caught
@csp(LOCKED)  # type: ignore[arg-type] # the library knows no views with arguments
def mail_html(_request: HttpRequest, number: int) -> HttpResponse:
    """Return the HTML in a mail, under a policy that lets it neither run nor load anything."""
    if not (html := _mail_catcher_mail(number).body.html):
        raise Http404
    return HttpResponse(html, headers={"X-Frame-Options": "SAMEORIGIN"})


def _mail_catcher_mail(number: int) -> Mail:
    """Return a mail. Raises Http404."""
    mail = read_mail(number)
    if mail is None:
        raise Http404
    return mail
