"""The outbox: messages are stored first, and the worker delivers them from there."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Count, Min
from django.urls import reverse

from dashboard.core.accounts.encryption import SEALED, NoKey, seal, unseal
from dashboard.core.common.metrics import (
    MESSAGE_OUTCOMES,
    MESSAGES,
    MESSAGES_OLDEST,
    NOTIFICATION_DECISIONS,
    MetricFamily,
)
from dashboard.core.common.times import DAY_MS, HOUR_MS, now_ms
from dashboard.core.states.models import EventCount
from dashboard.notify.notifications.channels import CHANNELS
from dashboard.notify.notifications.models import (
    HELD,
    MAX_REASON,
    MAX_RECIPIENT,
    MAX_SUBJECT,
    Channel,
    Group,
    Message,
    Rota,
    Rule,
)

DECIDED, DELIVERED = "notification", "message"
"""Names of the counts of the rules' decisions, and of the results of deliveries."""


DEFERRED_MS = 30_000
"""How often to check whether the receiver of a deferred message can be reached."""


class Recipient(NamedTuple):
    """Whom to reach: by which kind of channel, at which address, and through what."""

    means: str
    recipient: str
    channel: Channel | None = None
    rota: Rota | None = None
    user: User | None = None


@dataclass(frozen=True)
class MessageDraft:
    """A message before it is stored. Its fields are those of `Message`."""

    kind: str
    subject: str
    text: str
    scenario: str = ""
    html: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    payload: dict[str, Any] = field(default_factory=dict)
    why: str = ""
    rule: Rule | None = None
    group: Group | None = None
    stage: int | None = None
    thread: str = ""
    occasion: str = ""
    id: uuid.UUID | None = None


def targets_of_channel(channel: Channel) -> list[Recipient]:
    """Return the recipients of a channel."""
    kind = CHANNELS[channel.kind]
    return [Recipient(channel.kind, each, channel) for each in kind.recipients(channel)]


def targets_of_named(name: str | None) -> list[Recipient]:
    """Return the recipients of the named channel; none if it does not exist or is disabled."""
    channel = Channel.objects.in_use().filter(name=name, enabled=True).first()
    return targets_of_channel(channel) if name and channel else []


def targets_of_user(user: User, kinds: Iterable[str], rota: Rota | None = None) -> list[Recipient]:
    """Return a user's addresses for these kinds of channel; kinds without one are left out."""
    known = [name for name in kinds if name in CHANNELS]
    reached = [(name, CHANNELS[name].recipient_of(user)) for name in known]
    return [Recipient(name, address, rota=rota, user=user) for name, address in reached if address]


def only_one(scenarios: Iterable[str]) -> str:
    """Return the scenario if there is exactly one; empty if there are several, or none."""
    names = set(scenarios)
    return names.pop() if len(names) == 1 else ""


def put(target: Recipient, draft: MessageDraft, now: int, *, dedupe: str = "") -> Message:
    """Store a message to be sent, within the caller's transaction if there is one, and return it.

    dedupe: a key; if a message with this key exists, that one is returned and no other is stored.
    The first message of a conversation gets the conversation's id.
    """
    row = _row(target, draft, now, dedupe)
    row.id = draft.id or new_id(draft.thread)
    Message.objects.bulk_create([row], ignore_conflicts=True)
    return Message.objects.get(dedupe=dedupe) if dedupe else row


def defer(
    target: Recipient, draft: MessageDraft, reason: str, now: int, alarmed_at: int | None = None
) -> None:
    """Store a message whose receiver cannot be reached. target: its name, without means;
    alarmed_at: when there was an alarm, if another message has raised it."""
    row = _row(target, draft, now, "")
    row.unreached_at = alarmed_at
    row.status, row.reason, row.next_at = HELD, reason[:MAX_REASON], now + DEFERRED_MS
    row.save(force_insert=True)


def new_id(thread: str) -> uuid.UUID:
    """Return the id of a new message: the first of a conversation has the conversation's."""
    if thread and not Message.objects.filter(pk=thread).exists():
        return uuid.UUID(thread)
    return uuid.uuid4()


def new_occasion() -> str:
    """Return a name for what one decision of a rule sends."""
    return str(uuid.uuid4())


def _row(target: Recipient, draft: MessageDraft, now: int, dedupe: str) -> Message:
    return Message(
        kind=draft.kind,
        scenario=draft.scenario,
        why=draft.why[:MAX_REASON],
        rule=draft.rule,
        group=draft.group,
        stage=draft.stage,
        channel=target.channel,
        rota=target.rota,
        user=target.user,
        means=target.means,
        recipient=target.recipient[:MAX_RECIPIENT],
        subject=" ".join(draft.subject.split())[:MAX_SUBJECT],
        text=draft.text,
        html=draft.html,
        headers=draft.headers,
        payload=draft.payload,
        thread=draft.thread,
        occasion=draft.occasion,
        dedupe=dedupe or None,
        created_at=now,
        next_at=now,
    )


# ---- replies -------------------------------------------------------------------------------------
# Links by which the recipient of a message answers it without a login.

ACKNOWLEDGE, SNOOZE = "acknowledge", "snooze"
REPLIES = {
    ACKNOWLEDGE: "Acknowledge until the end of my shift",
    SNOOZE: "Snooze for 1 hour",
}
"""What the links of a message do. Snoozing is acknowledging for so long: then it begins again."""
BUTTON_LABELS = {ACKNOWLEDGE: "Acknowledge", SNOOZE: "Snooze 1 h"}
"""The same in short, for buttons."""
SNOOZED_MS = HOUR_MS
SNOOZED = "Snoozed"
"""The reason of an acknowledgement that is a snooze."""
REPLY_MS = DAY_MS
"""How long the links of a message can be used."""


class ReplyExpired(Exception):
    """The link is too old."""


class MessageReply(NamedTuple):
    """What the recipient of a message asks for by one of its links."""

    message: Message
    user: User
    act: str


def reply_urls(message: uuid.UUID, user: User) -> dict[str, str]:
    """Return the links by which a user answers a message, by act.

    They are encrypted and signed with the key of secrets, as all processes share it.
    """
    until = now_ms() + REPLY_MS
    sealed = {act: seal(json.dumps(["reply", message.hex, user.pk, act, until])) for act in REPLIES}
    base = settings.TALLYBOARD.own_url
    return {act: f"{base}{reverse('notifications:reply', args=[n])}" for act, n in sealed.items()}


def read_reply(token: str) -> MessageReply | None:
    """Return what a link asks for, None if it is none of ours or its message is gone.

    Raises ReplyExpired.
    """
    if not token.startswith(SEALED):
        return None
    try:
        label, name, pk, act, until = json.loads(unseal(token))
    except (NoKey, TypeError, ValueError):
        return None
    if label != "reply":
        return None
    if until < now_ms():
        raise ReplyExpired
    row = Message.objects.filter(pk=uuid.UUID(name), user=pk).select_related("user").first()
    return MessageReply(row, row.user, act) if row and row.user else None


# ---- metrics -------------------------------------------------------------------------------------


def metrics() -> Iterator[MetricFamily]:
    """Yield the metrics of the rules' decisions and of messages."""
    for name, metric in (
        (DECIDED, NOTIFICATION_DECISIONS),
        (DELIVERED, MESSAGE_OUTCOMES),
    ):
        counted = EventCount.objects.filter(name=name).values_list("topic", "n").order_by("topic")
        yield metric.family(((topic,), n) for topic, n in counted)
    stored = Message.objects.values_list("means", "status").annotate(n=Count("pk"))
    yield MESSAGES.family(
        ((means, status), n) for means, status, n in stored.order_by("means", "status")
    )
    oldest = Message.objects.addressed().aggregate(at=Min("created_at"))["at"]
    waited = 0 if oldest is None else max(0, now_ms() - oldest) / 1000
    yield MESSAGES_OLDEST.family([((), waited)])
