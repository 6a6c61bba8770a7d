"""Mail as a kind of channel: one mail to each address."""

from __future__ import annotations

import re
import smtplib
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from email.errors import MessageError
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr
from functools import lru_cache
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from dashboard.core.times import utc_datetime
from dashboard.notifications.channels import Kind, Obstacle, Undelivered
from dashboard.notifications.models import Channel, Message

TIMEOUT_S = 10.0
MOST_ADDRESSES = 50
NO_SERVER = "no mail server configured"
"""Why every mail is held without one."""
FINAL = range(500, 600)
"""Answers of a server by which another try would fail too."""
NO_BRACKETS = str.maketrans("[]", "()")


class MailKind(Kind):
    """Sends mails through the configured server."""

    name = "mail"
    label = "Mail"
    address_label = "Addresses, with commas between"

    def problem(self, address: str, secret: str) -> str:  # noqa: ARG002 - it has no secret
        """Return what is expected of the addresses where one is none."""
        addresses = split_addresses(address)
        if not 1 <= len(addresses) <= MOST_ADDRESSES:
            return f"expected 1 to {MOST_ADDRESSES} mail addresses"
        wrong = [each for each in addresses if not is_address(each)]
        return f"expected mail addresses, and {wrong[0]} is none" if wrong else ""

    def recipients(self, channel: Channel) -> Iterable[str]:
        """Return the addresses."""
        return split_addresses(channel.address)

    def recipient_of(self, user: User) -> str:
        """Return a user's mail address."""
        return user.email

    def deliver(self, message: Message) -> str:
        """Send a mail. Returns the server's answer."""
        server = settings.TALLYBOARD.mail_server
        if server is None:
            raise Obstacle(NO_SERVER)
        try:
            with _connection(*server) as smtp:
                return _send(smtp, as_mail(message), message.recipient)
        except smtplib.SMTPRecipientsRefused as error:
            code, text = next(iter(error.recipients.values()))
            raise Undelivered(_answer(code, text), final=code in FINAL) from None
        except smtplib.SMTPResponseException as error:
            wrong_login = isinstance(error, smtplib.SMTPAuthenticationError)
            final = error.smtp_code in FINAL and not wrong_login
            raise Undelivered(_answer(error.smtp_code, error.smtp_error), final=final) from None
        except (smtplib.SMTPException, ssl.SSLError, OSError) as error:
            raise Undelivered(f"{server[0]}:{server[1]}: {error or type(error).__name__}") from None
        except (MessageError, UnicodeError, ValueError) as error:
            raise Undelivered(f"no mail can be made of it: {error}", final=True) from None


def split_addresses(text: str) -> list[str]:
    """Return the addresses of a text, each once."""
    return list(dict.fromkeys(filter(None, re.split(r"[,;\s]+", text))))


def is_address(text: str) -> bool:
    """Return whether a text is a mail address."""
    try:
        validate_email(text)
    except ValidationError:
        return False
    return True


def as_mail(message: Message) -> EmailMessage:
    """Return a message as a mail. Raises ValueError for a header that no mail can have."""
    mail = EmailMessage()
    mail["From"] = settings.TALLYBOARD.smtp_from
    mail["To"] = message.recipient
    mail["Subject"] = _subject(message)
    mail["Date"] = format_datetime(utc_datetime(message.created_at))
    mail["Message-ID"] = mail_id(str(message.pk))
    mail["Auto-Submitted"] = "auto-generated"
    if _follows(message):
        mail["In-Reply-To"] = mail["References"] = mail_id(message.thread)
    for name, value in message.headers.items():
        mail[name] = value
    mail.set_content(message.text)
    if message.html:
        mail.add_alternative(message.html, subtype="html")
    return mail


def _follows(message: Message) -> bool:
    """Return whether another message is the first one of its thread."""
    return bool(message.thread) and message.thread != str(message.pk)


def _subject(message: Message) -> str:
    """Return the subject of a mail; of one that follows another, that one's after its own.

    Some programs put mails together only where the subject is the same, `Re:` and what is in
    brackets aside (RFC 5256).
    """
    own, first = message.subject, None
    if _follows(message):
        rows = Message.objects.filter(pk=message.thread)
        first = rows.values_list("subject", flat=True).first()
    if first is None:
        return own
    return f"Re: {first}" if own == first else f"Re: [{own.translate(NO_BRACKETS)}] {first}"


def mail_id(name: str) -> str:
    """Return the id of a mail, the same in every try."""
    return f"<{name}@{_domain()}>"


def _domain() -> str:
    """Return the domain of the sender, for ids of mails."""
    address = parseaddr(settings.TALLYBOARD.smtp_from)[1]
    return (
        address.rpartition("@")[2] or urlsplit(settings.TALLYBOARD.own_url).hostname or "localhost"
    )


@contextmanager
def _connection(host: str, port: int) -> Iterator[smtplib.SMTP]:
    tallyboard = settings.TALLYBOARD
    # The demo's own mail catcher speaks no TLS.
    tls = tallyboard.smtp_tls if tallyboard.smtp_host else "none"
    if tls == "tls":
        smtp: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=TIMEOUT_S, context=_trusted())
    else:
        smtp = smtplib.SMTP(host, port, timeout=TIMEOUT_S)
    with smtp:
        if tls == "starttls":
            smtp.starttls(context=_trusted())
        if tallyboard.smtp_user and tallyboard.smtp_password:
            smtp.login(tallyboard.smtp_user, tallyboard.smtp_password.get_secret_value())
        yield smtp


def _send(smtp: smtplib.SMTP, mail: EmailMessage, recipient: str) -> str:
    """Send a mail by a connection. Returns the answer to its text."""
    smtp.ehlo_or_helo_if_needed()
    sender = parseaddr(settings.TALLYBOARD.smtp_from)[1]
    code, text = smtp.mail(sender)
    if code != 250:
        raise smtplib.SMTPSenderRefused(code, text, sender)
    code, text = smtp.rcpt(recipient)
    if code not in (250, 251):
        raise smtplib.SMTPRecipientsRefused({recipient: (code, text)})
    code, text = smtp.data(mail.as_bytes(policy=SMTP))
    if code != 250:
        raise smtplib.SMTPDataError(code, text)
    return _answer(code, text)


def _answer(code: int, text: bytes | str) -> str:
    words = text.decode(errors="replace") if isinstance(text, bytes) else text
    return f"{code} {words}"


@lru_cache(maxsize=1)
def _trusted() -> ssl.SSLContext:
    return ssl.create_default_context()
