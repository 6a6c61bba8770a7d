"""The answer to a question: from sums, and from raw history where there are none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property
from itertools import groupby
from typing import NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import DAY_MS, now_ms
from dashboard.core.states.models import Transition
from dashboard.notify.summaries import incident_figures as summary_incident_figures
from dashboard.notify.summaries.figures import (
    BURN_WINDOWS,
    MOST_VALUES,
    MOST_WORST,
    BudgetPoint,
    Burn,
    ErrorBudget,
    FigureGroup,
    Figures,
    HeatDay,
    LongIncident,
    Observed,
    PeriodSummary,
    Question,
    TargetStatus,
    Times,
    WorstAsset,
    slot_of,
)
from dashboard.notify.summaries.incident_figures import IncidentFigures, incident_figures
from dashboard.notify.summaries.models import (
    ALL_SLOTS,
    Alarm,
    HourRow,
    ReportingZone,
    Target,
    raw_edge,
)
from dashboard.notify.summaries.raw_history import (
    Gaps,
    first_record,
    kept,
    ms_within,
    overrides,
    overrides_total,
    rest,
    runs,
    runs_total,
    unobserved,
)
from dashboard.notify.summaries.times import (
    Labels,
    Reach,
    Scope,
    ScopeTimes,
    counted,
    labels_of,
    measure,
    reaches,
    times_by_value,
    times_of,
    times_within,
    worst,
)
from dashboard.watch.annotations import labels as annotation_labels
from domain.history.periods import (
    DAY,
    PeriodComparison,
    Span,
    begin_of,
    compared,
    containing,
    day_of,
    hour_begin,
    hours_within,
)
from domain.history.sums import Classes

LIVE_MOST = 20_000
"""If a period has more incidents, their figures are as of the last hour that was summed up."""
WITHOUT = ""
"""The value of assets without the label."""


def summary(question: Question, now: int | None = None) -> PeriodSummary:
    """Return the summary of a period, and of the one before it, as of `now` (Unix ms)."""
    return Calculation(question, now_ms() if now is None else now).summary()


def burns_of(
    scenario: str, target: float, windows: Iterable[int], now: int
) -> dict[int, float | None]:
    """Return a scenario's burn rates up to `now` (Unix ms) by window, ms; within service hours."""
    today = containing(DAY, day_of(now, ReportingZone.objects.current()))
    calculation = Calculation(Question((scenario,), today, service=True), now)
    return {each.window_ms: each.rate for each in calculation.burns(scenario, target, windows)}


def keep_answer(question: Question, now: int) -> None:
    """Calculate a summary as of `now` (Unix ms) with all sums, so that its slow parts are kept
    before a page needs them."""
    Calculation(question, now, ahead=True).summary()


def raw_since(scenarios: Iterable[str]) -> int | None:
    """Return the time of the oldest stored change of a state, Unix ms; None if there is none."""
    oldest = (
        Transition.objects.filter(scenario=name).order_by("at").values_list("at", flat=True).first()
        for name in scenarios
    )
    return min((at for at in oldest if at is not None), default=None)


def has_sums_before(period_summary: PeriodSummary) -> bool:
    """Return whether part of a summary is known from sums alone, as its changes are deleted."""
    raw, first = period_summary.raw_since, period_summary.first_at
    if raw is None or first is None or first >= raw or period_summary.span.begin >= raw:
        return False
    rows = HourRow.objects.filter(scenario__in=period_summary.question.scenarios, end__lte=raw)
    return rows.filter(end__gt=period_summary.span.begin).exists()


T = TypeVar("T")
Row = tuple[str, str, Classes]
"""A scenario, an asset, and the asset's time that was not good."""


class TimesOf(NamedTuple):
    """The times of a period, by scenario, and by scenario and value of the label."""

    counted: dict[str, ScopeTimes]
    labels: dict[str, dict[str, Times]]


class PeriodData(NamedTuple):
    """One of the two periods compared: its times and its incidents."""

    span: Span
    times: TimesOf
    incidents: IncidentFigures


@dataclass
class Calculation:
    """The calculation of one answer.

    ahead: use all sums, so that the slow parts are kept. Otherwise only use the sums of the hours
    whose slow parts are kept: a page does not wait for the first answer after an hour has ended.
    """

    question: Question
    now: int
    ahead: bool = False
    _labels: dict[str, Labels] = field(default_factory=dict)
    _gone: dict[tuple[tuple[str, ...], Span], Gaps] = field(default_factory=dict)
    _known: dict[tuple[tuple[str, ...], Span], Observed] = field(default_factory=dict)
    _false: dict[Span, Counter[str] | None] = field(default_factory=dict)

    def summary(self) -> PeriodSummary:
        """Return the answer."""
        question, spans = self.question, self.spans
        now, before = self._times(spans.now), self._times(spans.before)
        unobserved = self._unobserved(self.counting, spans.now)
        figures = self._incidents(spans.now, now)
        parts = (
            PeriodData(spans.now, now, figures),
            PeriodData(spans.before, before, self._incidents(spans.before, before)),
        )
        whole = FigureGroup("", "All", *map(self._whole, parts))
        values = self._values(now, before)
        counts = [now.counted[name] for name in self.counting]
        week = Week(spans.now, unobserved, self.zone)
        return PeriodSummary(
            question=question,
            zone=self.zone.key,
            span=spans.now,
            before=spans.before,
            running=spans.running,
            computed_at=self.now,
            raw_since=raw_since(self.names),
            summed_to=min((reach.hours for reach in self.reaches.values()), default=None),
            whole=whole,
            scenarios=tuple(self._of_scenario(name, parts) for name in self.names),
            labels=tuple(self._of_value(value, parts) for value in values[:MOST_VALUES]),
            labels_total=len(values),
            heat=self._heat(counts, unobserved),
            week=week.bad(counts),
            week_unobserved=week.unobserved(),
            worst=self._worst(now),
            incidents=self._longest(spans.now, figures.longest),
            incidents_total=whole.now.incidents,
            overrides=overrides(self.names, spans.now),
            overrides_total=overrides_total(self.names, spans.now),
            runs=runs(self.names, spans.now),
            runs_total=runs_total(self.names, spans.now),
            empty=not (whole.now.times.present or whole.now.incidents),
            first_at=min(filter(None, (self.firsts[name] for name in self.counting)), default=None),
            counting=tuple(self.counting),
            unobserved=tuple(Span(*each) for each in unobserved),
            targets=tuple(self._statuses(now, parts[0])),
            next_zone="" if self.chosen_zone == self.zone else self.chosen_zone.key,
        )

    # ---- what is asked --------------------------------------------------------------------------

    @cached_property
    def names(self) -> list[str]:
        """The requested scenarios that exist."""
        return [name for name in scenarios() if name in self.question.scenarios]

    @cached_property
    def counting(self) -> list[str]:
        """The scenarios in the total: those whose states have severity, or all if none has."""
        with_severity = [name for name in self.names if not scenarios()[name].life_cycle]
        return with_severity or self.names

    @cached_property
    def firsts(self) -> Mapping[str, int | None]:
        """When the first asset of each scenario came onto the board."""
        return {name: first_record(name) for name in self.names}

    @cached_property
    def zone(self) -> ZoneInfo:
        """The reporting zone."""
        return ReportingZone.objects.current()

    @cached_property
    def chosen_zone(self) -> ZoneInfo:
        """The zone in which hours are summed up."""
        return ReportingZone.objects.chosen()

    @cached_property
    def spans(self) -> PeriodComparison:
        """The times that are counted."""
        return compared(self.question.period, self.zone, self.now)

    @cached_property
    def targets(self) -> Mapping[str, Target]:
        """The targets of scenarios."""
        return Target.objects.by_scenario()

    @cached_property
    def reaches(self) -> Mapping[str, Reach]:
        """Up to when scenarios are summed up."""
        known = reaches(self.names)
        if self.chosen_zone != self.zone:
            edge = raw_edge(self.now)
            known = {
                name: reach.rezoned(self.zone, self.chosen_zone, edge)
                for name, reach in known.items()
            }
        if self.ahead:
            return {name: reach._replace(answered=reach.days) for name, reach in known.items()}
        return {
            name: reach._replace(hours=min(reach.hours, reach.answered))
            for name, reach in known.items()
        }

    def _slots(self, name: str) -> frozenset[int]:
        target = self.targets.get(name)
        return target.slots if target and self.question.service else ALL_SLOTS

    def _scope(self, name: str, span: Span) -> Scope:
        edge, reach = raw_edge(self.now), self.reaches.get(name)
        return Scope(name, span, self._slots(name), self.zone, edge, reach)

    # ---- what was observed ----------------------------------------------------------------------

    def _unobserved(self, names: Iterable[str], span: Span) -> Gaps:
        place = tuple(names), span
        if place not in self._gone:
            self._gone[place] = unobserved({name: self.firsts[name] for name in names}, span)
        return self._gone[place]

    def _observed(self, names: Iterable[str], span: Span) -> Observed:
        """Return how much of a time was observed, of several scenarios together."""
        place = tuple(names), span
        if place not in self._known:
            gone = self._unobserved(names, span)
            slots = frozenset[int]().union(*(self._slots(name) for name in names))
            seen = ms_within(gone, *span) < span.ms
            ms, whole = (measure(span, gaps, slots, self.zone)(*span) for gaps in (gone, ()))
            self._known[place] = Observed(ms, whole, seen)
        return self._known[place]

    def _labels_of(self, name: str) -> Labels:
        if name not in self._labels:
            self._labels[name] = labels_of(name, self.question.label)
        return self._labels[name]

    # ---- counting -------------------------------------------------------------------------------

    def _times(self, span: Span) -> TimesOf:
        result = TimesOf({}, {})
        for name in self.names:
            scope = self._scope(name, span)
            own = result.counted[name] = counted(scope)
            if self.question.label:
                by_value = times_by_value(scope, self._labels_of(name), own.tail)
                rest = own.times.less(_added(by_value.values()))
                result.labels[name] = {**by_value, WITHOUT: rest}
        return result

    def _incidents(self, span: Span, times: TimesOf) -> IncidentFigures:
        """Return the figures of incidents; if there are very many, kept figures."""
        names = [name for name in self.names if self._observed([name], span).seen]
        if sum(each.incidents for each in times.counted.values()) <= LIVE_MOST:
            return self._count_incidents(names, span)
        whole_hours = self._whole_hours(span)
        stamp = str([annotation_labels.state(name).n for name in names])
        data = kept(
            f"groups:{self.question.label}:{','.join(self.counting)}",
            names,
            whole_hours,
            stamp if self.question.label else "",
            lambda: summary_incident_figures.to_json(self._count_incidents(names, whole_hours)),
        )
        return summary_incident_figures.from_json(data)

    def _count_incidents(self, names: Sequence[str], span: Span) -> IncidentFigures:
        value_of = self._value_of if self.question.label else None
        return incident_figures(names, span, value_of, counting=self.counting)

    def _value_of(self, scenario: str, asset: str) -> str:
        return self._labels_of(scenario).value(asset)

    def _whole_hours(self, span: Span) -> Span:
        """Return the part of a time up to the last whole hour that is summed up."""
        summed = min((reach.answered for reach in self.reaches.values()), default=span.end)
        return Span(span.begin, max(span.begin, min(hour_begin(span.end, self.zone), summed)))

    # ---- groups ---------------------------------------------------------------------------------

    def _whole(self, part: PeriodData) -> Figures:
        each = {name: part.times.counted[name] for name in self.counting}
        total = _added(own.times for own in each.values())
        budget = self._budget({name: own.times for name, own in each.items()})
        false_alarms = sum(own.false_alarms for own in each.values())
        observed = self._observed(self.counting, part.span)
        return _figures(total, part.incidents.whole, budget, false_alarms, observed)

    def _of_scenario(self, name: str, parts: Iterable[PeriodData]) -> FigureGroup:
        return FigureGroup(
            name, scenarios()[name].title, *(self._scenario_in(name, p) for p in parts)
        )

    def _scenario_in(self, name: str, part: PeriodData) -> Figures:
        own, observed = part.times.counted[name], self._observed([name], part.span)
        counted_ = part.incidents.scenarios.get(name, summary_incident_figures.IncidentTotals())
        budget = self._budget({name: own.times})
        return _figures(own.times, counted_, budget, own.false_alarms, observed)

    def _of_value(self, value: str, parts: Iterable[PeriodData]) -> FigureGroup:
        return FigureGroup(value, value, *(self._value_in(value, part) for part in parts))

    def _value_in(self, value: str, part: PeriodData) -> Figures:
        labels = part.times.labels
        by_scenario = {name: labels[name][value] for name in self.counting if value in labels[name]}
        counted_ = part.incidents.labels.get(value, summary_incident_figures.IncidentTotals())
        counted_ = counted_._replace(incidents=counted_.merged)
        total = _added(by_scenario.values())
        observed = self._observed(self.counting, part.span)
        false_alarms = self._false_alarms(part.span)
        own = None if false_alarms is None else false_alarms[value]
        return _figures(total, counted_, self._budget(by_scenario), own, observed)

    def _false_alarms(self, span: Span) -> Counter[str] | None:
        """Return how many false alarms ended in a time by value; None if some are deleted."""
        if span not in self._false:
            first = min(filter(None, (self.firsts[name] for name in self.counting)), default=0)
            known = max(span.begin, first) >= raw_edge(self.now)
            ended = Alarm.objects.false(self.counting, span) if known else ()
            values = (self._value_of(*place) for place in ended)
            self._false[span] = Counter(values) if known else None
        return self._false[span]

    def _values(self, now: TimesOf, before: TimesOf) -> list[str]:
        """Return the values of the label, those with most bad time first, and "" last."""
        bad: Counter[str] = Counter()
        for times, weight in ((now, 1), (before, 0)):
            for name in self.counting if times.labels else ():
                for value, own in times.labels[name].items():
                    bad[value] += own.bad * weight
        return sorted(bad, key=lambda value: (value == WITHOUT, -bad[value], value))

    def _budget(self, by_scenario: Mapping[str, Times]) -> ErrorBudget | None:
        """Return the error budget of one scenario's times; None if it has no target.

        Several scenarios have none together, as what one has left helps no other.
        """
        if len(by_scenario) != 1:
            return None
        [(name, own)] = by_scenario.items()
        target = self.targets.get(name)
        if target is None or target.percent is None:
            return None
        whole = round((100 - target.percent) * (own.good + own.bad) / 100)
        return ErrorBudget(target.percent, whole, whole - own.bad)

    # ---- targets --------------------------------------------------------------------------------

    def _statuses(self, now: TimesOf, part: PeriodData) -> Iterator[TargetStatus]:
        """Yield how the scenarios that have a target did."""
        for name in self.names:
            figures = self._scenario_in(name, part)
            if figures.budget is not None:
                yield TargetStatus(
                    name,
                    scenarios()[name].title,
                    figures,
                    figures.budget,
                    tuple(self._line(name, now.counted[name], figures.budget)),
                    tuple(self.burns(name, figures.budget.target, BURN_WINDOWS)),
                )

    def _line(self, name: str, own: ScopeTimes, budget: ErrorBudget) -> Iterator[BudgetPoint]:
        """Yield how much of a budget was left by the end of each day, or hour of a single day."""
        begin, end = self.spans.now
        if begin >= end:
            return
        gone, left = self._unobserved([name], self.spans.now), budget.whole
        yield BudgetPoint(begin, left, seen=True)
        for since, until, bad in self._steps(own):
            left = budget.left if until == end else left - bad
            yield BudgetPoint(until, left, ms_within(gone, since, until) < until - since)

    def _steps(self, own: ScopeTimes) -> Iterator[tuple[int, int, int]]:
        """Yield begin, end and bad time of the days of the period, or of the hours of its day."""
        period, span = self.question.period, self.spans.now
        if period.days == 1:
            for slot, same in groupby(hours_within(*span, self.zone), slot_of):
                hours = list(same)  # two, if the clock is put back
                yield hours[0].begin, hours[-1].end, own.slots[slot]
            return
        for n in range(period.first.toordinal(), period.after.toordinal()):
            begin, end = (begin_of(date.fromordinal(day), self.zone) for day in (n, n + 1))
            if begin < span.end:
                yield begin, min(end, span.end), own.days[n]

    def burns(self, name: str, target: float, windows: Iterable[int]) -> Iterator[Burn]:
        """Yield how fast a scenario's budget was spent in windows (ms) at the end of what is
        counted; nothing for a time to come."""
        end = self.spans.now.end
        for window in windows if self.spans.now.ms else ():
            span = Span(end - window, end)
            rate = burn_rate(times_within(self._scope(name, span)), target)
            yield Burn(window, rate, self._observed([name], span))

    # ---- lists ----------------------------------------------------------------------------------

    def _heat(self, of_scenarios: Iterable[ScopeTimes], gone: Gaps) -> tuple[HeatDay, ...]:
        period = self.question.period
        days = sum((own.days for own in of_scenarios), Counter[int]())
        dates = (period.first + timedelta(days=n) for n in range(period.days))
        return tuple(self._heat_day(day, days[day.toordinal()], gone) for day in dates)

    def _heat_day(self, day: date, bad: int, gone: Gaps) -> HeatDay:
        begin = begin_of(day, self.zone)
        end = min(begin_of(day + timedelta(days=1), self.zone), self.spans.now.end)
        unseen, ms = ms_within(gone, begin, end), max(0, end - begin)
        return HeatDay(day, bad if unseen < ms else None, ms, unseen)

    def _worst(self, times: TimesOf) -> tuple[WorstAsset, ...]:
        rows: list[Row] = []
        for name in self.counting:
            scope = self._scope(name, self.spans.now)
            own = worst(scope, MOST_WORST, times.counted[name].tail)
            if self.ahead:
                worst(scope.an_hour_on, MOST_WORST, times.counted[name].tail)
            rows += [(name, asset, own[asset]) for asset in own]
        rows = [row for row in rows if row[2].bad or row[2].unconfirmed]
        rows.sort(key=lambda row: (-row[2].bad, -row[2].unconfirmed, row[0], row[1]))
        return self._described(rows[:MOST_WORST])

    def _described(self, rows: list[Row]) -> tuple[WorstAsset, ...]:
        numbers_of: dict[tuple[str, str], int] = {}
        before: dict[tuple[str, str], int] = {}
        seen = {n: self._observed([n], self.spans.before).seen for n in self.counting}
        for name in self.counting:
            assets = [asset for scenario, asset, _ in rows if scenario == name]
            if assets:
                numbers = summary_incident_figures.numbers_of(name, assets, self.spans.now)
                numbers_of |= {(name, asset): n for asset, n in numbers.items()}
                known = times_of(self._scope(name, self.spans.before), assets)
                before |= {(name, asset): own.bad for asset, own in known.items()}
        return tuple(
            WorstAsset(
                name,
                asset,
                own.bad,
                own.unconfirmed,
                numbers_of.get((name, asset), 0),
                before.get((name, asset), 0) if seen[name] else None,
            )
            for name, asset, own in rows
        )

    def _longest(self, span: Span, ids: Sequence[int]) -> tuple[LongIncident, ...]:
        """Return the incidents with the longest part in the period."""
        value_of = self._value_of if self.question.label else None
        return tuple(
            LongIncident(
                row.pk,
                row.scenario,
                row.asset,
                value_of(row.scenario, row.asset) if value_of else "",
                row.worst,
                row.began_at,
                row.ended_at,
                row.acknowledged_at,
                row.acknowledged_by,
                summary_incident_figures.within(row, span),
            )
            for row in summary_incident_figures.rows_of(ids)
        )


def _added(times: Iterable[Times]) -> Times:
    total = Times()
    for own in times:
        total = total.plus(own)
    return total


def burn_rate(times: Times, target: float) -> float | None:
    """Return how many times faster than the target (percent) allows the time is bad; None if that
    is not known."""
    allowed = (100 - target) / 100
    if times.availability is None or not allowed:
        return None
    return (1 - times.availability) / allowed


def _figures(
    times: Times,
    own: summary_incident_figures.IncidentTotals,
    budget: ErrorBudget | None,
    false_alarms: int | None,
    observed: Observed,
) -> Figures:
    return Figures(
        times=times,
        incidents=own.incidents,
        assets=own.assets,
        budget=budget,
        acknowledged=own.acknowledged,
        cleared=own.cleared,
        flapping=own.flapping,
        false_alarms=false_alarms,
        observed=observed,
    )


class Week:
    """The hours of the week in a time. gone: the parts that were not observed."""

    def __init__(self, span: Span, gone: Gaps, zone: ZoneInfo) -> None:
        self._unobserved: Counter[int] = Counter()
        for hour in (hour for each in gone for hour in hours_within(*each, zone)):
            self._unobserved[slot_of(hour)] += hour.end - hour.begin
        self._seen: set[int] = set()
        for begin, end in rest(gone, span):  # eight days include every hour of a week
            these = hours_within(begin, min(end, begin + 8 * DAY_MS), zone)
            self._seen |= {slot_of(hour) for hour in these}

    def bad(self, of_scenarios: Iterable[ScopeTimes]) -> tuple[tuple[int | None, ...], ...]:
        """Return bad time by weekday and hour, ms; None where nothing was observed."""
        slots = sum((own.slots for own in of_scenarios), Counter[int]())
        return _by_day([slots[n] if n in self._seen else None for n in range(7 * 24)])

    def unobserved(self) -> tuple[tuple[int, ...], ...]:
        """Return unobserved time by weekday and hour, ms."""
        return _by_day([self._unobserved[n] for n in range(7 * 24)])


def _by_day(slots: Sequence[T]) -> tuple[tuple[T, ...], ...]:
    return tuple(tuple(slots[24 * day : 24 * day + 24]) for day in range(7))
