"""Runs of scheduled tasks that notify: applying the rules to them, and their messages."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings
from django.db import transaction

from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.sql import lock_until_commit
from dashboard.core.common.times import Clock, now_ms, utc
from dashboard.core.states import models
from dashboard.core.states.board_rows import asset_path
from dashboard.notify.notifications.decisions import (
    REPLAYED,
    RULE_OFF,
    UNKNOWN,
    Assets,
    Holds,
    read_rule,
    traits_of,
)
from dashboard.notify.notifications.ingestion import is_late
from dashboard.notify.notifications.models import (
    MAX_REASON,
    MAX_SUBJECT,
    NOT_SENT,
    WAITED,
    Message,
    Rule,
    TaskNotice,
)
from dashboard.notify.notifications.models import TaskNotice as Notice
from dashboard.notify.notifications.on_call import (
    NO_ADDRESS,
    reach,
    store_none,
    store_waiting,
    waits_for,
    why_of,
    why_sent,
)
from dashboard.notify.notifications.on_call import UNREACHED_REASONS as MISSED
from dashboard.notify.notifications.outbox import (
    DECIDED,
    MessageDraft,
    Recipient,
    new_occasion,
    only_one,
    put,
)
from dashboard.notify.notifications.texts import LONGEST_NAME, MOST_IN_PAYLOAD, MOST_LISTED
from domain.notifications.group import TASK
from domain.notifications.machine import MAINTENANCE, REASONS
from domain.notifications.rule import Rule as RuleValue
from domain.notifications.task_run import NoticeHold, hold_of, within_limit
from domain.tasks import RULE_OWNER

# ---- task messages -------------------------------------------------------------------------------
# Messages about scheduled tasks that notify, to those whom the first stage of a rule reaches.

_NAMES = uuid.UUID("5a0f7c0e-66d3-4c8e-9a5e-6f2f7f8f3c54")
"""Namespace of the ids of conversations, and of the recipients in keys."""


def store_message(rule: Rule, value: RuleValue, notices: Sequence[Notice], now: int) -> str:
    """Put a message about these runs into the outbox for everybody the first stage reaches.

    Return why it reaches nobody, or an empty string.
    """
    scenario = only_one(notice.scenario for notice in notices)
    reached, occasion = reach([(0, value.stages[0])], now), new_occasion()
    for stage, target in reached.targets:
        why = why_sent(rule, value, stage, target)
        draft = MessageDraft(
            kind=TASK,
            scenario=scenario,
            subject=subject(notices),
            text=as_text(notices, why),
            payload=payload(notices, rule.name),
            why=why,
            rule=rule,
            stage=stage,
            occasion=occasion,
            thread=_thread(rule, notices[0], target),
        )
        put(target, draft, now, dedupe=_key(rule, notices[0], target))
    for stage, target, reason in reached.missed:
        draft = MessageDraft(TASK, subject(notices), "", scenario, stage=stage, occasion=occasion)
        store_none(rule, None, draft, target.recipient, MISSED[reason], now)
    missed = next((reason for *_, reason in reached.missed), NO_ADDRESS)
    return "" if reached.targets else missed


def store_held(rule: Rule, notice: Notice, why: NoticeHold, now: int) -> None:
    """Store that a rule does not report a run, or not yet, and why."""
    draft = MessageDraft(TASK, subject([notice]), "", notice.scenario)
    if why.until is None:
        store_none(rule, None, draft, "", REASONS[why.reason], now)
    else:
        words = waits_for(why.reason, why.until)
        draft = replace(draft, text=as_text([notice], why_of(rule)))
        store_waiting(rule, draft, _waits(notice, rule.pk), words, now)


def _waits(notice: Notice, rule: int | str) -> str:
    """Return the key of what a rule, by its number, would report of a run, and waits."""
    return f"waits:{notice.pk}:{rule}"


def store_unreported(notice: Notice, why: str, now: int) -> None:
    """Store that no rule reports a run, and why."""
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


def _thread(rule: Rule, notice: Notice, target: Recipient) -> str:
    """Return the id of the conversation with a recipient about a task."""
    what = f"{rule.pk} {notice.scenario} {notice.asset} {notice.task}"
    return str(uuid.uuid5(_NAMES, f"{what} {target.means} {target.recipient}"))


def _key(rule: Rule, notice: Notice, target: Recipient) -> str:
    whom = f"{notice.scenario} {notice.asset} {target.means} {target.recipient}"
    return f"task:{notice.place}:{rule.pk}:{uuid.uuid5(_NAMES, whom)}"


# ---- what it says -----------------------------------------------------------------------------


def subject(notices: Sequence[Notice]) -> str:
    """Return the subject of a message about runs."""
    if len(notices) > 1:
        assets = ", ".join(notice.asset[:LONGEST_NAME] for notice in notices[:MOST_LISTED])
        return f"{len(notices)} scheduled tasks: {assets}"
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
    """Return a message about runs as JSON-able data for programs. Times in Unix ms."""
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


# ---- task notices --------------------------------------------------------------------------------
# The rules are applied to runs of scheduled tasks that notify.
#
# This is one transaction, as for incidents: a worker killed in the middle has done nothing.

PORTION = 500
"""Runs to which the rules are applied in one transaction."""
SENT, NO_RULE = "told", "no rule"
OUTCOMES = {
    SENT: "a rule has sent a message",
    NO_RULE: "no rule covers the scheduled tasks of this asset",
}
"""Outcomes of a run; the reasons for not reporting it are the same as for incidents."""


class Conflict(Exception):
    """Another worker has decided on a run meanwhile."""


def decide_notices(clock: Clock = now_ms) -> bool:
    """Apply the rules to a portion of the runs that are due. Return whether there may be more."""
    now = clock()
    if not Notice.objects.due(now).exists():
        return False
    with transaction.atomic():
        lock_until_commit("notifications", "rules")
        rows = list(Notice.objects.due(now).order_by("due_at", "id")[:PORTION])
        _Turn(rows, now).take()
    return len(rows) == PORTION


@dataclass
class _Run:
    """A run to which the rules are applied. held: why rules hold their messages back, by number of
    the rule; until: when to look at these again, Unix ms; outcome: the outcome so far."""

    row: TaskNotice
    labels: dict[str, str]
    held: dict[str, str] = field(default_factory=dict)
    until: list[int] = field(default_factory=list)
    outcome: str = ""

    def concerns(self, rule: Rule, value: RuleValue) -> bool:
        """Return whether a rule applies: first any that covers it, later only those that wait."""
        if self.row.held:
            return str(rule.pk) in self.row.held
        return value.covers_task(self.row.scenario, self.labels)

    def hold(self, rule: Rule, why: NoticeHold, now: int) -> bool:
        """Record why a rule does not report the run, or not yet. Return whether that is new."""
        is_new = bool(self.row.held.get(str(rule.pk)) != why.reason)
        if why.until is None:
            self.outcome = self.outcome or why.reason
        else:
            self.held[str(rule.pk)] = why.reason
            self.until.append(why.until)
        if is_new:
            store_held(rule, self.row, why, now)
        return is_new

    def store(self, now: int) -> None:
        """Store the outcome, and end the wait of what waits no more.

        Raises Conflict if another worker has stored an outcome.
        """
        same = TaskNotice.objects.filter(
            pk=self.row.pk, due_at=self.row.due_at, outcome=self.row.outcome
        )
        due = min(self.until, default=None)
        if same.update(due_at=due, held=self.held, outcome=self.outcome) != 1:
            raise Conflict(str(self.row))
        waited = [_waits(self.row, rule) for rule in self.row.held if rule not in self.held]
        if waited:
            what = self.outcome if self.outcome == RULE_OFF else WAITED
            Message.objects.filter(dedupe__in=waited).end_waiting(what, now)


class _Turn:
    """One application of all rules to some runs."""

    def __init__(self, rows: Sequence[TaskNotice], now: int) -> None:
        assets: Assets = {}
        for row in rows:
            assets.setdefault(row.scenario, set()).add(row.asset)
        labels = {name: traits_of(name, names) for name, names in assets.items()}
        begin = min((row.at for row in rows), default=now)
        end = max((row.at for row in rows), default=now)
        self.now = now
        self.holds = Holds(assets, begin, end + 1)
        self.counts: Counter[tuple[str, str]] = Counter()
        self.runs = [
            _Run(row, labels[row.scenario].get(row.asset, {}), outcome=row.outcome) for row in rows
        ]

    def take(self) -> None:
        """Apply the rules, and store their messages and the outcome of each run."""
        runs = [run for run in self.runs if self._is_shown(run)]
        for rule in Rule.objects.in_force():
            if value := read_rule(rule):
                self._show(rule, value, [run for run in runs if run.concerns(rule, value)])
        for run in self.runs:
            self._settle(run)
            run.store(self.now)
        models.add_counts(self.counts)

    def _is_shown(self, run: _Run) -> bool:
        """Return whether the rules apply to a run; otherwise record its outcome."""
        if run.row.scenario not in scenarios():
            run.outcome = run.outcome or UNKNOWN
        elif is_late(run.row.at, run.row.recorded_at):
            run.outcome = REPLAYED
        else:
            return True
        self.counts[DECIDED, run.outcome] += 1
        return False

    def _show(self, rule: Rule, value: RuleValue, runs: Iterable[_Run]) -> None:
        """Store a rule's messages about runs, and which runs it holds back."""
        ready = [run for run in runs if not self._is_held(rule, value, run)]
        if not ready:
            return
        parts, limit = within_limit(value, ready, rule.recent, self.now)
        for part in parts:
            self._send(rule, value, part)
        for run in ready if limit else ():
            self._hold(rule, run, limit)
        if parts:
            kept = [at for at in rule.recent if at > self.now - value.per_ms]
            rule.record_recent([*kept, *[self.now] * len(parts)])

    def _is_held(self, rule: Rule, value: RuleValue, run: _Run) -> bool:
        row = run.row
        muted = self.holds.why(row.scenario, row.asset, row.at) == MAINTENANCE
        scenario = scenarios()[row.scenario]
        why = hold_of(value, scenario, row.state, row.at, self.now, muted=muted)
        self._hold(rule, run, why)
        return why is not None

    def _hold(self, rule: Rule, run: _Run, why: NoticeHold | None) -> None:
        if why is not None and run.hold(rule, why, self.now):
            self.counts[DECIDED, why.reason] += 1

    def _send(self, rule: Rule, value: RuleValue, runs: Sequence[_Run]) -> None:
        nobody = store_message(rule, value, [run.row for run in runs], self.now)
        self.counts[DECIDED, TASK] += 1
        for run in runs:
            run.outcome = (run.outcome or nobody) if nobody else SENT

    def _settle(self, run: _Run) -> None:
        """Record the outcome of a run that no rule reports or holds back."""
        if run.outcome or run.held:
            return
        run.outcome = RULE_OFF if run.row.held else NO_RULE
        self.counts[DECIDED, run.outcome] += 1
        if run.outcome == NO_RULE:
            store_unreported(run.row, OUTCOMES[NO_RULE], self.now)
