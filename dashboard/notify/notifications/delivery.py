"""Delivery of the messages in the outbox.

A worker claims a message by a conditional update and holds it under a lease. If it is killed after
the receiver has accepted the message, but before that is stored, the next worker sends it again:
the message then arrives twice, with the same id.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Sequence
from threading import Lock, Thread
from typing import NamedTuple

import structlog
from django.db import connection, transaction
from django.db.models import F, QuerySet

from dashboard.core.common.sql import lock_until_commit
from dashboard.core.common.times import HOUR_MS, Clock, duration, now_ms
from dashboard.core.states import models
from dashboard.core.states.queries import listed
from dashboard.notify.notifications import texts
from dashboard.notify.notifications.channels import CHANNELS, Obstacle, Undelivered
from dashboard.notify.notifications.deferral import defer_parts
from dashboard.notify.notifications.models import (
    FAILED,
    GIVEN_UP,
    HELD,
    LIMITED,
    MAX_ANSWER,
    MAX_REASON,
    MERGED,
    NOT_SENT,
    OPEN,
    SENDING,
    SENT,
    Attempt,
    Channel,
    Message,
    MessageQuerySet,
)
from dashboard.notify.notifications.outbox import (
    DELIVERED,
    MessageDraft,
    Recipient,
    new_occasion,
    only_one,
    put,
    targets_of_channel,
)
from domain.notifications.group import RESOLVED, SUMMARY

log = structlog.get_logger(__name__)

PORTION = 50
"""Messages that are considered together."""
TURN_S = 10.0
"""How long a receiver's messages are delivered before they are looked at anew, s."""
MOST_AT_ONCE, MOST_RESTED = 64, 32
"""Deliveries under way at most, and those among them to channels that did not answer last."""
LEASE_MS = 60_000
"""How long a worker may hold a message before it loses it: longer than any attempt."""
FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 5_000, 10 * 60_000
"""Pauses before the retry of a failed message: each is twice the one before."""
GIVE_UP_MS = 24 * HOUR_MS
"""How long a message is retried before it is given up."""
HELD_MS = 30_000
"""How often to check whether a held message can be sent."""

EXPIRED = "every attempt failed for a day"


class Receiver(NamedTuple):
    """Whose messages are delivered one after the other: a channel, or a user by some means."""

    channel: int | None
    means: str
    recipient: str

    def messages(self) -> MessageQuerySet:
        """Return its messages, the oldest first."""
        rows = Message.objects.filter(channel=self.channel).order_by("created_at", "pk")
        if self.channel is not None:
            return rows
        return rows.filter(means=self.means, recipient=self.recipient)


def receivers_to_try(now: int) -> list[Receiver]:
    """Return who has messages that are due at a time (Unix ms); those that answered last first."""
    rows = Message.objects.due(now).order_by()
    columns = ("channel_id", "channel__rests", "means", "recipient")
    found = {
        Receiver(channel, "", "") if channel else Receiver(None, means, recipient): rests or 0
        for channel, rests, means, recipient in rows.values_list(*columns).distinct()
    }
    return sorted(found, key=lambda receiver: (found[receiver], str(receiver)))


def deliver_to(receiver: Receiver, clock: Clock = now_ms) -> bool:
    """Deliver what is due to a receiver, in order, for TURN_S at most, until it does not answer.

    Return whether there is more.
    """
    end = time.monotonic() + TURN_S
    while True:
        now = clock()
        due = receiver.messages().due(now).select_related("channel", "user")[:PORTION]
        ready = _within_limits(list(due), now)
        if not ready:
            return False
        for message in ready:
            if time.monotonic() >= end:
                return True
            if not DeliveryAttempt(message, clock).carry_out():
                return False


class Deliveries:
    """Deliveries to several receivers side by side, each in a thread that ends with the process.

    Whoever does not answer holds up nobody else, nor the rules. At most MOST_AT_ONCE run, of which
    MOST_RESTED are to channels that did not answer last.
    """

    def __init__(self, clock: Clock = now_ms) -> None:
        self.clock = clock
        self._lock = Lock()
        self._running: set[Receiver] = set()

    def start(self) -> bool:
        """Start what is due and not under way. Return False: there is nothing to wait for."""
        now = self.clock()
        rested = set(Channel.objects.exclude(rests=0).values_list("pk", flat=True))
        for receiver in receivers_to_try(now):
            if self._begin(receiver, rested):
                self._start_thread(receiver)
        return False

    def _start_thread(self, receiver: Receiver) -> None:
        try:
            Thread(target=self._run, args=(receiver,), daemon=True).start()
        except RuntimeError:  # the system has no room for another one
            self._end(receiver)
            raise

    def _begin(self, receiver: Receiver, rested: Collection[int]) -> bool:
        """Reserve a receiver, unless it is under way or there is no room."""
        with self._lock:
            slow = sum(each.channel in rested for each in self._running)
            full = len(self._running) >= MOST_AT_ONCE
            if full or receiver in self._running:
                return False
            if receiver.channel in rested and slow >= MOST_RESTED:
                return False
            self._running.add(receiver)
            return True

    def _run(self, receiver: Receiver) -> None:
        try:
            while deliver_to(receiver, self.clock):
                pass
        except Exception:
            log.exception("messages could not be delivered", receiver=str(receiver))
        finally:
            connection.close()
            self._end(receiver)

    def _end(self, receiver: Receiver) -> None:
        with self._lock:
            self._running.discard(receiver)


# ---- limits of channels -----------------------------------------------------------------------


def _within_limits(due: Sequence[Message], now: int) -> list[Message]:
    """Return the messages that their channels may send now. Others are held or merged into one."""
    of_channel: dict[int | None, list[Message]] = {}
    for message in due:
        of_channel.setdefault(message.channel_id, []).append(message)
    ready = of_channel.pop(None, [])
    for messages in of_channel.values():
        channel = messages[0].channel
        assert channel is not None
        ready += _of_channel(channel, messages, now)
    return ready


def _of_channel(channel: Channel, messages: list[Message], now: int) -> list[Message]:
    if not channel.is_on:
        return []  # they are deferred
    sent = channel.sent_in_window(now)
    room = channel.most - sent.count()
    if len(messages) <= room:
        return messages
    if room <= 0:
        first = sent.order_by("ended_at").values_list("ended_at", flat=True).first() or now
        _hold(messages, LIMITED, first + channel.window_ms + 1)
        return []
    return [*messages[: room - 1], *_merged(channel, messages[room - 1 :], now)]


def _hold(messages: Sequence[Message], reason: str, until: int) -> None:
    rows = Message.objects.open().filter(pk__in=[each.pk for each in messages])
    if newly := rows.exclude(status=HELD, reason=reason).count():
        models.add_counts({(DELIVERED, reason): newly})
    rows.update(status=HELD, reason=reason[:MAX_REASON], next_at=until)


def _end(messages: Sequence[Message], status: str, reason: str, now: int) -> None:
    rows = Message.objects.filter(pk__in=[each.pk for each in messages])
    ended = rows.end_open(status, reason, now)
    models.add_counts({(DELIVERED, reason): ended})


def _merged(channel: Channel, messages: Sequence[Message], now: int) -> list[Message]:
    """Replace these messages by one for each recipient, and return the new ones."""
    to: dict[str, list[Message]] = {}
    for message in messages:
        to.setdefault(message.recipient, []).append(message)
    with transaction.atomic():
        merged = [_summary(channel, recipient, rows, now) for recipient, rows in to.items()]
        _end(messages, NOT_SENT, MERGED, now)
    return merged


def _summary(channel: Channel, recipient: str, messages: Sequence[Message], now: int) -> Message:
    subject = f"{len(messages)} messages in one"
    lines = [f"- {message.subject}" for message in messages]
    why = f"{channel.name} sends at most {channel.most} messages in {duration(channel.window_ms)}."
    text = "\n".join([subject, "", *lines, "", why]) + "\n"
    plain = {"kind": SUMMARY, "messages": [message.payload for message in messages]}
    scenario = only_one(message.scenario for message in messages)
    occasion = new_occasion() if any(map(_is_awaited, messages)) else ""
    draft = MessageDraft(
        SUMMARY, subject, text, scenario, payload=plain, why=why, occasion=occasion
    )
    return put(Recipient(channel.kind, recipient, channel), draft, now)


def _is_awaited(message: Message) -> bool:
    """Return whether there is an alarm if a message reaches nobody."""
    return bool(message.occasion) and message.kind != RESOLVED


# ---- one message ------------------------------------------------------------------------------


class DeliveryAttempt:
    """One attempt to deliver one message."""

    def __init__(self, message: Message, clock: Clock = now_ms) -> None:
        self.message, self.clock = message, clock
        self.lease = str(uuid.uuid4())

    def carry_out(self) -> bool:
        """Claim the message, try to deliver it, and store the result.

        Return whether the receiver's next message may be tried: it answered, or another worker has
        claimed this one.
        """
        if not self.claim():
            return True
        begun = time.monotonic()
        try:
            answer = CHANNELS[self.message.means].deliver(self.message)
        except Obstacle as obstacle:
            self._store_held(str(obstacle))
            return False
        except Undelivered as failure:
            self._store_failed(failure, _ms_since(begun))
            return not failure.unreachable
        except KeyError:
            why = f"unknown kind of channel {self.message.means}"
            self._store_failed(Undelivered(why, final=True), 0)
            return True
        except Exception as error:
            log.exception("a message could not be tried", message=str(self.message.pk))
            self._store_failed(Undelivered(f"{type(error).__name__}: {error}"), _ms_since(begun))
            return True
        self._store_sent(answer, _ms_since(begun))
        return True

    def claim(self) -> bool:
        """Claim the message for an attempt, unless another worker has. Return whether it did."""
        now = self.clock()
        rows = Message.objects.free(now).filter(pk=self.message.pk)
        with transaction.atomic():
            claimed = rows.update(
                status=SENDING, lease=self.lease, lease_until=now + LEASE_MS, tries=F("tries") + 1
            )
            if claimed != 1:
                return False
            self.message.refresh_from_db(fields=["tries", "status"])
            Attempt.objects.create(message=self.message, number=self.message.tries, at=now)
        return True

    def _store_sent(self, answer: str, ms: int) -> None:
        now = self.clock()
        with transaction.atomic():
            self._update(status=SENT, reason="", ended_at=now)
            self._attempt().update(succeeded=True, answer=answer[:MAX_ANSWER], ms=ms)
            if self.message.channel is not None:
                self.message.channel.end_rest()
            models.add_counts({(DELIVERED, "sent"): 1})

    def _store_held(self, why: str) -> None:
        """Store that nothing was tried because nothing could be."""
        with transaction.atomic():
            self._attempt().delete()
            until = self.clock() + HELD_MS
            held = Message.objects.filter(pk=self.message.pk, reason=why[:MAX_REASON]).exists()
            self._update(status=HELD, reason=why[:MAX_REASON], next_at=until, tries=F("tries") - 1)
            models.add_counts({(DELIVERED, why[:MAX_REASON]): 0 if held else 1})

    def _store_failed(self, failure: Undelivered, ms: int) -> None:
        now, tries, why = self.clock(), self.message.tries, str(failure)
        over = failure.final or now - self.message.created_at >= GIVE_UP_MS
        until = now + max(_pause(tries), failure.retry_after_ms or 0)
        channel = self.message.channel
        with transaction.atomic():
            if over:
                self._give_up(why if failure.final else f"{EXPIRED}: {why}", failure, now)
            elif failure.unreachable and channel is not None:
                until = now + max(_pause(channel.rests + 1), failure.retry_after_ms or 0)
                self._update(status=FAILED, reason=why[:MAX_REASON], next_at=now)
                channel.rest(why, until)
            else:
                self._update(status=FAILED, reason=why[:MAX_REASON], next_at=until)
            self._attempt().update(answer=why[:MAX_ANSWER], ms=ms)
            models.add_counts({(DELIVERED, "given up" if over else "failed"): 1})

    def _give_up(self, why: str, failure: Undelivered, now: int) -> None:
        """Give the message up; one about a group is deferred unless a retry would fail too, and so
        are those that a summary stands for."""
        if not failure.final and self.message.group_id is not None:
            self._held().await_receiver(why, now)
            return
        ended = self._update(status=GIVEN_UP, reason=why[:MAX_REASON], ended_at=now)
        if ended and not failure.final:
            defer_parts(self.message, why, now)

    def _held(self) -> MessageQuerySet:
        """Return the message if this worker still holds it."""
        return Message.objects.filter(pk=self.message.pk, lease=self.lease)

    def _update(self, **fields: object) -> bool:
        """Update the message if this worker still holds it. Return whether it does."""
        return self._held().update(lease="", lease_until=0, **fields) == 1

    def _attempt(self) -> QuerySet[Attempt]:
        return Attempt.objects.filter(message=self.message, number=self.message.tries)


def _pause(failures: int) -> int:
    """Return how long to wait after so many failures in a row, ms."""
    return min(FIRST_PAUSE_MS << min(failures - 1, 20), LONGEST_PAUSE_MS)


def _ms_since(begun: float) -> int:
    return round((time.monotonic() - begun) * 1000)


# ---- nobody reached ------------------------------------------------------------------------------
# What a rule sends and nobody gets is an alarm of its own, to the channels of last resort. Alarms
# belong to no occasion, so that none is raised about another.

UNREACHED = "unreached"
"""The kind of these alarms."""
REACH_MS = 150_000
"""How long recipients are tried before they count as not reached, ms: some five tries."""
NO_LAST_RESORT = "no channel of last resort is left to try"
LOOK_BACK_MS = GIVE_UP_MS + HOUR_MS
"""How far back such messages are looked for, ms: longer than any is tried."""
MOST_LISTED = 20
"""Most messages that an alarm lists."""


def alarm(clock: Clock = now_ms) -> bool:
    """Alarm the channels of last resort of what has reached nobody. Return False: that was all."""
    now = clock()
    if Message.objects.without_reader(now - LOOK_BACK_MS).exists():
        with transaction.atomic():
            lock_until_commit("notifications", "unreached")
            if lost := _lost_occasions(now):
                _store_alarm(lost, now)
    return False


def _lost_occasions(now: int) -> list[list[Message]]:
    """Return the messages of each occasion that has reached nobody, the oldest occasion first."""
    names = Message.objects.without_reader(now - LOOK_BACK_MS).values_list("occasion", flat=True)
    occasions: dict[str, list[Message]] = {}
    rows = Message.objects.filter(occasion__in=listed(set(names))).select_related("rule", "group")
    rows = rows.defer("html", "text", "payload")
    for row in rows.order_by("created_at", "stage", "pk"):
        occasions.setdefault(row.occasion, []).append(row)
    return [rows for rows in occasions.values() if all(_is_lost(row, now) for row in rows)]


def _is_lost(row: Message, now: int) -> bool:
    """Return whether a message has not reached its recipient; one that a limit holds back waits."""
    if row.status in OPEN and row.means:
        return now - row.created_at >= REACH_MS and row.reason != LIMITED
    return row.status != SENT and row.reason != MERGED


def _store_alarm(lost: Sequence[list[Message]], now: int) -> None:
    """Put one alarm about these occasions into the outbox for each channel of last resort, and
    mark their messages."""
    draft, resorts = _alarm_draft(lost), list(Channel.objects.last_resorts())
    failed = {(row.means, row.recipient) for rows in lost for row in rows}
    targets = [
        target
        for channel in resorts
        if channel.kind in CHANNELS
        for target in targets_of_channel(channel)
        if target[:2] not in failed
    ]
    for target in targets:
        put(target, draft, now)
    if resorts and not targets:
        row = put(Recipient("", ""), draft, now)
        _end([row], NOT_SENT, NO_LAST_RESORT, now)
    Message.objects.filter(pk__in=[row.pk for rows in lost for row in rows]).update(
        unreached_at=now
    )
    models.add_counts({(DELIVERED, "nobody reached"): len(lost)})


def _alarm_draft(lost: Sequence[list[Message]]) -> MessageDraft:
    what = lost[0][0].subject if len(lost) == 1 else f"{len(lost)} messages"
    subject = f"Nobody was reached: {what}"
    lines = [line for rows in lost[:MOST_LISTED] for line in _lost_lines(rows)]
    if len(lost) > MOST_LISTED:
        lines.append(f"- and {len(lost) - MOST_LISTED} more")
    why = "Sent to the channels of last resort, as a message reached nobody."
    plain = {"kind": UNREACHED, "messages": [str(rows[0].pk) for rows in lost]}
    scenario = only_one(row.scenario for rows in lost for row in rows)
    text = "\n".join([subject, "", *lines, "", why]) + "\n"
    return MessageDraft(UNREACHED, subject, text, scenario, payload=plain, why=why)


def _lost_lines(rows: Sequence[Message]) -> list[str]:
    """Return what was to be sent, whom it did not reach and why, and where it is acknowledged."""
    first = rows[0]
    rule = f" (rule {first.rule.name})" if first.rule else ""
    tried = [f"  {row.recipient or 'nobody'}: {row.reason or row.status}" for row in rows]
    link = [f"  {texts.group_url(first.group.token)}"] if first.group else []
    return [f"- {first.subject}{rule}", *tried[:MOST_LISTED], *link]
