"""When digests are due. Pure: times come in, in Unix ms."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from domain.history.periods import WEEK, Period, containing, day_of


class Plan(NamedTuple):
    """When somebody wants a digest. every: day or week; weekday: Monday 0, of a weekly one; hour:
    of the zone."""

    every: str
    weekday: int
    hour: int


def due_at(period: Period, plan: Plan, zone: ZoneInfo) -> int:
    """Return when the digest of a period is due: the first such hour after its end, Unix ms."""
    day = period.after + timedelta(days=plan.weekday if plan.every == WEEK else 0)
    return int(datetime.combine(day, time(plan.hour), zone).timestamp() * 1000)


def newest_due(plan: Plan, zone: ZoneInfo, now: int) -> Period:
    """Return the newest period whose digest is due at `now`."""
    period = containing(plan.every, day_of(now, zone)).before
    while due_at(period, plan, zone) > now:
        period = period.before
    return period


def between(period: Period, last: Period | None) -> int:
    """Return how many periods lie between two that follow each other in time; 0 without one."""
    return 0 if last is None else max(0, (period.first - last.after).days // period.days)
