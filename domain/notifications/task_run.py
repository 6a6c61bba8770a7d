"""Runs of scheduled tasks that notify, as a rule sees them: told, or held back, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from domain.notifications.machine import LIMIT, MAINTENANCE, OUTSIDE, QUIET
from domain.notifications.rule import Rule, reaches
from domain.scenario import Scenario

Run = TypeVar("Run")


class NoticeHold(NamedTuple):
    """Why a run is not told. until: when it is looked at again, Unix ms; None: it never is told."""

    reason: str
    until: int | None = None


def hold_of(
    rule: Rule, scenario: Scenario, state: str, at: int, now: int, *, muted: bool
) -> NoticeHold | None:
    """Return why a rule does not tell at `now` of a run at `at` (Unix ms); None where it may.

    state: of the asset at the run; muted: whether it was in a maintenance window then.
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
    """Return the runs that each message tells of, and why all of them wait where there is none.

    recent: when the rule sent messages, in order. Where there are too many, the last message tells
    of several.
    """
    recent = [at for at in recent if at > now - rule.per_ms]
    room = rule.most - len(recent)
    if room <= 0:
        return [], NoticeHold(LIMIT, recent[0] + rule.per_ms)
    if len(runs) <= room:
        return [[run] for run in runs], None
    return [*([run] for run in runs[: room - 1]), list(runs[room - 1 :])], None
