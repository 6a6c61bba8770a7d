"""Webhooks as a kind of channel: signed as https://www.standardwebhooks.com describes."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from base64 import b64decode, b64encode
from collections.abc import Mapping

from dashboard.accounts.encryption import NoKey, unseal
from dashboard.core.outbound import Refused, Unreachable, check, post
from dashboard.core.times import now_ms
from dashboard.notifications.channels import Kind, Undelivered
from dashboard.notifications.models import Message

TIMEOUT_S = 5.0
PREFIX = "whsec_"
"""How a secret begins; the rest is base64 of LEAST_SECRET bytes or more."""
LEAST_SECRET = 24
GONE = 410
"""A status by which a receiver says that it wants no more."""


class WebhookKind(Kind):
    """Posts JSON to an address, with a signature."""

    name = "webhook"
    label = "Webhook"
    address_label = "Address, https://…"

    def problem(self, address: str, secret: str) -> str:
        """Return what is expected of the address or the secret."""
        try:
            check(address)
        except Refused as refused:
            return str(refused)
        return "" if secret_bytes(secret) else f"expected {PREFIX} and base64 of 24 bytes or more"

    def new_secret(self) -> str:
        """Return a new key that signs."""
        return new_secret()

    def deliver(self, message: Message) -> str:
        """Post a message. Returns the status and the beginning of the answer."""
        if message.channel is None:
            raise Undelivered("its channel is gone", final=True)
        body = as_json(message)
        try:
            key = unseal(message.channel.secret)
            headers = signed_headers(str(message.pk), body, key, now_ms() // 1000)
            answer = post(message.channel.address, body, headers, TIMEOUT_S)
        except NoKey as error:
            raise Undelivered(str(error)) from None
        except Unreachable as error:
            raise Undelivered(str(error), final=isinstance(error, Refused)) from None
        words = f"{answer.status} {answer.text}".strip()
        if not 200 <= answer.status < 300:
            raise Undelivered(words, final=answer.status == GONE)
        return words


def new_secret() -> str:
    """Return a new secret."""
    return PREFIX + b64encode(secrets.token_bytes(LEAST_SECRET)).decode()


def secret_bytes(secret: str) -> bytes:
    """Return the key of a secret; empty for a text that is none."""
    try:
        key = b64decode(secret.removeprefix(PREFIX), validate=True)
    except ValueError:
        return b""
    return key if secret.startswith(PREFIX) and len(key) >= LEAST_SECRET else b""


def as_json(message: Message) -> bytes:
    """Return what is posted: the same bytes in every try."""
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
    """Return the headers of a post. name: of the message; at_s: the time, Unix s."""
    signature = hmac.new(secret_bytes(secret), f"{name}.{at_s}.".encode() + body, hashlib.sha256)
    return {
        "Content-Type": "application/json",
        "User-Agent": "Tallyboard",
        "Idempotency-Key": name,
        "Webhook-Id": name,
        "Webhook-Timestamp": str(at_s),
        "Webhook-Signature": f"v1,{b64encode(signature.digest()).decode()}",
    }
