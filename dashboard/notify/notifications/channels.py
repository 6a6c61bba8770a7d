"""The kinds of channel: mail and webhooks."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import smtplib
import ssl
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.errors import MessageError
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr
from functools import lru_cache
from typing import Any, ClassVar
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from dashboard.core.accounts.encryption import NoKey, Resealed, seal, unseal
from dashboard.core.common.outbound import AddressRefused, OutboundUnreachable, check, post
from dashboard.core.common.times import now_ms, utc_datetime
from dashboard.notify.notifications.models import Channel, Message

# ---- secrets -------------------------------------------------------------------------------------
# The secrets of channels, encrypted in the database.


def reseal_channels() -> Resealed:
    """Encrypt the secrets of all channels with the first key.

    Return how many were, and the names of the channels in use whose secret no key decrypts.
    """
    sealed, unread = 0, []
    for channel in Channel.objects.exclude(secret=""):
        try:
            channel.secret = seal(unseal(channel.secret))
        except NoKey:
            if channel.retired_at is None:
                unread.append(f"the channel {channel.name}")
            continue
        channel.save(update_fields=["secret"])
        sealed += 1
    return sealed, unread


# ---- channels ------------------------------------------------------------------------------------
# The kinds of channel: one class each, registered at startup.


class Undelivered(Exception):
    """A delivery attempt failed; the message says why.

    final: whether a retry would fail too; unreachable: whether the receiver does not answer or asks
    to be left alone, so that its channel rests; retry_after_ms: how long it asks for, or None.
    """

    def __init__(
        self,
        why: str,
        *,
        final: bool = False,
        unreachable: bool = False,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(why)
        self.final, self.retry_after_ms = final, retry_after_ms
        self.unreachable = unreachable or retry_after_ms is not None


class Obstacle(Exception):
    """Nothing of a kind can be sent now, for the reason given: messages are held, not tried."""


class ChannelKind(ABC):
    """A kind of channel.

    name: in the database; label: on pages; address_label, secret_label: labels of what an admin
    enters, empty if there is nothing to enter.
    """

    name: ClassVar[str]
    label: ClassVar[str]
    address_label: ClassVar[str] = ""
    secret_label: ClassVar[str] = ""

    @abstractmethod
    def deliver(self, message: Message) -> str:
        """Deliver a message and return the receiver's answer. Raises Undelivered and Obstacle."""

    def problem(self, address: str, secret: str) -> str:  # noqa: ARG002 - for those that have one
        """Return what was expected of an invalid address or secret; empty if both are valid."""
        return ""

    def refusal(self, channel: Channel) -> str:  # noqa: ARG002 - for those that have one
        """Return why a stored channel may not be used; empty if it may."""
        return ""

    def services(self) -> Sequence[Any]:
        """Return the services that a secret can name, for the kinds with services."""
        return ()

    def new_secret(self) -> str:
        """Return a secret generated for a channel, to be shown once; empty if none is needed."""
        return ""

    def shown(self, address: str, secret: str) -> str:  # noqa: ARG002 - for secrets with addresses
        """Return the text shown as the address of a channel."""
        return address

    def recipients(self, channel: Channel) -> Iterable[str]:
        """Return the recipients of a channel: each gets a message of its own."""
        return (channel.address,)

    def recipient_of(self, user: User) -> str:  # noqa: ARG002 - for those that reach users
        """Return a user's address for this kind; empty if there is none."""
        return ""


CHANNELS: dict[str, ChannelKind] = {}
"""The kinds by name."""


def register(kind: ChannelKind) -> None:
    """Register a kind of channel, once at startup."""
    CHANNELS[kind.name] = kind


# ---- webhook -------------------------------------------------------------------------------------
# Webhooks as a kind of channel, signed as described by https://www.standardwebhooks.com.

WEBHOOK_TIMEOUT_S = 5.0
PREFIX = "whsec_"
"""The prefix of a secret; the rest is base64 of LEAST_SECRET bytes or more."""
LEAST_SECRET = 24
GONE = 410
"""The status by which a receiver asks to be sent nothing more."""
BUSY = (429, 503)
"""The statuses by which a receiver asks to be left alone for a time."""


class WebhookKind(ChannelKind):
    """Posts JSON with a signature to an address."""

    name = "webhook"
    label = "Webhook"
    address_label = "Address, https://…"

    def problem(self, address: str, secret: str) -> str:
        """Return what is expected of the address or the secret; empty if both are valid."""
        try:
            check(address)
        except AddressRefused as refused:
            return str(refused)
        return "" if secret_bytes(secret) else f"expected {PREFIX} and base64 of 24 bytes or more"

    def new_secret(self) -> str:
        """Return a new signing key."""
        return new_secret()

    def deliver(self, message: Message) -> str:
        """Post a message; return the status and the beginning of the answer. Raises Undelivered."""
        if message.channel is None:
            raise Undelivered("its channel is gone", final=True)
        body = as_json(message)
        try:
            key = unseal(message.channel.secret)
            headers = signed_headers(str(message.pk), body, key, now_ms() // 1000)
            answer = post(message.channel.address, body, headers, WEBHOOK_TIMEOUT_S)
        except NoKey as error:
            raise Undelivered(str(error)) from None
        except OutboundUnreachable as error:
            refused = isinstance(error, AddressRefused)
            raise Undelivered(str(error), final=refused, unreachable=not refused) from None
        words = f"{answer.status} {answer.text}".strip()
        if not 200 <= answer.status < 300:
            after = answer.retry_after_ms if answer.status in BUSY else None
            raise Undelivered(words, final=answer.status == GONE, retry_after_ms=after)
        return words


def new_secret() -> str:
    """Return a new secret for signatures."""
    return PREFIX + b64encode(secrets.token_bytes(LEAST_SECRET)).decode()


def secret_bytes(secret: str) -> bytes:
    """Return the key in a secret; empty if the text is not a valid secret."""
    try:
        key = b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError:
        return b""
    return key if secret.startswith(PREFIX) and len(key) >= LEAST_SECRET else b""


def as_json(message: Message) -> bytes:
    """Return the JSON to post, which is the same in every attempt."""
    plain = {
        "id": str(message.pk),
        "type": f"notification.{message.kind}",
        "created_at": message.created_at,
        "subject": message.subject,
        "text": message.text,
        "thread": message.thread,
        "data": message.payload,
    }
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode()


def signed_headers(name: str, body: bytes, secret: str, at_s: int) -> Mapping[str, str]:
    """Return the headers of a request. name: the message's id; at_s: the time, Unix s."""
    signature = hmac.new(secret_bytes(secret), f"{name}.{at_s}.".encode() + body, hashlib.sha256)
    return {
        "Content-Type": "application/json",
        "User-Agent": "Tallyboard",
        "Idempotency-Key": name,
        "Webhook-Id": name,
        "Webhook-Timestamp": str(at_s),
        "Webhook-Signature": f"v1,{b64encode(signature.digest()).decode()}",
    }


# ---- mail ----------------------------------------------------------------------------------------
# Mail as a kind of channel: one mail to each address.

MAIL_TIMEOUT_S = 10.0
MOST_ADDRESSES = 50
NO_SERVER = "no mail server configured"
"""Why every mail is held if no server is configured."""
FINAL = range(500, 600)
"""Answers of a server after which a retry would fail too."""


class MailKind(ChannelKind):
    """Sends mails through the configured server."""

    name = "mail"
    label = "Mail"
    address_label = "Addresses, separated by commas"

    def problem(self, address: str, secret: str) -> str:  # noqa: ARG002 - it has no secret
        """Return what is expected of the addresses if one is invalid, otherwise an empty string."""
        addresses = split_addresses(address)
        if not 1 <= len(addresses) <= MOST_ADDRESSES:
            return f"expected 1 to {MOST_ADDRESSES} mail addresses"
        wrong = [each for each in addresses if not is_address(each)]
        return f"expected mail addresses; {wrong[0]} is not one" if wrong else ""

    def recipients(self, channel: Channel) -> Iterable[str]:
        """Return the addresses."""
        return split_addresses(channel.address)

    def recipient_of(self, user: User) -> str:
        """Return a user's mail address."""
        return user.email

    def deliver(self, message: Message) -> str:
        """Send a mail and return the server's answer. Raises Undelivered and Obstacle."""
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
            why = f"{server[0]}:{server[1]}: {error or type(error).__name__}"
            raise Undelivered(why, unreachable=True) from None
        except (MessageError, UnicodeError, ValueError) as error:
            raise Undelivered(f"no mail can be made of it: {error}", final=True) from None


def split_addresses(text: str) -> list[str]:
    """Return the addresses in a text, each once."""
    return list(dict.fromkeys(filter(None, re.split(r"[,;\s]+", text))))


def is_address(text: str) -> bool:
    """Return whether a text is a mail address."""
    try:
        validate_email(text)
    except ValidationError:
        return False
    return True


def as_mail(message: Message) -> EmailMessage:
    """Return a message as a mail. Raises ValueError for a header that is not allowed in mails."""
    mail = EmailMessage()
    mail["From"] = settings.TALLYBOARD.smtp_from
    mail["To"] = message.recipient
    # Else a mail program may decode a name, as RFC 2047 has it, and show another one.
    mail["Subject"] = message.subject.replace("=?", "= ?")
    mail["Date"] = format_datetime(utc_datetime(message.created_at))
    mail["Message-ID"] = mail_id(str(message.pk))
    mail["Auto-Submitted"] = "auto-generated"
    if message.is_follow_up:
        mail["In-Reply-To"] = mail["References"] = mail_id(message.thread)
    for name, value in message.headers.items():
        mail[name] = value
    mail.set_content(message.text)
    if message.html:
        mail.add_alternative(message.html, subtype="html")
    return mail


def mail_id(name: str) -> str:
    """Return the Message-ID of a mail, which is the same in every attempt."""
    return f"<{name}@{_domain()}>"


def _domain() -> str:
    """Return the sender's domain, for the ids of mails."""
    address = parseaddr(settings.TALLYBOARD.smtp_from)[1]
    return (
        address.rpartition("@")[2] or urlsplit(settings.TALLYBOARD.own_url).hostname or "localhost"
    )


@contextmanager
def _connection(host: str, port: int) -> Iterator[smtplib.SMTP]:
    tallyboard = settings.TALLYBOARD
    # The demo's own mail catcher does not support TLS.
    tls = tallyboard.smtp_tls if tallyboard.smtp_host else "none"
    if tls == "tls":
        smtp: smtplib.SMTP = smtplib.SMTP_SSL(
            host, port, timeout=MAIL_TIMEOUT_S, context=_trusted()
        )
    else:
        smtp = smtplib.SMTP(host, port, timeout=MAIL_TIMEOUT_S)
    with smtp:
        if tls == "starttls":
            smtp.starttls(context=_trusted())
        if tallyboard.smtp_user and tallyboard.smtp_password:
            smtp.login(tallyboard.smtp_user, tallyboard.smtp_password.get_secret_value())
        yield smtp


def _send(smtp: smtplib.SMTP, mail: EmailMessage, recipient: str) -> str:
    """Send a mail over a connection, and return the answer to its content."""
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
