"""What a rule sends, as messages in the outbox: one to each whom its stages reach."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from dashboard.core.times import duration, utc
from dashboard.notifications import texts
from dashboard.notifications.models import (
    MAX_REASON,
    MAX_SUBJECT,
    NOT_SENT,
    Group,
    Message,
    Rule,
)
from dashboard.notifications.on_call import REASONS as MISSED
from dashboard.notifications.on_call import reach
from dashboard.notifications.outbox import Draft, Target, only_one, put
from domain.notifications.group import SUMMARY
from domain.notifications.machine import REASONS, Hold, Send, Summary
from domain.notifications.rule import Rule as RuleValue
from domain.notifications.rule import Stage

_THREADS = uuid.UUID("0d5b4f0e-5b0a-4a37-8f43-0f1d3a5a7c11")
"""Namespace of the names of conversations."""


def store_send(rule: Rule, value: RuleValue, group: Group, send: Send, now: int) -> None:
    """Put a message about a group into the outbox, to all whom its stages reach."""
    url, send = texts.group_url(group.token), texts.worst_first(send)
    scenario = only_one(member.scenario for member in send.members)
    reached = reach(_stages(value, send.stages), now)
    for stage, target in reached.targets:
        why = why_sent(rule, value, stage, target)
        draft = Draft(
            kind=send.kind,
            scenario=scenario,
            subject=texts.subject(send),
            text=texts.as_text(send, why, url),
            html=texts.as_html(send, why, url) if target.means == "mail" else "",
            payload=texts.payload(send, rule.name, url),
            why=why,
            rule=rule,
            group=group,
            stage=stage,
            thread=_thread(group, target),
        )
        put(target, draft, now)
    for stage, name, reason in reached.missed:
        missed = Draft(send.kind, texts.subject(send), "", scenario, stage=stage)
        store_none(rule, group, missed, name, MISSED[reason], now)


def store_summary(
    rule: Rule, value: RuleValue, groups: Sequence[Group], summary: Summary, now: int
) -> None:
    """Put one message in place of several into the outbox, to all whom any of them would reach."""
    stages = sorted({stage for part in summary.parts for stage in part.stages})
    subject = f"{texts.summary_subject(summary)}: {rule.name}"
    lines = [
        f"- {texts.subject(part)}: {texts.group_url(group.token)}"
        for group, part in zip(groups, summary.parts, strict=True)
    ]
    limit = f"The rule sends at most {value.most} messages in {duration(value.per_ms)}."
    scenario = only_one(member.scenario for part in summary.parts for member in part.members)
    reached = reach(_stages(value, stages), now)
    for stage, target in reached.targets:
        why = why_sent(rule, value, stage, target)
        text = "\n".join([subject, "", *lines, "", limit, why]) + "\n"
        draft = Draft(
            SUMMARY, subject, text, scenario, payload=_plain(rule, groups, summary), why=why,
            rule=rule, stage=stage,
        )  # fmt: skip
        put(target, draft, now)
    for stage, name, reason in reached.missed:
        missed = Draft(SUMMARY, subject, "", scenario, stage=stage)
        store_none(rule, None, missed, name, MISSED[reason], now)


def store_hold(rule: Rule, group: Group, hold: Hold, now: int) -> None:
    """Store that a message about a group is not sent now, and why."""
    scenario = only_one(member.scenario for member in hold.members)
    subject = texts.subject_of(hold.kind, hold.members) or rule.name
    reason = f"{REASONS[hold.reason]}, until {utc(hold.until)}; what it tells goes out then"
    store_none(rule, group, Draft(hold.kind, subject, "", scenario), "", reason, now)


def _stages(value: RuleValue, numbers: Iterable[int]) -> list[tuple[int, Stage]]:
    """Return these stages with their numbers, those that the rule has by now."""
    return [(number, value.stages[number]) for number in numbers if number < len(value.stages)]


def why_sent(rule: Rule, value: RuleValue, stage: int, target: Target) -> str:
    """Return what had a message sent, in words."""
    through = f", on call in {target.rota.name}" if target.rota else ""
    return f"Rule {rule.name}, stage {stage + 1} of {len(value.stages)}{through}."


def _thread(group: Group, target: Target) -> str:
    """Return the name of the conversation with a recipient about a group."""
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
    draft: Draft,
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
        why=f"Rule {rule.name}."[:MAX_REASON],
        rule=rule,
        group=group,
        stage=draft.stage,
        recipient=to,
        subject=draft.subject[:MAX_SUBJECT],
        created_at=now,
        ended_at=now,
    )
