"""Roll-ups of raw history by the hour, and by asset and day: once an hour has ended, and again if
its history has changed since.

A day is summed up as a whole, in short transactions. Every process takes a turn to sum up; one that
has been overtaken meanwhile writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from functools import partial
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce, Least

from dashboard.core.common.sql import chunks, execute_many
from dashboard.core.states.queries import listed
from dashboard.notify.summaries.models import (
    AssetDay,
    HourRow,
    KeptSum,
    Progress,
    ReportingZone,
    Target,
    raw_edge,
)
from dashboard.notify.summaries.raw_history import Added, add_up
from domain.history.periods import begin_of, day_of, hour_begin, hours
from domain.history.sums import AssetSum

WRITTEN = 2_000
"""Rows per transaction, few enough that nobody waits long for the lock."""
SUMS = ("good", "bad", "unconfirmed", "maintenance", "present", "incidents", "false_alarms")
PLACE = ("end", "day", "slot")
OF_ASSET = (
    "bad", "unconfirmed", "maintenance", "service_bad", "service_unconfirmed",
    "service_maintenance",
)  # fmt: skip

WRITE_DAY = f"""\
INSERT INTO summaries_assetday (scenario, asset, day, {", ".join(OF_ASSET)})
VALUES ({", ".join(["%s"] * (3 + len(OF_ASSET)))})
ON CONFLICT (scenario, asset, day) DO UPDATE SET
{", ".join(f"{name} = excluded.{name}" for name in OF_ASSET)}"""  # noqa: S608 - our own names


class Overtaken(Exception):
    """Another process has begun to sum up the same scenario."""


class Turn(NamedTuple):
    """A turn of summing up a scenario from `since` (Unix ms) on."""

    scenario: str
    number: int
    since: int


def sum_up_day(scenario: str, now: int) -> bool:
    """Sum up the first day of a scenario that needs it, up to the hours that have ended by `now`
    (Unix ms).

    Return whether a day was summed up; if so, there may be more.
    """
    zone = ReportingZone.objects.chosen()
    ended = hour_begin(now, zone)
    first = first_day(zone, now)
    turn = _begin_turn(scenario, ended, begin_of(first, zone))
    if turn is None:
        return False
    day = day_of(turn.since, zone)
    begin = begin_of(day, zone)
    end = min(begin_of(day + timedelta(days=1), zone), ended)
    slots = Target.objects.slots(scenario)
    added = add_up(scenario, list(hours(begin, end, zone)), slots)
    try:
        _write(turn, day, added, begin, end, ended)
    except Overtaken:
        return False
    return True


def first_day(zone: ZoneInfo, now: int) -> date:
    """Return the first day with complete raw history, as of `now` (Unix ms)."""
    return day_of(raw_edge(now), zone) + timedelta(days=1)


# ---- taking turns -------------------------------------------------------------------------------


def _begin_turn(scenario: str, ended: int, first: int) -> Turn | None:
    """Begin a turn on what needs summing up before `ended`; return None if nothing does."""
    row = Progress.objects.filter(scenario=scenario).first()
    if row is None:
        return None
    since = [at for at in (row.summed_to, row.dirty_since, row.taken_since) if at is not None]
    if not since or max(min(since), first) >= ended:
        return None
    number = row.turn + 1
    taken = Least(
        Coalesce("taken_since", "dirty_since", "summed_to"),
        Coalesce("dirty_since", "taken_since", "summed_to"),
        Coalesce("summed_to", "dirty_since", "taken_since"),
    )
    begun = Progress.objects.filter(scenario=scenario, turn=row.turn).update(
        turn=number, taken_since=taken, dirty_since=None
    )
    if not begun:
        return None
    at = Progress.objects.values_list("taken_since", flat=True).get(scenario=scenario)
    return Turn(scenario, number, max(at or 0, first))


def _in_turn(turn: Turn, write: Callable[[], Any]) -> None:
    """Write in a transaction. Raises Overtaken."""
    with transaction.atomic():
        # This locks the row: whoever takes the next turn waits until this is committed.
        if not _row(turn).update(turn=turn.number):
            raise Overtaken
        write()


def _row(turn: Turn) -> QuerySet[Progress]:
    return Progress.objects.filter(scenario=turn.scenario, turn=turn.number)


# ---- writing ------------------------------------------------------------------------------------


def _write(turn: Turn, day: date, added: Added, begin: int, end: int, ended: int) -> None:
    """Write the sums of a day up to `end`, and record that. Raises Overtaken."""
    changed, gone = changed_days(turn.scenario, day, added.assets)
    for portion in chunks(gone, WRITTEN):
        vanished = AssetDay.objects.filter(
            scenario=turn.scenario, day=day.toordinal(), asset__in=listed(portion)
        )
        _in_turn(turn, vanished.delete)
    for rows in chunks(changed, WRITTEN):
        _in_turn(turn, partial(execute_many, WRITE_DAY, rows))
    _in_turn(turn, partial(_finish, turn, added, begin, end, ended))


def _finish(turn: Turn, added: Added, begin: int, end: int, ended: int) -> None:
    """Write the hours of a day, and record that it is summed up to `end`."""
    rows = added.rows(turn.scenario)
    kept = HourRow.objects.filter(scenario=turn.scenario, begin__gte=begin, begin__lt=end)
    kept.exclude(begin__in=[row.begin for row in rows]).delete()
    HourRow.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["scenario", "begin"],
        update_fields=[*PLACE, *SUMS],
    )
    # The day is written as a whole, but is unchanged up to where this turn begins.
    KeptSum.objects.forget(turn.scenario, max(begin, turn.since))
    further = end < ended
    _row(turn).update(
        taken_since=end if further else None,
        summed_to=F("summed_to") if further and _is_summed(turn, end) else end,
    )
    if not further:
        ReportingZone.objects.settle()


def _is_summed(turn: Turn, end: int) -> bool:
    """Return whether hours after `end` are already summed up."""
    return _row(turn).filter(summed_to__gt=end).exists()


def changed_days(
    scenario: str, day: date, sums: Sequence[AssetSum]
) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Return the rows of a day that differ from the stored ones, as WRITE_DAY takes them, and the
    assets that no longer have a row."""
    number = day.toordinal()
    rows = AssetDay.objects.filter(scenario=scenario, day=number)
    kept = {asset: own for asset, *own in rows.values_list("asset", *OF_ASSET)}
    changed = [
        (scenario, each.asset, number, *each.whole, *each.service)
        for each in sums
        if kept.get(each.asset) != [*each.whole, *each.service]
    ]
    return changed, sorted(kept.keys() - {each.asset for each in sums})
