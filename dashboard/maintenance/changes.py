"""Windows planned, changed, ended and cancelled by people. Times in Unix ms.

The worker does what follows from it: see `dashboard.maintenance.coverage`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F

from dashboard.core.rate_limits import Limit
from dashboard.core.scenarios import scenarios
from dashboard.core.times import DAY_MS
from dashboard.maintenance.models import LISTED, Window, WindowAsset
from dashboard.maintenance.windows import windows_changed

MOST_ASSETS = 900
"""Most assets that a window lists."""
MOST_OPEN = 500
"""Most windows that are planned or run at a time."""
LONGEST_MS = 31 * DAY_MS
"""Longest window."""
FURTHEST_MS = 366 * DAY_MS
"""How far ahead a window may begin."""
BACK_MS = 31 * DAY_MS
"""How long ago a window may have begun that nobody had planned."""
LIMIT = Limit("maintenance", 60)


class NotNow(ValueError):
    """A change that is refused; says why."""


class Plan(NamedTuple):
    """A window as somebody wants it; the fields as those of `Window`. assets: those listed."""

    scenario: str
    name: str
    why: str
    covers: str
    filter: str
    assets: tuple[str, ...]
    begin: int
    end: int
    excluded: bool
    held: bool

    def columns(self) -> dict[str, Any]:
        """Return the values of a window's columns."""
        named = self._asdict()
        del named["assets"]
        return named | {"planned_end": self.end}


@transaction.atomic
def plan_window(plan: Plan, user: User, now: int) -> Window:
    """Store a new window. Returns it. Raises NotNow where there are too many, TooMany."""
    LIMIT.take(user.pk, now)
    if Window.objects.filter(end__gt=now, cancelled_at=None).count() >= MOST_OPEN:
        raise NotNow(f"{MOST_OPEN} windows are planned or run already: cancel some first.")
    window = Window.objects.create(
        **plan.columns(), user=user, username=user.get_username(), created_at=now
    )
    _list(window, plan)
    announce(window, plan.begin, plan.end)
    return window


@transaction.atomic
def change_window(window: Window, plan: Plan, user: User, now: int) -> None:
    """Store a planned window anew. Raises NotNow where it is not as `window` has it, TooMany."""
    LIMIT.take(user.pk, now)
    planned = Window.objects.filter(
        pk=window.pk, revision=window.revision, cancelled_at=None, begun_at=None, begin__gt=now
    )
    if not planned.update(**plan.columns(), revision=F("revision") + 1):
        raise NotNow("It has begun, or somebody has changed it meanwhile. Look at it again.")
    window.assets.all().delete()
    begin, end = min(window.begin, plan.begin), max(window.end, plan.end)
    announce(window, begin, end)
    window.refresh_from_db()
    _list(window, plan)
    announce(window, begin, end)


@transaction.atomic
def end_window(window: Window, user: User, now: int) -> None:
    """End a running window now. Raises NotNow where it does not run, TooMany."""
    LIMIT.take(user.pk, now)
    runs = Window.objects.filter(pk=window.pk, begin__lt=now, end__gt=now, cancelled_at=None)
    if not runs.update(end=now, ended_by=user.get_username(), revision=F("revision") + 1):
        raise NotNow("It does not run.")
    announce(window, now, window.end)
    window.refresh_from_db()


@transaction.atomic
def cancel_window(window: Window, user: User, now: int) -> None:
    """Cancel a window: it counts as if it had never been. Raises NotNow where it is, TooMany."""
    LIMIT.take(user.pk, now)
    row = Window.objects.filter(pk=window.pk, cancelled_at=None)
    name = user.get_username()
    if not row.update(cancelled_at=now, cancelled_by=name, revision=F("revision") + 1):
        raise NotNow("It is cancelled already.")
    announce(window, window.begin, window.end)
    window.refresh_from_db()


def announce(window: Window, begin: int, end: int) -> None:
    """Say of each scenario of a window that something changes between two times (Unix ms)."""
    for scenario in [window.scenario] if window.scenario else scenarios():
        windows_changed.send(None, scenario=scenario, begin=begin, end=end)


def _list(window: Window, plan: Plan) -> None:
    """Store the assets that a plan lists."""
    if plan.covers == LISTED:
        WindowAsset.objects.bulk_create(
            WindowAsset(window=window, scenario=plan.scenario, asset=asset) for asset in plan.assets
        )
