"""What summaries are measured by: the reporting zone, targets, service hours."""

from __future__ import annotations

from collections.abc import Callable, Collection
from zoneinfo import ZoneInfo

from django.db import transaction

from dashboard.summaries.models import Progress, ReportingZone, Target
from dashboard.summaries.recorder import mark
from domain.history.periods import Hour

UTC = "UTC"
BEGINNING = 0
"""As a time: since ever."""
HOURS = range(24)


def reporting_zone() -> ZoneInfo:
    """Return the zone whose days and hours are counted."""
    row = ReportingZone.objects.first()
    return ZoneInfo(row.name if row else UTC)


def set_reporting_zone(name: str) -> None:
    """Count the days and hours of another zone, of the IANA database. Raises KeyError for none.

    What raw history still tells is summed up again; older sums keep the days that they were of.
    """
    ZoneInfo(name)
    with transaction.atomic():
        ReportingZone.objects.all().delete()
        ReportingZone.objects.create(name=name)
        mark(dict.fromkeys(Progress.objects.values_list("scenario", flat=True), BEGINNING))


def set_target(
    scenario: str, percent: float | None, hours: Collection[Collection[int]] = ()
) -> None:
    """Measure a scenario by an availability in percent (None: by none), and by service hours: for
    each weekday, Monday first, the hours from 0 to 23; () for all. Raises ValueError."""
    if percent is not None and not 0 < percent <= 100:
        raise ValueError(f"expected more than 0 and at most 100 percent, got {percent}")
    if hours and (len(hours) != 7 or any(hour not in HOURS for day in hours for hour in day)):
        raise ValueError("expected the hours (0 to 23) of seven weekdays, or none at all")
    plain = [sorted(set(day)) for day in hours]
    with transaction.atomic():
        before = Target.objects.filter(scenario=scenario).first()
        Target.objects.update_or_create(
            scenario=scenario, defaults={"percent": percent, "hours": plain}
        )
        if plain != (before.hours if before else []):
            mark({scenario: BEGINNING})


def targets() -> dict[str, Target]:
    """Return the targets by scenario."""
    return {row.scenario: row for row in Target.objects.all()}


def slot_of(hour: Hour) -> int:
    """Return the place of an hour in a week: 24 times the weekday, Monday 0, plus the hour."""
    return 24 * hour.day.weekday() + hour.hour


def service_slots(target: Target | None) -> frozenset[int]:
    """Return the slots of the week that are service hours; all of them without a choice."""
    hours = target.hours if target else []
    if not hours:
        return frozenset(range(7 * 24))
    return frozenset(24 * weekday + hour for weekday, day in enumerate(hours) for hour in day)


def in_slots(slots: frozenset[int]) -> Callable[[Hour], bool]:
    """Return whether an hour is in one of these slots, as a function."""
    return lambda hour: slot_of(hour) in slots
