"""Changes of how long a scenario keeps rows of a kind. Times in ms."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction

from dashboard.core.retention import Retention
from dashboard.core.times import DAY_MS
from dashboard.retention.kept import KEPT
from dashboard.retention.models import Period

LEAST_MS, MOST_MS = DAY_MS, 20 * 366 * DAY_MS
"""Bounds of a time: a day, and twenty years."""


def adjustable() -> dict[str, Retention]:
    """Return what scenarios may keep for a time of their own, by its key."""
    return {each.key: each for each in KEPT if isinstance(each, Retention) and each.by_scenario}


def period(each: Retention, scenario: str) -> int:
    """Return how long a scenario keeps rows of a kind, ms."""
    own = Period.objects.filter(key=each.key, scenario=scenario).first()
    assert each.kept_ms is not None
    return own.kept_ms if own else each.kept_ms


def to_be_deleted(each: Retention, scenario: str, kept_ms: int, now: int) -> int:
    """Return how many rows a scenario has that are older than a time would allow, at `now`."""
    return each.before(scenario, now - kept_ms).count()


@transaction.atomic
def set_period(each: Retention, scenario: str, kept_ms: int | None, user: User, now: int) -> None:
    """Have a scenario keep rows of a kind for so long, ms; None: for the default."""
    if kept_ms is None:
        Period.objects.filter(key=each.key, scenario=scenario).delete()
        return
    given = {"kept_ms": kept_ms, "user": user, "username": user.get_username(), "at": now}
    Period.objects.update_or_create(key=each.key, scenario=scenario, defaults=given)
