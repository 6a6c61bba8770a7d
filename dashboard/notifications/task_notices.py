"""Runs of scheduled tasks that notify are shown to the rules, which tell of them.

One transaction, as with incidents: a worker that is killed in it has done nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from django.db import transaction
from django.db.models import QuerySet

from dashboard.checkpoints import counts
from dashboard.core.scenarios import scenarios
from dashboard.core.sql import lock_until_commit
from dashboard.core.times import Clock, now_ms
from dashboard.labels.queries import labels_of
from dashboard.notifications.decisions import DECIDED, RULE_OFF, active_rules, read_rule
from dashboard.notifications.happenings import REPLAYED, UNKNOWN, Assets, Maintenance
from dashboard.notifications.ingestion import is_late
from dashboard.notifications.models import Rule, TaskNotice
from dashboard.notifications.task_messages import store_held, store_told, store_unwanted
from domain.notifications.group import TASK
from domain.notifications.rule import Rule as RuleValue
from domain.notifications.task_run import Hold, hold_of, within_limit

PORTION = 500
"""Runs that are shown to the rules in one transaction."""
TOLD, NO_RULE = "told", "no rule"
OUTCOMES = {
    TOLD: "a rule has sent a message",
    NO_RULE: "no rule tells of the scheduled tasks of this asset",
}
"""What came of a run; else why it was not told, as of incidents."""


class Conflict(Exception):
    """Another worker has decided on a run meanwhile."""


def decide_notices(clock: Clock = now_ms) -> bool:
    """Show the rules a portion of the runs that are due. Returns whether there is more."""
    now = clock()
    if not _due(now).exists():
        return False
    with transaction.atomic():
        lock_until_commit("notifications", "rules")
        rows = list(_due(now).order_by("due_at", "id")[:PORTION])
        _Turn(rows, now).take()
    return len(rows) == PORTION


def _due(now: int) -> QuerySet[TaskNotice]:
    return TaskNotice.objects.filter(due_at__lte=now)


@dataclass
class _Run:
    """A run that is shown to the rules. held: why messages of rules wait, by the rules' numbers;
    until: when these are looked at again; outcome: so far."""

    row: TaskNotice
    labels: dict[str, str]
    held: dict[str, str] = field(default_factory=dict)
    until: list[int] = field(default_factory=list)
    outcome: str = ""

    def concerns(self, rule: Rule, value: RuleValue) -> bool:
        """Return whether a rule is to look at it: the first time all, then those that wait."""
        if self.row.held:
            return str(rule.pk) in self.row.held
        return value.tells_task(self.row.scenario, self.labels)

    def hold(self, rule: Rule, why: Hold, now: int) -> bool:
        """Note why a rule does not tell of it, or not yet. Returns whether that is new."""
        is_new = bool(self.row.held.get(str(rule.pk)) != why.reason)
        if why.until is None:
            self.outcome = self.outcome or why.reason
        else:
            self.held[str(rule.pk)] = why.reason
            self.until.append(why.until)
        if is_new:
            store_held(rule, self.row, why.reason, now)
        return is_new

    def store(self) -> None:
        """Store what came of it. Raises Conflict where another worker has."""
        same = TaskNotice.objects.filter(
            pk=self.row.pk, due_at=self.row.due_at, outcome=self.row.outcome
        )
        due = min(self.until, default=None)
        if same.update(due_at=due, held=self.held, outcome=self.outcome) != 1:
            raise Conflict(str(self.row))


class _Turn:
    """A look of all rules at some runs."""

    def __init__(self, rows: Sequence[TaskNotice], now: int) -> None:
        assets: Assets = {}
        for row in rows:
            assets.setdefault(row.scenario, set()).add(row.asset)
        labels = {name: labels_of(name, names) for name, names in assets.items()}
        begin = min((row.at for row in rows), default=now)
        end = max((row.at for row in rows), default=now)
        self.now = now
        self.maintenance = Maintenance(assets, begin, end + 1)
        self.counts: Counter[tuple[str, str]] = Counter()
        self.runs = [
            _Run(row, labels[row.scenario].get(row.asset, {}), outcome=row.outcome) for row in rows
        ]

    def take(self) -> None:
        """Show the runs to the rules, and store what they do and what came of each run."""
        runs = [run for run in self.runs if self._is_shown(run)]
        for rule in active_rules():
            if value := read_rule(rule):
                self._show(rule, value, [run for run in runs if run.concerns(rule, value)])
        for run in self.runs:
            self._settle(run)
            run.store()
        counts.add(self.counts)

    def _is_shown(self, run: _Run) -> bool:
        """Return whether the rules see a run; where they do not, note the outcome."""
        if run.row.scenario not in scenarios():
            run.outcome = run.outcome or UNKNOWN
        elif is_late(run.row.at, run.row.recorded_at):
            run.outcome = REPLAYED
        else:
            return True
        self.counts[DECIDED, run.outcome] += 1
        return False

    def _show(self, rule: Rule, value: RuleValue, runs: Iterable[_Run]) -> None:
        """Store a rule's messages about runs, and which of them it holds back."""
        ready = [run for run in runs if not self._is_held(rule, value, run)]
        if not ready:
            return
        parts, limit = within_limit(value, ready, rule.recent, self.now)
        for part in parts:
            self._tell(rule, value, part)
        for run in ready if limit else ():
            self._hold(rule, run, limit)
        if parts:
            kept = [at for at in rule.recent if at > self.now - value.per_ms]
            Rule.objects.filter(pk=rule.pk).update(recent=[*kept, *[self.now] * len(parts)])

    def _is_held(self, rule: Rule, value: RuleValue, run: _Run) -> bool:
        row = run.row
        muted = self.maintenance.holds(row.scenario, row.asset, row.at)
        scenario = scenarios()[row.scenario]
        why = hold_of(value, scenario, row.state, row.at, self.now, muted=muted)
        self._hold(rule, run, why)
        return why is not None

    def _hold(self, rule: Rule, run: _Run, why: Hold | None) -> None:
        if why is not None and run.hold(rule, why, self.now):
            self.counts[DECIDED, why.reason] += 1

    def _tell(self, rule: Rule, value: RuleValue, runs: Sequence[_Run]) -> None:
        nobody = store_told(rule, value, [run.row for run in runs], self.now)
        self.counts[DECIDED, TASK] += 1
        for run in runs:
            run.outcome = (run.outcome or nobody) if nobody else TOLD

    def _settle(self, run: _Run) -> None:
        """Note the outcome of a run that no rule wants."""
        if run.outcome or run.held:
            return
        run.outcome = RULE_OFF if run.row.held else NO_RULE
        self.counts[DECIDED, run.outcome] += 1
        if run.outcome == NO_RULE:
            store_unwanted(run.row, OUTCOMES[NO_RULE], self.now)
