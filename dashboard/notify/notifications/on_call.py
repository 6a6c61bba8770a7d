"""Who is on call, whom the stages of a rule reach, and what is sent to them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from dashboard.core.common.times import duration, utc
from dashboard.notify.notifications import texts
from dashboard.notify.notifications.channels import CHANNELS
from dashboard.notify.notifications.models import (
    HELD,
    LIMITED,
    MAX_REASON,
    MAX_SUBJECT,
    NOT_SENT,
    WAITED,
    WAITING,
    Channel,
    Group,
    Message,
    MessageQuerySet,
    Rota,
    Rule,
)
from dashboard.notify.notifications.outbox import (
    MessageDraft,
    Recipient,
    defer,
    new_id,
    new_occasion,
    only_one,
    put,
    reply_urls,
    targets_of_channel,
    targets_of_user,
)
from domain.notifications.deferral import URGING
from domain.notifications.group import SUMMARY
from domain.notifications.machine import PAUSED, REASONS, Hold, Send, Summary
from domain.notifications.rule import Rule as RuleValue
from domain.notifications.rule import Stage

# ---- on call -------------------------------------------------------------------------------------
# Who is on call, and whom the stages of a rule reach through channels and rotas.

NOBODY, SWITCHED_OFF, NO_ADDRESS, RETIRED = (
    "nobody is on call", "switched off", "no address", "retired",
)  # fmt: skip
UNREACHED_REASONS = {
    NOBODY: "nobody is on call in the rota who is active",
    SWITCHED_OFF: "the channel is switched off",
    NO_ADDRESS: "who is on call has no address of the kinds that the rota uses",
    RETIRED: "the channel or the rota is retired, or of a kind that is unknown",
}
"""Why a stage reaches nobody through a channel or a rota. All but the last may pass."""


class Reached(NamedTuple):
    """Whom stages reach. targets: each recipient once, with the number of the first stage that
    reaches it; missed: stage and reason for each channel or rota that reaches nobody, which is
    given by its name and without means."""

    targets: list[tuple[int, Recipient]]
    missed: list[tuple[int, Recipient, str]]


def reach(stages: Iterable[tuple[int, Stage]], at: int) -> Reached:
    """Return whom these stages, given with their numbers, reach at a time (Unix ms)."""
    reached = Reached([], [])
    known: set[tuple[Any, ...]] = set()
    for number, stage in stages:
        for receiver, targets, why in (*_channels(stage), *_rotas(stage, at)):
            if why and receiver not in known:
                known.add(receiver)
                reached.missed.append((number, receiver, why))
            for target in targets:
                if (place := target[:2]) not in known:
                    known.add(place)
                    reached.targets.append((number, target))
    return reached


def _channels(stage: Stage) -> Iterator[tuple[Recipient, list[Recipient], str]]:
    rows = Channel.objects.in_bulk(stage.channels)
    for number in stage.channels:
        row = rows.get(number)
        receiver = Recipient("", row.name if row else f"channel {number}", row)
        if row is None or row.retired_at is not None or row.kind not in CHANNELS:
            yield receiver, [], RETIRED
        elif not row.enabled:
            yield receiver, [], SWITCHED_OFF
        else:
            yield receiver, targets_of_channel(row), ""


def _rotas(stage: Stage, at: int) -> Iterator[tuple[Recipient, list[Recipient], str]]:
    rows = Rota.objects.in_bulk(stage.rotas)
    for number in stage.rotas:
        row = rows.get(number)
        receiver = Recipient("", row.name if row else f"rota {number}", rota=row)
        if row is None or row.retired_at:
            yield receiver, [], RETIRED
            continue
        user = row.on_call(at)
        targets = targets_of_user(user, row.kinds, row) if user else []
        yield receiver, targets, "" if targets else NO_ADDRESS if user else NOBODY


# ---- rule messages -------------------------------------------------------------------------------
# What a rule sends, as messages in the outbox: one to each recipient of its stages.

_THREADS = uuid.UUID("0d5b4f0e-5b0a-4a37-8f43-0f1d3a5a7c11")
"""Namespace of the ids of conversations."""
OVER_UNTOLD = "it began and ended while nobody could be told"
"""Why a message is not sent whose receiver knows nothing of what is over."""


def store_send(rule: Rule, value: RuleValue, group: Group, send: Send, now: int) -> None:
    """Put a message about a group into the outbox for every recipient of its stages."""
    reached = reach(_stages(value, send.stages), now)
    message = GroupMessage(rule, value, group, send, now)
    message.replace_held(reached)
    for stage, target in reached.targets:
        message.put(stage, target)
    for stage, receiver, reason in reached.missed:
        message.miss(stage, receiver, reason)


class GroupMessage:
    """A message about a group on its way to recipients. occasion: a new one unless given."""

    def __init__(
        self, rule: Rule, value: RuleValue, group: Group, send: Send, now: int, occasion: str = ""
    ) -> None:
        self.rule, self.value, self.group, self.now = rule, value, group, now
        self.send, self.url = texts.worst_first(send), texts.group_url(group.token)
        self.is_over = not any(member.active for member in send.members)
        self.occasion = occasion or new_occasion()
        self._untold: set[Receiver] = set()

    def replace_held(self, reached: Reached) -> None:
        """End what is held for these receivers: this message says it, or one that only urges them
        if that is all that this one does."""
        targets = [target for _, target in reached.targets]
        missed = [receiver for _, receiver, _ in reached.missed]
        held = self.group.messages.filter(status=HELD).exclude(reason=LIMITED)
        held = held.filter(kind__in=URGING) if self.send.kind in URGING else held
        waited = {(row.channel_id, row.rota_id) for row in held}
        for receiver in waited & set(map(_receiver, targets + missed)):
            self._replace(held, receiver)

    def _replace(self, held: MessageQuerySet, receiver: Receiver) -> None:
        channel, rota = receiver
        rows = list(held.filter(channel=channel, rota=rota))
        held.filter(channel=channel, rota=rota).end_open(NOT_SENT, WAITED, self.now)
        if self.is_over and not self.group.is_known_to(*receiver):
            self._untold.add(receiver)
            ended = Message.objects.filter(pk__in=[row.pk for row in rows], status=NOT_SENT)
            ended.update(reason=OVER_UNTOLD)

    def put(self, stage: int, target: Recipient) -> None:
        """Put it into the outbox for a recipient, unless it began and ended while held."""
        if _receiver(target) in self._untold:
            self._store_none(stage, target, OVER_UNTOLD)
        else:
            put(target, self._draft(stage, target), self.now)

    def miss(self, stage: int, receiver: Recipient, reason: str) -> None:
        """Defer it for a channel or rota that reaches nobody, unless that never needs it."""
        why, number = UNREACHED_REASONS[reason], _receiver(receiver)
        if number in self._untold:
            self._store_none(stage, receiver, OVER_UNTOLD)
        elif reason == RETIRED or (self.is_over and not self.group.is_known_to(*number)):
            self._store_none(stage, receiver, why)
        else:
            defer(receiver, self._draft(stage, receiver), why, self.now)

    def _draft(self, stage: int, target: Recipient) -> MessageDraft:
        send, url = self.send, self.url
        why = " ".join(filter(None, (why_sent(self.rule, self.value, stage, target), self._behind)))
        thread = thread_of(self.group, target) if target.means else ""
        number = new_id(thread)
        replies = _replies(send, number, target)
        as_mail = target.means in ("mail", "")
        return replace(
            self._heading(stage),
            id=number,
            text=texts.as_text(send, why, url, replies),
            html=texts.as_html(send, why, url, replies) if as_mail else "",
            payload=texts.payload(send, self.rule.name, url),
            why=why,
            thread=thread,
        )

    def _store_none(self, stage: int, target: Recipient, why: str) -> None:
        draft = self._heading(stage)
        store_none(self.rule, self.group, draft, target.recipient, why, self.now)

    def _heading(self, stage: int) -> MessageDraft:
        return MessageDraft(
            self.send.kind,
            texts.subject(self.send),
            "",
            only_one(member.scenario for member in self.send.members),
            rule=self.rule,
            group=self.group,
            stage=stage,
            occasion=self.occasion,
        )

    @cached_property
    def _behind(self) -> str:
        return texts.behind(self.send)


Receiver = tuple[int | None, int | None]
"""The numbers of a channel and of a rota, of which there is one."""


def _receiver(target: Recipient) -> Receiver:
    channel, rota = target.channel, target.rota
    return channel.pk if channel else None, rota.pk if rota else None


def _replies(send: Send, number: uuid.UUID, target: Recipient) -> dict[str, str]:
    """Return the links by which a recipient who is a user answers a message about incidents."""
    can = any(member.active and not member.finding for member in send.members)
    return reply_urls(number, target.user) if can and target.user else {}


def store_summary(
    rule: Rule, value: RuleValue, groups: Sequence[Group], summary: Summary, now: int
) -> None:
    """Put one message that replaces several into the outbox, for every recipient of any of them."""
    stages = sorted({stage for part in summary.parts for stage in part.stages})
    subject = f"{texts.summary_subject(summary)}: {rule.name}"
    lines = [
        f"- {texts.subject(part)}: {texts.group_url(group.token)}"
        for group, part in zip(groups, summary.parts, strict=True)
    ]
    limit = f"The rule sends at most {value.most} messages in {duration(value.per_ms)}."
    scenario = only_one(member.scenario for part in summary.parts for member in part.members)
    reached, occasion = reach(_stages(value, stages), now), new_occasion()
    for stage, target in reached.targets:
        why = why_sent(rule, value, stage, target)
        text = "\n".join([subject, "", *lines, "", limit, why]) + "\n"
        draft = MessageDraft(
            SUMMARY, subject, text, scenario, payload=_plain(rule, groups, summary), why=why,
            rule=rule, stage=stage, occasion=occasion,
        )  # fmt: skip
        put(target, draft, now)
    for group, part in zip(groups, summary.parts, strict=True):
        message = GroupMessage(rule, value, group, part, now, occasion)
        message.replace_held(reached)
        for stage, receiver, reason in reached.missed:
            if stage in part.stages:
                message.miss(stage, receiver, reason)


def store_hold(rule: Rule, group: Group, hold: Hold, now: int) -> None:
    """Store that a message about a group waits, for what, until when, and the words that go out
    then."""
    send = texts.worst_first(Send(hold.key, hold.opened_at, hold.kind, (), hold.members))
    text = texts.as_text(send, why_of(rule), texts.group_url(group.token))
    scenario = only_one(member.scenario for member in hold.members)
    draft = MessageDraft(hold.kind, texts.subject(send), text, scenario, group=group)
    store_waiting(rule, draft, f"waits:{group.token}", waits_for(hold.reason, hold.until), now)


def waits_for(reason: str, until: int) -> str:
    """Return for what a message waits, and until when (Unix ms) if that is known, in words."""
    return REASONS[reason] if reason == PAUSED else f"{REASONS[reason]}, until {utc(until)}"


def store_waiting(rule: Rule, draft: MessageDraft, key: str, reason: str, now: int) -> None:
    """Store what a rule would send and that it waits, in place of what waited under the same key
    before."""
    fields = {
        "kind": draft.kind,
        "scenario": draft.scenario,
        "reason": reason[:MAX_REASON],
        "why": why_of(rule)[:MAX_REASON],
        "rule": rule,
        "group": draft.group,
        "status": WAITING,
        "subject": draft.subject[:MAX_SUBJECT],
        "text": draft.text,
    }
    first = fields | {"created_at": now}
    Message.objects.update_or_create(dedupe=key, defaults=fields, create_defaults=first)


def _stages(value: RuleValue, numbers: Iterable[int]) -> list[tuple[int, Stage]]:
    """Return the stages with these numbers, leaving out any that the rule no longer has."""
    return [(number, value.stages[number]) for number in numbers if number < len(value.stages)]


def why_of(rule: Rule) -> str:
    """Return which rule a message is of, in words."""
    return f"Rule {rule.name}."


def why_sent(rule: Rule, value: RuleValue, stage: int, target: Recipient) -> str:
    """Return why a message is sent, in words."""
    through = f", on call in {target.rota.name}" if target.rota else ""
    return f"Rule {rule.name}, stage {stage + 1} of {len(value.stages)}{through}."


def thread_of(group: Group, target: Recipient) -> str:
    """Return the id of the conversation with a recipient about a group."""
    return str(uuid.uuid5(_THREADS, f"{group.token} {target.means} {target.recipient}"))


def _plain(rule: Rule, groups: Sequence[Group], summary: Summary) -> dict[str, Any]:
    parts = zip(groups, summary.parts, strict=True)
    plain = [
        texts.payload(part, rule.name, texts.group_url(group.token))
        | {"incidents": [], "agents": []}
        for group, part in parts
    ]
    return {"kind": SUMMARY, "rule": rule.name, "groups": plain[: texts.MOST_IN_PAYLOAD]}


def store_none(
    rule: Rule,
    group: Group | None,
    draft: MessageDraft,
    to: str,
    reason: str,
    now: int,
) -> None:
    """Store the decision not to send a message. to: whom it would have reached."""
    Message.objects.create(
        kind=draft.kind,
        scenario=draft.scenario,
        status=NOT_SENT,
        reason=reason[:MAX_REASON],
        why=why_of(rule)[:MAX_REASON],
        rule=rule,
        group=group,
        stage=draft.stage,
        occasion=draft.occasion,
        recipient=to,
        subject=draft.subject[:MAX_SUBJECT],
        created_at=now,
        ended_at=now,
    )
