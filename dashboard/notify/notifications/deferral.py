"""Deferral of messages whose receiver cannot be reached: a channel that is switched off, a rota in
which nobody is on call, a receiver that failed for a day.

Once it can be reached, it is told what still goes on, in the words of then, and what has ended if
it knows of the begin. This holds the lock of the rules, whose messages replace deferred ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import NAMESPACE_OID, uuid5

import msgspec
from django.db import transaction
from django.db.models import Q

from dashboard.core.common.sql import lock_until_commit
from dashboard.core.common.times import Clock, now_ms
from dashboard.core.states import models
from dashboard.core.states.queries import listed
from dashboard.notify.notifications import texts
from dashboard.notify.notifications.decisions import OVER_BEFORE, RULE_OFF, read_rule
from dashboard.notify.notifications.models import (
    GIVEN_UP,
    MAX_REASON,
    NOT_SENT,
    WAITED,
    Group,
    Message,
    MessageQuerySet,
)
from dashboard.notify.notifications.on_call import (
    NOBODY,
    RETIRED,
    SWITCHED_OFF,
    UNREACHED_REASONS,
    GroupMessage,
    reach,
    thread_of,
)
from dashboard.notify.notifications.outbox import (
    DEFERRED_MS,
    DELIVERED,
    MessageDraft,
    Recipient,
    defer,
    only_one,
    put,
)
from domain.notifications.deferral import is_past, why_waiting
from domain.notifications.group import OPENED, SUMMARY, group_from_plain
from domain.notifications.group import Group as GroupState
from domain.notifications.machine import Send
from domain.notifications.rule import Rule as RuleValue
from domain.notifications.rule import Stage

PORTION = 200
"""Messages that are considered in one transaction."""
UNNAMED = "its rule names its receiver no longer"


def carry_deferred(clock: Clock = now_ms) -> bool:
    """Defer what has lost its receiver, and send what has one again. Return whether there is
    more."""
    now = clock()
    due = Message.objects.deferred().filter(next_at__lte=now)
    if not (due.exists() or _lost(now).exists()):
        return False
    with transaction.atomic():
        lock_until_commit("notifications", "rules")
        for row in _lost(now).select_related("channel")[:PORTION]:
            defer_lost(row, now)
        rows = list(
            due.select_related("rule", "group__rule").order_by("created_at", "pk")[:PORTION]
        )
        for row in rows:
            _read(row, now).settle()
    return len(rows) == PORTION


def _lost(now: int) -> MessageQuerySet:
    """Return the messages that no worker holds and whose channel is switched off, or whose user,
    reached through a rota, is disabled."""
    gone = Q(channel__enabled=False) | Q(user__is_active=False, rota__isnull=False)
    return Message.objects.addressed().filter(gone, lease_until__lte=now)


def defer_lost(row: Message, now: int) -> None:
    """Defer a message that has lost its receiver, or end it if nobody awaits it; one that a worker
    has claimed meanwhile is left to it."""
    rows = Message.objects.addressed().filter(pk=row.pk, lease_until__lte=now)
    why = UNREACHED_REASONS[SWITCHED_OFF if row.channel else NOBODY]
    is_awaited = row.group_id is not None or bool(row.occasion)
    n = rows.await_receiver(why, now) if is_awaited else rows.end_open(NOT_SENT, why, now)
    models.add_counts({(DELIVERED, why): n})


def defer_parts(summary: Message, why: str, now: int) -> None:
    """Defer what a summary that is given up stands for, as nobody was told of it; what is about no
    group is given up with it. Its own alarm was about all of it, so these raise none."""
    if summary.kind != SUMMARY:
        return
    for group in _groups_of(summary):
        _defer_group(summary, group, why, now)
    parts = summary.parts()
    summaries = list(parts.filter(kind=SUMMARY).select_related("rule", "channel"))
    parts.exclude(group=None).await_receiver(why, now, ended_at=None, unreached_at=now)
    parts.update(status=GIVEN_UP, reason=why[:MAX_REASON], unreached_at=now)
    for part in summaries:
        defer_parts(part, why, now)


def _groups_of(summary: Message) -> Iterable[Group]:
    """Return the groups that a rule's summary tells its recipient of, and that go on."""
    if summary.rule is None:
        return ()
    groups = summary.rule.groups.open().filter(stage__gt=summary.stage or 0)
    return groups.filter(token__in=listed(texts.groups_in(summary.text)))


def _defer_group(summary: Message, group: Group, why: str, now: int) -> None:
    """Defer a message about a group for the recipient of a summary, as of when that was written:
    what was sent since says it. It has one occasion, whichever way the summary went."""
    members = group_from_plain(msgspec.json.decode(group.state)).notified_members()
    draft = MessageDraft(
        OPENED,
        texts.subject_of(OPENED, members),
        summary.text,
        only_one(member.scenario for member in members),
        why=summary.why,
        rule=summary.rule,
        group=group,
        stage=summary.stage,
        occasion=str(uuid5(NAMESPACE_OID, f"{summary.occasion} {group.token}")),
    )
    receiver = Recipient("", summary.recipient, summary.channel, summary.rota)
    defer(receiver, draft, why, summary.created_at, alarmed_at=now)


def _read(row: Message, now: int) -> DeferredMessage:
    return DeferredGroupMessage(row, row.group, now) if row.group else DeferredMessage(row, now)


class DeferredMessage:
    """A deferred message, to be sent, to be looked at again, or to be ended."""

    def __init__(self, row: Message, now: int) -> None:
        self.row, self.now = row, now
        self.receiver = (row.channel_id, row.rota_id)

    def settle(self) -> None:
        """Send it if its receiver can be reached and it still matters."""
        targets, missed = self._targets()
        never = self.why_never()
        if never or missed == RETIRED:
            self._end(never or UNREACHED_REASONS[missed])
        elif waits := UNREACHED_REASONS.get(missed) or self.why_waiting():
            self._look_again(waits)
        elif self._end(WAITED):
            self.put(targets)

    def why_never(self) -> str:
        """Return why it is not sent any more, or ""."""
        return ""

    def why_waiting(self) -> str:
        """Return for what it waits though its receiver can be reached, or ""."""
        return ""

    def put(self, targets: list[Recipient]) -> None:
        """Put it into the outbox as it is, with the messages that it stands for."""
        self.row.parts().update(ended_at=self.now)
        for target in targets:
            put(target, self._copy(target), self.now)

    def _targets(self) -> tuple[list[Recipient], str]:
        """Return whom it reaches now, if possible the recipient that it had, or why nobody."""
        channel, rota = self.receiver
        stage = Stage(0, (channel,) if channel else (), (rota,) if rota else ())
        reached = reach([(0, stage)], self.now)
        targets = [target for _, target in reached.targets]
        same = [target for target in targets if target.recipient == self.row.recipient]
        return same or targets, next((why for *_, why in reached.missed), "")

    def _copy(self, target: Recipient) -> MessageDraft:
        row = self.row
        return MessageDraft(
            row.kind,
            row.subject,
            row.text,
            row.scenario,
            row.html if target.means == "mail" else "",
            payload=row.payload,
            why=row.why,
            rule=row.rule,
            group=row.group,
            stage=row.stage,
            thread=thread_of(row.group, target) if row.group else row.thread,
            occasion=row.occasion,
        )

    def _look_again(self, why: str) -> None:
        """Look at it again later. why: it waits."""
        rows = Message.objects.deferred().filter(pk=self.row.pk)
        rows.update(reason=why, next_at=self.now + DEFERRED_MS)

    def _end(self, why: str) -> bool:
        """End it, and return whether nobody else has."""
        status = GIVEN_UP if self.row.tries else NOT_SENT
        rows = Message.objects.deferred().filter(pk=self.row.pk)
        return rows.end_open(status, why, self.now) == 1


class DeferredGroupMessage(DeferredMessage):
    """A deferred message about a group: what goes on is told in the words of now."""

    def __init__(self, row: Message, group: Group, now: int) -> None:
        super().__init__(row, now)
        self.group, self.rule = group, group.rule
        self.value, self.stage = read_rule(group.rule), row.stage or 0
        plain = msgspec.json.decode(group.state)
        self.state = None if group.closed_at else group_from_plain(plain)

    def why_never(self) -> str:
        """Return why it is not sent any more, or ""."""
        if self.rule.retired_at is not None:
            return RULE_OFF
        if is_past(self.state, self.row.kind) or not self._is_known():
            return OVER_BEFORE
        return "" if self.value is None or self._is_named(self.value) else UNNAMED

    def why_waiting(self) -> str:
        """Return for what it waits though its receiver can be reached, or ""."""
        if self.value is None:
            return self.row.reason
        is_off = not self.rule.enabled
        return why_waiting(self.value, self.state, self.row.kind, self.now, paused=is_off)

    def put(self, targets: list[Recipient]) -> None:
        """Put it into the outbox, in the words of now if its group goes on, unless a later message
        says it."""
        if self._is_said(targets):
            return
        if self.value is None or self.state is None:
            super().put(targets)
            return
        send = self._send_of(self.state)
        message = GroupMessage(self.rule, self.value, self.group, send, self.now, self.row.occasion)
        for target in targets:
            message.put(self.stage, target)

    def _send_of(self, state: GroupState) -> Send:
        """Return what there is to say of its group."""
        members = tuple(state.notified_members())
        return Send(state.key, state.opened_at, self.row.kind, (), members)

    def _is_known(self) -> bool:
        """Return whether its group goes on, or its receiver knows of it."""
        return self.state is not None or self.group.is_known_to(*self.receiver)

    def _is_named(self, value: RuleValue) -> bool:
        """Return whether its stage still names its receiver."""
        channel, rota = self.receiver
        stages = value.stages[self.stage : self.stage + 1]
        return any(channel in stage.channels or rota in stage.rotas for stage in stages)

    def _is_said(self, targets: list[Recipient]) -> bool:
        """Return whether a later message about its group says it."""
        later = self.group.messages.filter(created_at__gt=self.row.created_at)
        return later.told().filter(recipient__in=[each.recipient for each in targets]).exists()
