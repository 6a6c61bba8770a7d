"""Runs of scheduled tasks that notify: whether a rule reports them or holds them back, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from domain.notifications.machine import LIMIT, MAINTENANCE, OUTSIDE, QUIET
from domain.notifications.rule import Rule, reaches
from domain.scenario import Scenario

Run = TypeVar("Run")


class NoticeHold(NamedTuple):
    """Why a run is not reported. until: when it is considered again, Unix ms; None: never."""

    reason: str
    until: int | None = None


def hold_of(
    rule: Rule, scenario: Scenario, state: str, at: int, now: int, *, muted: bool
) -> NoticeHold | None:
    """Return why a rule does not report, at `now`, a run at `at` (Unix ms), or None if it may.

    state: the asset's state at the run; muted: whether a maintenance window covered it.
    """
    if rule.hours is not None and not rule.hours.contain(at):
        return NoticeHold(OUTSIDE)
    if muted:
        return NoticeHold(MAINTENANCE)
    quiet = rule.quiet
    if quiet is None or not quiet.hours.contain(now):
        return None
    exempt = quiet.exempt and reaches(scenario, state, quiet.exempt)
    return None if exempt else NoticeHold(QUIET, quiet.hours.next_edge(now))


def within_limit(
    rule: Rule, runs: Sequence[Run], recent: Sequence[int], now: int
) -> tuple[list[list[Run]], NoticeHold | None]:
    """Return the runs that each message reports, and why all of them wait if there is no message.

    recent: times of the rule's messages, in order. If there are too many runs, the last message
    reports several.
    """
    recent = [at for at in recent if at > now - rule.per_ms]
    room = rule.most - len(recent)
    if room <= 0:
        return [], NoticeHold(LIMIT, recent[0] + rule.per_ms)
    if len(runs) <= room:
        return [[run] for run in runs], None
    return [*([run] for run in runs[: room - 1]), list(runs[room - 1 :])], None
