"""Messages about scheduled tasks that notified, to whom the first stage of a rule reaches."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from django.conf import settings

from dashboard.core.scenarios import scenarios
from dashboard.core.times import utc
from dashboard.notifications.models import MAX_REASON, MAX_SUBJECT, NOT_SENT, Message, Rule
from dashboard.notifications.models import TaskNotice as Notice
from dashboard.notifications.on_call import NO_ADDRESS, reach
from dashboard.notifications.on_call import REASONS as MISSED
from dashboard.notifications.outbox import Draft, Target, only_one, put
from dashboard.notifications.rule_messages import store_none, why_sent
from dashboard.notifications.texts import LONGEST_NAME, MOST_IN_PAYLOAD, MOST_LISTED
from dashboard.states.board_rows import asset_path
from domain.notifications.group import TASK
from domain.notifications.machine import REASONS
from domain.notifications.rule import Rule as RuleValue
from domain.tasks import RULE_OWNER

_NAMES = uuid.UUID("5a0f7c0e-66d3-4c8e-9a5e-6f2f7f8f3c54")
"""Namespace of the names of conversations, and of targets in keys."""


def store_told(rule: Rule, value: RuleValue, notices: Sequence[Notice], now: int) -> str:
    """Put a message about these runs into the outbox, to all whom the first stage reaches. Returns
    why it reaches nobody, empty where it does."""
    scenario = only_one(notice.scenario for notice in notices)
    reached = reach([(0, value.stages[0])], now)
    for stage, target in reached.targets:
        why = why_sent(rule, value, stage, target)
        draft = Draft(
            kind=TASK,
            scenario=scenario,
            subject=subject(notices),
            text=as_text(notices, why),
            payload=payload(notices, rule.name),
            why=why,
            rule=rule,
            stage=stage,
            thread=_thread(rule, notices[0], target),
        )
        put(target, draft, now, dedupe=_key(rule, notices[0], target))
    for stage, name, reason in reached.missed:
        draft = Draft(TASK, subject(notices), "", scenario, stage=stage)
        store_none(rule, None, draft, name, MISSED[reason], now)
    missed = next((reason for *_, reason in reached.missed), NO_ADDRESS)
    return "" if reached.targets else missed


def store_held(rule: Rule, notice: Notice, reason: str, now: int) -> None:
    """Store that a rule does not tell of a run, or not yet, and why."""
    draft = Draft(TASK, subject([notice]), "", notice.scenario)
    store_none(rule, None, draft, "", REASONS[reason], now)


def store_unwanted(notice: Notice, why: str, now: int) -> None:
    """Store that no rule tells of a run, and why."""
    Message.objects.create(
        kind=TASK,
        scenario=notice.scenario,
        status=NOT_SENT,
        reason=why[:MAX_REASON],
        subject=subject([notice])[:MAX_SUBJECT],
        text=as_text([notice], ""),
        payload=payload([notice], ""),
        created_at=now,
        ended_at=now,
    )


def _thread(rule: Rule, notice: Notice, target: Target) -> str:
    """Return the name of the conversation with a recipient about a task."""
    what = f"{rule.pk} {notice.scenario} {notice.asset} {notice.task}"
    return str(uuid.uuid5(_NAMES, f"{what} {target.means} {target.recipient}"))


def _key(rule: Rule, notice: Notice, target: Target) -> str:
    whom = f"{notice.scenario} {notice.asset} {target.means} {target.recipient}"
    return f"task:{notice.place}:{rule.pk}:{uuid.uuid5(_NAMES, whom)}"


# ---- what it says -----------------------------------------------------------------------------


def subject(notices: Sequence[Notice]) -> str:
    """Return runs in a line."""
    if len(notices) > 1:
        assets = ", ".join(notice.asset[:LONGEST_NAME] for notice in notices[:MOST_LISTED])
        return f"{len(notices)} scheduled tasks have notified: {assets}"
    [notice] = notices
    whose = "Scheduled task" if notice.owner == RULE_OWNER else f"Task of {notice.owner}"
    return f"{whose}: {notice.asset[:LONGEST_NAME]} {_is_so(notice)}"


def _is_so(notice: Notice) -> str:
    known = scenarios().get(notice.scenario)
    state = known.spec(notice.state).label.lower() if known else notice.state
    still = "still " if notice.condition and notice.condition == notice.state else ""
    return f"is {still}{state or 'unknown'}"


def as_text(notices: Sequence[Notice], why: str) -> str:
    """Return a message about runs as plain text."""
    lines = [subject(notices), ""]
    for notice in notices[:MOST_LISTED]:
        lines += [f"- {_line(notice)}", f"  {asset_url(notice)}"]
    if len(notices) > MOST_LISTED:
        lines.append(f"- and {len(notices) - MOST_LISTED} more")
    return "\n".join([*lines, "", why]).rstrip() + "\n"


def _line(notice: Notice) -> str:
    title = known.title if (known := scenarios().get(notice.scenario)) else notice.scenario
    reason = f": {notice.reason}" if notice.reason else ""
    return f"{notice.asset} ({title}) {_is_so(notice)}, {utc(notice.at)}{reason}"


def asset_url(notice: Notice) -> str:
    """Return the address of the asset's page."""
    return f"{settings.TALLYBOARD.own_url}{asset_path(notice.scenario, notice.asset)}"


def payload(notices: Sequence[Notice], rule: str) -> dict[str, Any]:
    """Return a message about runs as JSON-able data for a program. Times in Unix ms."""
    return {
        "kind": TASK,
        "rule": rule,
        "tasks": [_plain(notice) for notice in notices[:MOST_IN_PAYLOAD]],
        "more": max(0, len(notices) - MOST_IN_PAYLOAD),
    }


def _plain(notice: Notice) -> dict[str, Any]:
    return {
        "task": str(notice.task),
        "scenario": notice.scenario,
        "asset": notice.asset,
        "place": notice.place,
        "state": notice.state,
        "owner": notice.owner,
        "reason": notice.reason,
        "at": notice.at,
        "url": asset_url(notice),
    }
