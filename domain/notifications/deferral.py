"""Deferred messages, whose receiver could not be reached: when they are sent, and when never."""

from __future__ import annotations

from domain.notifications.group import ESCALATED, REMINDER, RESOLVED, Group
from domain.notifications.machine import PAUSED, QUIET, REASONS
from domain.notifications.rule import Rule

URGING = (ESCALATED, REMINDER)
"""Kinds of message that are not sent while somebody has it in hand."""
IN_HAND, ENDING = "somebody has it in hand", "for the message of its end"


def is_past(group: Group | None, kind: str) -> bool:
    """Return whether a message of this kind tells of what is over. group: None if it is closed."""
    return group is None and kind != RESOLVED


def why_waiting(rule: Rule, group: Group | None, kind: str, now: int, *, paused: bool) -> str:
    """Return for what a message of this kind waits at `now` (Unix ms), though its receiver can be
    reached, or "". paused: whether its rule is switched off."""
    if paused:
        return REASONS[PAUSED]
    if group is not None and not group.goes_on():
        return ENDING
    if group is not None and kind in URGING and group.in_hand(now):
        return IN_HAND
    return REASONS[QUIET] if _is_asleep(rule, group, now) else ""


def _is_asleep(rule: Rule, group: Group | None, now: int) -> bool:
    is_exempt = group is not None and group.exempt
    return rule.quiet is not None and rule.quiet.hours.contain(now) and not is_exempt
