"""One push message to one browser: encrypted for it (RFC 8291), signed by us (RFC 8292).

The encryption is `http_ece`, the token `py_vapid`: what `pywebpush` is made of. That package is not
used, as it would send the message too, to whatever address a subscription names.
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from functools import lru_cache
from urllib.parse import urlsplit

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from django.conf import settings
from py_vapid import Vapid02, VapidException

from config.settings import Settings, kept_text
from dashboard.core.outbound import Answer, Refused, post
from dashboard.push.models import PushSubscription

FILE = "push-key.pem"
KEEP_S = 4 * 3600
"""How long a push service keeps a message for a browser that is not there, s."""
TOKEN_S = 12 * 3600
"""How long a token is good for, s; RFC 8292 allows a day."""
MOST_BYTES = 3_000
"""Largest message: services take 4,096 bytes once it is encrypted."""


def public_key() -> str:
    """Return the key that browsers subscribe with, in base64url."""
    raw = _vapid().public_key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return _encoded(raw)


def send(subscription: PushSubscription, content: bytes, topic: str) -> Answer:
    """Return what the push service answers to a message of at most MOST_BYTES.

    topic: a later message of the same one takes the place of one that still waits there; at most
    32 characters of base64url. Raises Unreachable, or Refused.
    """
    try:
        token = _vapid().sign(_claims(subscription.endpoint))
    except VapidException as error:
        raise Refused(str(error)) from None
    headers = {
        "Content-Encoding": "aes128gcm",
        "Content-Type": "application/octet-stream",
        "TTL": str(KEEP_S),
        "Urgency": "high",
        "Topic": topic,
        **token,
    }
    return post(subscription.endpoint, encrypted(subscription, content), headers)


def encrypted(subscription: PushSubscription, content: bytes) -> bytes:
    """Return a message as only the subscription's browser reads it."""
    sealed: bytes = http_ece.encrypt(
        content,
        private_key=ec.generate_private_key(ec.SECP256R1()),
        dh=decoded(subscription.p256dh),
        auth_secret=decoded(subscription.auth),
        version="aes128gcm",
    )
    return sealed


def key_is_one(p256dh: str, auth: str) -> bool:
    """Return whether messages can be encrypted with these keys of a browser."""
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), decoded(p256dh))
        return len(decoded(auth)) == 16
    except (Base64Error, ValueError):
        return False


def decoded(text: str) -> bytes:
    """Return what a text in base64url stands for. Raises ValueError."""
    return urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))


def _claims(endpoint: str) -> dict[str, object]:
    service, own = urlsplit(endpoint), settings.TALLYBOARD.own_url
    return {
        "aud": f"{service.scheme}://{service.netloc}",
        "exp": int(time.time()) + TOKEN_S,
        "sub": own if own.startswith("https:") else f"mailto:{settings.TALLYBOARD.smtp_from}",
    }


def _vapid() -> Vapid02:
    return _vapid_of(settings.TALLYBOARD)


@lru_cache(maxsize=2)
def _vapid_of(tallyboard: Settings) -> Vapid02:
    """Return the configured key, else that of the data directory, made at the first call."""
    given, kept = tallyboard.push_key, tallyboard.data_dir / FILE
    pem = given.get_secret_value() if given else kept_text(kept, _new_key)
    vapid = Vapid02.from_pem(pem.encode())
    vapid.conf = {"no-strict": True}  # else it refuses names of one part
    return vapid


def _new_key() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _encoded(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")
