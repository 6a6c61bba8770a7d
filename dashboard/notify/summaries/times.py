"""The time of a period by class: of a scenario as a whole, by day and hour, and by the value of a
label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import lru_cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from django.db import connection
from django.db.models import QuerySet, Sum

from dashboard.core.common.times import DAY_MS, HOUR_MS
from dashboard.core.states.queries import listed
from dashboard.notify.summaries.figures import Times, in_slots, slot_of
from dashboard.notify.summaries.models import ALL_SLOTS, AssetDay, HourRow, Progress
from dashboard.notify.summaries.raw_history import (
    Gaps,
    add_up,
    asset_sums,
    gaps_between,
    kept,
    ms_within,
    plus,
)
from dashboard.watch.annotations import labels
from dashboard.watch.annotations.models import Label
from domain.history.periods import Span, begin_of, day_of, hour_begin, hours_within
from domain.history.runs import without
from domain.history.sums import BAD, MAINTENANCE, UNCONFIRMED, AssetSum, Classes, Mask

# ---- times ---------------------------------------------------------------------------------------
# The time of a period by class: of a scenario as a whole, by day and hour of the week, by asset.
#
# Sums by the hour end with the last hour that was summed up. What comes after, and the rest of an
# hour that a period cuts off, is added up from raw history.

CLASSES = ("good", "bad", "unconfirmed", "maintenance")
DAY = timedelta(days=1)
REDONE_MS = 2 * DAY_MS
"""While more than this is being summed up again, pages show the old sums."""


LATE_MS = 3 * HOUR_MS
"""Answers kept up to a time this long before the last sum are too old to be used."""


class Reach(NamedTuple):
    """Up to when a scenario is summed up, Unix ms. hours: by the hour, without what must be summed
    up again; days: by asset and day, including that; answered: with the slow answers already kept;
    clean: up to what must be summed up again, redone: what was summed up in another zone, and is
    counted from raw history.
    """

    hours: int
    days: int
    answered: int
    clean: int
    redone: Span = Span(0, 0)

    def rezoned(self, zone: ZoneInfo, new: ZoneInfo, edge: int) -> Reach:
        """Return the reach while sums change from a zone to a new one: old ones are used after the
        day that is being summed up, and before raw history begins at `edge` (Unix ms)."""
        first = day_of(edge, new) + DAY
        day = max(first, day_of(self.clean, new))
        begin = begin_of(day_of(begin_of(first, new), zone), zone)
        end = begin_of(day + DAY, zone)
        if end < begin_of(day + DAY, new):
            end = begin_of(day + 2 * DAY, zone)
        return self._replace(hours=self.days, redone=Span(begin, end))


class Scope(NamedTuple):
    """What is counted: a span of time of a scenario. slots: the hours of the week that count; edge:
    where raw history begins, Unix ms; reach: None if nothing is summed up yet."""

    scenario: str
    span: Span
    slots: frozenset[int]
    zone: ZoneInfo
    edge: int
    reach: Reach | None

    @property
    def all_hours(self) -> bool:
        """Whether every hour counts."""
        return self.slots == ALL_SLOTS

    @property
    def cut(self) -> int:
        """Up to when sums by the hour are used, Unix ms; after that, raw history is."""
        begin, end = self.span
        if self.reach is None:
            return min(end, max(begin, self.edge))
        whole = min(hour_begin(end, self.zone), hour_begin(self.reach.hours, self.zone))
        return min(end, max(begin, whole))

    @property
    def redone(self) -> Span:
        """The time before the cut whose sums are of another zone."""
        begin, end = self.reach.redone if self.reach else (0, 0)
        return Span(max(begin, self.span.begin), min(end, self.cut))

    @property
    def an_hour_on(self) -> Scope:
        """The same scope as pages will count it once another hour is summed up but not answered."""
        reach = self.reach
        return self._replace(reach=reach and reach._replace(days=reach.days + HOUR_MS))

    @property
    def rest(self) -> Span:
        """The time not covered by sums by the hour; empty if its raw history is gone."""
        cut = self.cut
        return Span(cut if cut >= self.edge else self.span.end, self.span.end)

    @property
    def first_day(self) -> int:
        """The number of the first day in the sums by asset and day."""
        return day_of(self.span.begin, self.zone).toordinal()

    @property
    def after_days(self) -> int:
        """The number of the day after the last in the sums by asset and day.

        The day that is being summed up has sums up to the last hour that was.
        """
        day = day_of(self.cut, self.zone).toordinal()
        return day + (self.reach is not None and self.cut == self.reach.days > self.span.begin)

    @property
    def redone_days(self) -> tuple[int, int]:
        """The first of the days whose sums are of another zone, and the one after the last."""
        begin, end = self.redone
        if begin >= end:
            return 0, 0
        return day_of(begin, self.zone).toordinal(), day_of(end - 1, self.zone).toordinal() + 1

    @property
    def raw_parts(self) -> tuple[Span, Span]:
        """The parts of the time before the cut that sums by asset and day leave out."""
        redone, part = self.redone, self.part_of_day
        return redone, Span(max(part.begin, redone.end) if redone.ms else part.begin, part.end)

    @property
    def part_of_day(self) -> Span:
        """The time before the cut not covered by sums by asset and day; empty as for `rest`."""
        cut = self.cut
        begin = max(self.span.begin, begin_of(date.fromordinal(self.after_days), self.zone))
        return Span(min(begin, cut) if begin >= self.edge else cut, cut)

    def measure(self, span: Span) -> Callable[[int, int], int]:
        """Return a function of begin and end that returns how much of that part was observed and
        counts, ms."""
        gaps = gaps_between(self.scenario, *span)
        return measure(span, gaps, self.slots, self.zone)


def measure(
    span: Span, gaps: Gaps, slots: frozenset[int], zone: ZoneInfo
) -> Callable[[int, int], int]:
    """Return a function of begin and end that returns how much of that part is in these hours of
    the week and in no gap, ms."""
    if slots == ALL_SLOTS:
        return lambda begin, end: end - begin - ms_within(gaps, begin, end)
    mask = _mask(span, slots, zone)

    def observed(begin: int, end: int) -> int:
        cut_out = without((begin, end), gaps)[1]
        return mask.ms(begin, end) - sum(mask.ms(*part) for part in cut_out)

    return observed


@lru_cache(maxsize=32)
def _mask(span: Span, slots: frozenset[int], zone: ZoneInfo) -> Mask:
    """Return which hours of a time are in these slots; cached, as a year has many."""
    return Mask(hours_within(*span, zone), in_slots(slots))


@dataclass
class ScopeTimes:
    """The times of a scope. incidents: how many began in it; days: bad time by number of the day;
    slots: bad time by hour of the week; tail: sums of assets in `rest`."""

    times: Times = field(default_factory=Times)
    false_alarms: int = 0
    incidents: int = 0
    days: Counter[int] = field(default_factory=Counter)
    slots: Counter[int] = field(default_factory=Counter)
    tail: dict[str, Classes] = field(default_factory=dict)


def reaches(scenarios: Iterable[str]) -> dict[str, Reach]:
    """Return up to when scenarios are summed up; those that are not at all are left out."""
    known = {}
    for row in Progress.objects.filter(scenario__in=list(scenarios)):
        if row.summed_to is not None:
            again = [at for at in (row.dirty_since, row.taken_since) if at is not None]
            clean = min([row.summed_to, *again])
            stays = row.summed_to - clean > REDONE_MS
            hours = row.summed_to if stays else clean
            known[row.scenario] = Reach(hours, row.summed_to, _answered(row), clean)
    return known


def _answered(row: Progress) -> int:
    """Return up to when answers are kept, or up to the last sum if there are no recent answers."""
    summed = row.summed_to or 0
    answered = summed if row.answered_to is None else row.answered_to
    return answered if 0 <= summed - answered <= LATE_MS else summed


# ---- a scenario as a whole ----------------------------------------------------------------------


def counted(scope: Scope) -> ScopeTimes:
    """Return the times of a scope."""
    result = ScopeTimes()
    _add_rows(result, scope)
    if scope.redone.ms:
        _add_raw(result, scope, scope.redone)
    if scope.rest.ms:
        result.tail = totals(_add_raw(result, scope, scope.rest), scope)
    return result


def times_within(scope: Scope) -> Times:
    """Return the times of a scope that may begin within an hour, of which there is but one sum."""
    begin = hour_begin(scope.span.begin, scope.zone)
    whole = counted(scope._replace(span=Span(begin, scope.span.end))).times
    before = Span(begin, scope.span.begin)
    return whole.less(_raw_times(scope, before)) if before.ms else whole


def _raw_times(scope: Scope, span: Span) -> Times:
    """Return what raw history says about a part of a scope."""
    counts, total = in_slots(scope.slots), Times()
    hours = hours_within(*span, scope.zone)
    for each in add_up(scope.scenario, hours, scope.slots).hours:
        if counts(each.hour):
            total = total.plus(Times(each.good, each.bad, each.unconfirmed, each.maintenance))
    return total


def _add_rows(result: ScopeTimes, scope: Scope) -> None:
    """Add sums by the hour."""
    rows = HourRow.objects.filter(
        scenario=scope.scenario, begin__gte=scope.span.begin, begin__lt=scope.cut
    ).order_by()
    if scope.redone.ms:
        rows = rows.exclude(begin__gte=scope.redone.begin, begin__lt=scope.redone.end)
    numbers = rows.aggregate(incidents=Sum("incidents"), false_alarms=Sum("false_alarms"))
    result.incidents, result.false_alarms = numbers["incidents"] or 0, numbers["false_alarms"] or 0
    if not scope.all_hours:
        rows = rows.filter(slot__in=scope.slots)
    sums = rows.aggregate(**{name: Sum(name) for name in CLASSES})
    result.times = Times(*(sums[name] or 0 for name in CLASSES))
    result.days.update(_bad_by(rows, "day"))
    result.slots.update(_bad_by(rows, "slot"))


def _bad_by(rows: QuerySet[HourRow], column: str) -> dict[int, int]:
    return dict(rows.values_list(column).annotate(ms=Sum("bad")))


def _add_raw(result: ScopeTimes, scope: Scope, span: Span) -> Sequence[AssetSum]:
    """Add what raw history says about a part of a scope; return the sums of its assets."""
    added = add_up(scope.scenario, hours_within(*span, scope.zone), scope.slots)
    counts = in_slots(scope.slots)
    for n, each in enumerate(added.hours):
        result.incidents += added.incidents[n]
        result.false_alarms += added.false_alarms[n]
        if counts(each.hour):
            own = Times(each.good, each.bad, each.unconfirmed, each.maintenance)
            result.times = result.times.plus(own)
            result.days[each.hour.day.toordinal()] += each.bad
            result.slots[slot_of(each.hour)] += each.bad
    return added.assets


# ---- assets -------------------------------------------------------------------------------------


def totals(sums: Iterable[AssetSum], scope: Scope) -> dict[str, Classes]:
    """Return the total of each asset's days."""
    by_asset: dict[str, Classes] = {}
    for each in sums:
        own = each.whole if scope.all_hours else each.service
        before = by_asset.get(each.asset)
        by_asset[each.asset] = own if before is None else plus(before, own)
    return by_asset


def asset_columns(scope: Scope) -> tuple[str, ...]:
    """Return the columns of the sums by asset and day that count."""
    prefix = "" if scope.all_hours else "service_"
    return tuple(prefix + name for name in Classes._fields)


def asset_days(scope: Scope) -> QuerySet[AssetDay]:
    """Return the sums by asset and day of a scope."""
    rows = AssetDay.objects.filter(
        scenario=scope.scenario, day__gte=scope.first_day, day__lt=scope.after_days
    ).order_by()
    first, after = scope.redone_days
    return rows.exclude(day__gte=first, day__lt=after) if first < after else rows


def times_of(scope: Scope, assets: Collection[str]) -> dict[str, Classes]:
    """Return the times of some assets that were not good; assets without any are left out."""
    known = _sums_of(scope, assets)
    for span in (*scope.raw_parts, scope.rest):
        if span.ms:
            for asset, own in raw_times(scope, span, assets).items():
                known[asset] = plus(known.get(asset, Classes()), own)
    return known


def raw_times(
    scope: Scope, span: Span, assets: Collection[str] | None = None
) -> dict[str, Classes]:
    """Return each asset's times from raw history, of all assets or of some."""
    hours = hours_within(*span, scope.zone)
    return totals(asset_sums(scope.scenario, hours, scope.slots, assets), scope)


def worst(scope: Scope, most: int, tail: dict[str, Classes]) -> dict[str, Classes]:
    """Return the assets with most bad time, then most unconfirmed time, at least `most` of them if
    there are as many. tail: what was counted in the rest."""
    extra = dict(tail)
    for span in scope.raw_parts:
        for asset, own in raw_times(scope, span).items() if span.ms else ():
            extra[asset] = plus(extra.get(asset, Classes()), own)
    known = dict(_leaders(scope, most))
    known |= _sums_of(scope, [asset for asset in extra if asset not in known])
    return {
        asset: plus(known.get(asset, Classes()), extra.get(asset, Classes()))
        for asset in known.keys() | extra.keys()
    }


def _sums_of(scope: Scope, assets: Collection[str]) -> dict[str, Classes]:
    """Return the sums by asset and day of some assets."""
    if not assets:
        return {}
    rows = asset_days(scope).filter(asset__in=listed(assets)).values_list("asset")
    return {asset: Classes(*values) for asset, *values in _summed(rows, scope)}


def _summed(rows: Any, scope: Scope) -> Any:
    """Return rows by asset, annotated with the sums of the columns that count."""
    return rows.annotate(**{f"{name}_ms": Sum(name) for name in asset_columns(scope)})


def _leaders(scope: Scope, most: int) -> Iterable[tuple[str, Classes]]:
    """Yield the assets with most bad time according to their sums alone."""
    span = Span(scope.span.begin, scope.cut)
    stamp = f"{scope.first_day}-{scope.after_days}"
    what = f"worst:{most}:{'all' if scope.all_hours else 'service'}"
    for asset, *values in kept(
        what, [scope.scenario], span, stamp, lambda: _sorted_sums(scope, most)
    ):
        yield asset, Classes(*values)


def _sorted_sums(scope: Scope, most: int) -> list[Any]:
    order = (*(f"-{name}_ms" for name in asset_columns(scope)[:2]), "asset")
    rows = _summed(asset_days(scope).values_list("asset"), scope).order_by(*order)
    return [list(row) for row in rows[:most]]


# ---- label times ---------------------------------------------------------------------------------
# The time of a scenario's assets by their current values of a label.

# "+ 0" makes every planner look up each asset's own rows, instead of all that began before.
PRESENT = """\
SELECT l.value, count(*) FROM summaries_presence p
JOIN annotations_label l ON l.scenario = p.scenario AND l.asset = p.asset AND l.key = %s AND l.shown
WHERE p.scenario = %s AND p.begin + 0 < %s AND (p."end" IS NULL OR p."end" + 0 >= %s)
GROUP BY l.value"""
EDGES = """\
SELECT l.value, p.begin, p."end" FROM summaries_presence p
JOIN annotations_label l ON l.scenario = p.scenario AND l.asset = p.asset AND l.key = %s AND l.shown
WHERE p.scenario = %s
AND ((p.begin >= %s AND p.begin < %s) OR (p."end" >= %s AND p."end" < %s))"""
DAYS = """\
SELECT l.value, sum({}), sum({}), sum({}) FROM summaries_assetday p
JOIN annotations_label l ON l.scenario = p.scenario AND l.asset = p.asset AND l.key = %s AND l.shown
WHERE p.scenario = %s AND p.day >= %s AND p.day < %s AND NOT (p.day >= %s AND p.day < %s)
GROUP BY l.value"""


class LabelSum(NamedTuple):
    """Sums up to the cut of a scope. present: time on the board by value, ms; there: how many
    assets are on the board at the end; classes: time that was not good by value, ms."""

    present: dict[str, int]
    there: dict[str, int]
    classes: dict[str, list[int]]


class Labels(NamedTuple):
    """One scenario's values of a label, by asset."""

    key: str
    values: dict[str, str]

    def value(self, asset: str) -> str:
        """Return an asset's value, "" if it has none."""
        return self.values.get(asset, "")


def labels_of(scenario: str, key: str) -> Labels:
    """Return a scenario's values of a label."""
    rows = Label.objects.filter(scenario=scenario, key=key, shown=True)
    return Labels(key, dict(rows.values_list("asset", "value")))


def times_by_value(scope: Scope, own: Labels, tail: dict[str, Classes]) -> dict[str, Times]:
    """Return the times of a scope by value, leaving out assets without the label. tail: what was
    counted of assets in the rest."""
    sums = _closed(scope, own)
    present = Counter(sums.present)
    if scope.rest.ms:
        measure = scope.measure(scope.rest)
        present.update(_present(scope, own.key, scope.rest, measure, Counter(sums.there))[0])
    classes = {value: Classes(*row) for value, row in sums.classes.items()}
    _add(classes, own, tail)
    return {value: _times(ms, classes.get(value, Classes())) for value, ms in present.items()}


def _times(present: int, own: Classes) -> Times:
    # Assets whose time on the board is no longer known may still have sums.
    return Times(max(0, present - sum(own)), own[BAD], own[UNCONFIRMED], own[MAINTENANCE])


def _closed(scope: Scope, own: Labels) -> LabelSum:
    """Return the sums up to the cut."""
    span = Span(scope.span.begin, scope.cut)
    what = f"label:{own.key}:{'all' if scope.all_hours else 'service'}"
    stamp = str(labels.state(scope.scenario).n)
    data = kept(what, [scope.scenario], span, stamp, lambda: _sum(scope, own, span))
    return LabelSum(*data)


def _sum(scope: Scope, own: Labels, span: Span) -> list[Any]:
    there = Counter(dict(_rows(PRESENT, own.key, scope.scenario, span.begin, span.begin)))
    present, there = _present(scope, own.key, span, scope.measure(span), there)
    sql = DAYS.format(*asset_columns(scope))
    numbers = (scope.first_day, scope.after_days, *scope.redone_days)
    days = _rows(sql, own.key, scope.scenario, *numbers)
    classes = {value: Classes(*(int(each) for each in values)) for value, *values in days}
    for part in scope.raw_parts:
        if part.ms:
            _add(classes, own, raw_times(scope, part))
    return [present, there, {value: list(row) for value, row in classes.items()}]


def _present(
    scope: Scope, key: str, span: Span, measure: Callable[[int, int], int], there: Counter[str]
) -> tuple[Counter[str], Counter[str]]:
    """Return the time on the board by value, and how many assets are there when the span ends.

    there: how many are there when it begins.
    """
    whole = measure(*span)
    present = Counter({value: n * whole for value, n in there.items()})
    there = Counter(there)
    for value, begin, end in _rows(EDGES, key, scope.scenario, *span, *span):
        if begin >= span.begin:
            present[value] += measure(begin, span.end)
            there[value] += 1
        if end is not None and end < span.end:
            present[value] -= measure(end, span.end)
            there[value] -= 1
    return present, there


def _add(classes: dict[str, Classes], own: Labels, by_asset: dict[str, Classes]) -> None:
    """Add the times of assets to those of their values."""
    for asset, times in by_asset.items():
        value = own.value(asset)
        if value:
            before = classes.get(value, Classes())
            classes[value] = Classes(*(a + b for a, b in zip(before, times, strict=True)))


def _rows(sql: str, *parameters: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())
