"""Push messages to the browsers that a user has subscribed."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import http_ece
import structlog
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.urls import reverse
from py_vapid import Vapid02, VapidException

from config.settings import Settings, kept_text
from dashboard.core.common.access import Limit
from dashboard.core.common.outbound import (
    AddressRefused,
    OutboundUnreachable,
    ResponseExcerpt,
    post,
)
from dashboard.core.common.tables import Column, Table
from dashboard.core.common.times import now_ms
from dashboard.core.states.board_rows import asset_path
from dashboard.notify.notifications.channels import ChannelKind, Undelivered
from dashboard.notify.notifications.models import MAX_AGENT, Message, PushSubscription
from dashboard.notify.notifications.outbox import BUTTON_LABELS, reply_urls
from dashboard.watch.incidents.models import Incident
from domain.notifications.group import TASK

# ---- subscriptions -------------------------------------------------------------------------------
# Users' subscriptions: created by their browsers; removed by users, or when a push service says so.

MOST = 20
"""Most browsers per user."""
LIMIT = Limit("push", 30)
TABLE = Table(
    "", "Browser", "Since", "Last reached", Column("Failures in a row", numeric=True),
    Column.unseen("Remove"),
)  # fmt: skip


class TooManyBrowsers(ValueError):
    """The user has as many subscriptions as allowed."""


class Subscribed(NamedTuple):
    """A stored subscription, and its former user: None if it is new or was the same user's."""

    row: PushSubscription
    former: User | None


@transaction.atomic
def subscribe(
    user: User, endpoint: str, p256dh: str, auth: str, agent: str, now: int
) -> Subscribed:
    """Store a browser's subscription, which then belongs to the user, and return it.

    Raises TooManyBrowsers and TooMany.
    """
    LIMIT.take(user.pk, now)
    if PushSubscription.objects.filter(user=user).exclude(endpoint=endpoint).count() >= MOST:
        raise TooManyBrowsers(f"At most {MOST} browsers: remove one first.")
    known = PushSubscription.objects.select_for_update().filter(endpoint=endpoint)
    before = known.exclude(user=user).first()
    former = before.user if before else None
    row, _ = PushSubscription.objects.update_or_create(
        endpoint=endpoint,
        defaults={
            "user": user,
            "p256dh": p256dh,
            "auth": auth,
            "agent": agent[:MAX_AGENT],
            "failures": 0,
            "created_at": now,
            "reached_at": None,
        },
    )
    return Subscribed(row, former)


# ---- push ----------------------------------------------------------------------------------------
# One push message to one browser: encrypted for it (RFC 8291), signed by us (RFC 8292).
#
# This uses `http_ece` for the encryption and `py_vapid` for the token, as `pywebpush` does. That
# package is not used because it would also send the message, to whatever address a subscription
# names.

FILE = "push-key.pem"
KEEP_S = 4 * 3600
"""How long a push service stores a message for an offline browser, s."""
TOKEN_S = 12 * 3600
"""How long a token is valid, s; RFC 8292 allows a day."""
MOST_BYTES = 3_000
"""Largest message in bytes: services accept 4,096 after encryption."""


def public_key() -> str:
    """Return the public key with which browsers subscribe, in base64url."""
    raw = _vapid().public_key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return _encoded(raw)


def send(subscription: PushSubscription, content: bytes, topic: str) -> ResponseExcerpt:
    """Send a message of at most MOST_BYTES, and return the push service's answer.

    topic: a later message with the same topic replaces one that still waits at the service; at most
    32 characters of base64url. Raises OutboundUnreachable; AddressRefused in particular.
    """
    try:
        token = _vapid().sign(_claims(subscription.endpoint))
    except VapidException as error:
        raise AddressRefused(str(error)) from None
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
    """Return a message encrypted so that only the subscription's browser can read it."""
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
    """Return the bytes encoded by a text in base64url. Raises ValueError."""
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
    """Return the configured key, or the one in the data directory, which is created on demand."""
    given, kept = tallyboard.push_key, tallyboard.data_dir / FILE
    pem = given.get_secret_value() if given else kept_text(kept, _new_key)
    vapid = Vapid02.from_pem(pem.encode())
    vapid.conf = {"no-strict": True}  # otherwise it refuses host names of one part
    return vapid


def _new_key() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _encoded(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


# ---- kind ----------------------------------------------------------------------------------------
# Push messages as a kind of channel: to all browsers that a user has subscribed.

log = structlog.get_logger(__name__)

GONE = (404, 410)
"""Statuses by which a push service says that a subscription no longer exists."""
LONGEST_TITLE, LONGEST_BODY = 120, 400
"""Most characters of a notification; browsers show fewer."""


class PushKind(ChannelKind):
    """Reaches a user's browsers; it is enough if one of them accepts the message."""

    name = "push"
    label = "Browser"

    def recipient_of(self, user: User) -> str:
        """Return the user's name; empty if the user has not subscribed any browser."""
        return user.get_username() if PushSubscription.objects.of_user(user).exists() else ""

    def deliver(self, message: Message) -> str:
        """Send a message to each of the user's browsers, and return how many accepted it.

        Raises Undelivered if none did.
        """
        rows = list(PushSubscription.objects.of_user(message.user)) if message.user else []
        if not rows:
            raise Undelivered("the user has no browser subscribed", final=True)
        content, topic = as_notification(message), message.id.hex
        answers = [_deliver(row, content, topic) for row in rows]
        accepted = answers.count("")
        if not accepted:
            gone = all(answer.startswith("gone") for answer in answers)
            raise Undelivered("; ".join(dict.fromkeys(answers)), final=gone)
        return f"accepted for {accepted} of {len(rows)} browsers"


def as_notification(message: Message) -> bytes:
    """Return the JSON for the service worker: title, body, tag and address."""
    shown: dict[str, Any] = {
        "title": message.subject[:LONGEST_TITLE],
        "body": message.text[:LONGEST_BODY],
        "tag": message.thread or str(message.id),
        "url": page_of(message),
    }
    if actions := _actions(message):
        shown["actions"] = actions
    content = json.dumps(shown, ensure_ascii=False).encode()
    return content if len(content) <= MOST_BYTES else json.dumps(shown | {"body": ""}).encode()


def _actions(message: Message) -> list[dict[str, str]]:
    """Return the buttons of a notification that has links to answer it: title and path of each."""
    user, incidents = message.user, message.payload.get("incidents", [])
    if user is None or all(each["over_at"] is not None for each in incidents):
        return []
    links = reply_urls(message.id, user).items()
    return [
        {"action": act, "title": BUTTON_LABELS[act], "url": urlsplit(at).path} for act, at in links
    ]


def page_of(message: Message) -> str:
    """Return the path of a message's subject: its incident, its group, or all incidents.

    For a scheduled task it is the asset, for several tasks their list.
    """
    if message.kind == TASK:
        tasks = message.payload["tasks"]
        several = reverse("schedules:schedules")
        return several if len(tasks) > 1 else asset_path(tasks[0]["scenario"], tasks[0]["asset"])
    group = message.group
    if group is None:
        return reverse("incidents:incidents")
    members = list(group.members.all()[:2])
    if len(members) == 1:
        [member] = members
        incident = Incident.objects.filter(
            scenario=member.scenario, asset=member.asset, place=member.place
        ).first()
        if incident:
            return incident.get_absolute_url()
    return reverse("notifications:acknowledge", args=[group.token])


def _deliver(row: PushSubscription, content: bytes, topic: str) -> str:
    """Send a message to one browser. Return why it was not accepted; empty if it was."""
    try:
        answer = send(row, content, topic)
    except OutboundUnreachable as why:
        row.record_failed()
        return str(why)
    if answer.status in GONE:
        row.delete()
        log.info("a browser's subscription is gone", user=row.user_id, status=answer.status)
        return f"gone ({answer.status})"
    if 200 <= answer.status < 300:
        row.record_reached(now_ms())
        return ""
    row.record_failed()
    return _in_words(answer)


def _in_words(answer: ResponseExcerpt) -> str:
    text = " ".join(answer.text.split())[:100]
    return f"{answer.status} {text}".strip()
