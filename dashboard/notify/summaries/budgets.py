"""Error budgets that burn too fast, reported to the rules of notifications.

A rate must be exceeded over a long time, so that a short outage wakes nobody, and over a short one
too, so that what is over is soon over. Rates and times are those of the SRE workbook, for budgets
of a month. Times in Unix ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from django.db import transaction

from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import DAY_MS, HOUR_MS, MINUTE_MS, span
from dashboard.notify.notifications.models import AgentEvent
from dashboard.notify.summaries.calculation import burns_of
from dashboard.notify.summaries.models import Target
from dashboard.notify.summaries.phrases import target as target_words
from domain.notifications.events import BEGUN, BUDGET_FAST, BUDGET_KINDS, BUDGET_SLOW, ENDED

NAME = "Error budget"
"""What the findings are about, in the place of an agent."""


class BurnAlert(NamedTuple):
    """A burn rate that is too fast. long, short: the last parts of time in which it is exceeded."""

    kind: str
    long: int
    short: int
    rate: float

    def exceeded(self, burns: Mapping[int, float | None]) -> bool | None:
        """Return whether the rate is exceeded; None if too little is known. burns: rates by
        window."""
        long, short = burns.get(self.long), burns.get(self.short)
        if long is None or short is None:
            return None
        return min(long, short) > self.rate


ALERTS = (
    BurnAlert(BUDGET_FAST, HOUR_MS, 5 * MINUTE_MS, 14.4),
    BurnAlert(BUDGET_FAST, 6 * HOUR_MS, 30 * MINUTE_MS, 6),
    BurnAlert(BUDGET_SLOW, 3 * DAY_MS, 6 * HOUR_MS, 1),
)
WINDOWS = tuple(sorted({ms for alert in ALERTS for ms in (alert.long, alert.short)}))


def watch(now: int) -> None:
    """Store which error budgets began and ceased to burn too fast, as of `now`."""
    rows = Target.objects.filter(scenario__in=list(scenarios()))
    for row in rows.exclude(percent=None, burning={}):
        burns = {} if row.percent is None else burns_of(row.scenario, row.percent, WINDOWS, now)
        with transaction.atomic():
            locked = Target.objects.select_for_update().get(pk=row.pk)
            if locked.percent == row.percent:  # else again in a minute
                _watch(locked, burns, now)


def _watch(row: Target, burns: Mapping[int, float | None], now: int) -> None:
    burning = dict(row.burning)
    for kind in BUDGET_KINDS:
        words = _words(kind, row.percent, burns)
        known = burning.get(kind)
        if words and known is None:
            burning[kind] = {"since": now, "words": words}
            _store(row.scenario, kind, BEGUN, burning[kind], now)
        elif words == "" and known is not None:
            _store(row.scenario, kind, ENDED, burning.pop(kind), now)
    if burning != row.burning:
        row.burning = burning
        row.save(update_fields=["burning"])


def _words(kind: str, percent: float | None, burns: Mapping[int, float | None]) -> str | None:
    """Return how fast a budget burns, empty if not too fast; None if too little is known."""
    if percent is None:
        return ""
    alerts = [(alert, alert.exceeded(burns)) for alert in ALERTS if alert.kind == kind]
    for alert, exceeded in alerts:
        if exceeded:
            return (
                f"Burns {burns[alert.long]:.1f} times as fast as the target of "
                f"{target_words(percent)} allows, over the last {span(alert.long)}"
            )
    return None if any(exceeded is None for _, exceeded in alerts) else ""


def _store(scenario: str, finding: str, kind: str, known: Mapping[str, object], now: int) -> None:
    row = AgentEvent(
        scenario=scenario,
        agent=NAME,
        kind=kind,
        finding=finding,
        place=f"budget/{finding}/{known['since']}",
        words=str(known["words"]),
        at=now,
        recorded_at=now,
    )
    AgentEvent.objects.bulk_create([row], ignore_conflicts=True)
