"""The charts of a summary: calendar, week, timelines, bars. Their figures are all in words too.
Lengths within a chart are in its own units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from itertools import groupby, pairwise
from math import ceil
from typing import Any, NamedTuple

from dashboard.core.common.times import MINUTE_MS, duration
from dashboard.core.states.board_rows import asset_path
from dashboard.notify.summaries.figures import (
    ErrorBudget,
    HeatDay,
    LongIncident,
    PeriodSummary,
    TargetStatus,
)
from dashboard.notify.summaries.phrases import NOT_OBSERVED, length
from domain.history.periods import DAY, Span, containing

LEVELS = 4
"""Shades of bad time, besides the one for none."""
MOST_WEEKS_AS_ROWS = 6
"""A calendar with more weeks shows them as columns."""
MOST_TIMELINES = 12
"""Most assets with a timeline."""
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
WIDTH = 1_000
"""The width of a timeline, in its own units."""


class Cell(NamedTuple):
    """A part of a calendar or of a week. level: 0 to LEVELS, -1 if nothing was observed; words: its
    full description, for tooltips and screen readers; text: its content; address: "" for none;
    partly: whether a part of it was not observed."""

    level: int
    words: str
    text: str = ""
    address: str = ""
    partly: bool = False

    @property
    def css(self) -> str:
        """The classes for its colour and hatching."""
        return f"level-{self.level}{' partly' if self.partly else ''}"


class Grid(NamedTuple):
    """Rows of cells with their headers. wide: whether its cells are too small for text."""

    heads: tuple[str, ...]
    rows: list[tuple[str, list[Cell | None]]]
    legend: list[tuple[int, str]]
    wide: bool
    hatched: bool


def calendar(days: Sequence[HeatDay], query_of_day: Any) -> Grid | None:
    """Return the days of a period as a calendar, None for a single day. query_of_day: returns the
    address of a day's own summary."""
    if len(days) < 2:
        return None
    most = max((each.bad or 0 for each in days), default=0)
    weeks = [list(of_week) for _, of_week in groupby(days, key=lambda each: _monday(each.day))]
    wide = len(weeks) > MOST_WEEKS_AS_ROWS
    cells = [_days_of_week(week, most, query_of_day, wide=wide) for week in weeks]
    titles = [_week_title(week[0].day) for week in weeks]
    if wide:
        columns = [[week[n] for week in cells] for n in range(7)]
        heads = tuple(_month_head(week, n, weeks) for n, week in enumerate(weeks))
        rows = list(zip(WEEKDAYS, columns, strict=True))
    else:
        heads, rows = WEEKDAYS, list(zip(titles, cells, strict=True))
    hatched = any(each.bad is None or each.unobserved for each in days)
    return Grid(heads, rows, _legend(most), wide, hatched)


def week(summary: PeriodSummary) -> Grid | None:
    """Return the hours of a week, with a row for each weekday of the period.

    None if nothing was bad and all was observed, or if the time has not begun.
    """
    weekdays = sorted({each.day.weekday() for each in summary.heat})
    sums = [summary.week[n] for n in weekdays]
    unobserved = [summary.week_unobserved[n] for n in weekdays]
    most = max((ms or 0 for day in sums for ms in day), default=0)
    hatched = any(ms is None for day in sums for ms in day) or any(map(any, unobserved))
    if not summary.span.ms or not (most or hatched):
        return None
    rows: list[tuple[str, list[Cell | None]]] = [
        (name, [_hour_cell(name, *hour, most) for hour in zip(range(24), day, gone, strict=True)])
        for name, day, gone in zip((WEEKDAYS[n] for n in weekdays), sums, unobserved, strict=True)
    ]
    heads = tuple(f"{hour:02d}" for hour in range(24))
    return Grid(heads, rows, _legend(most), wide=True, hatched=hatched)


def _hour_cell(weekday: str, hour: int, ms: int | None, unobserved: int, most: int) -> Cell:
    name = f"{weekday} {hour:02d}:00 to {hour + 1:02d}:00"
    if ms is None:
        return Cell(-1, f"{name}: {NOT_OBSERVED}")
    words = f"{name}: {_bad(ms)}{_without(unobserved)}"
    return Cell(_level(ms, most), words, partly=bool(unobserved))


def _bad(ms: int) -> str:
    return f"{duration(ms) if ms else 'nothing'} in bad states"


def _without(unobserved: int) -> str:
    return f", {duration(unobserved)} {NOT_OBSERVED}" if unobserved else ""


def _days_of_week(
    week: Sequence[HeatDay], most: int, query_of_day: Any, *, wide: bool
) -> list[Cell | None]:
    cells: list[Cell | None] = [None] * 7
    for each in week:
        title = f"{each.day:%A} {each.day}"
        text = "" if wide else str(each.day.day)
        if each.bad is None:
            cells[each.day.weekday()] = Cell(-1, f"{title}: {NOT_OBSERVED}", text)
            continue
        words = f"{title}: {_bad(each.bad)}{_without(each.unobserved)}"
        cells[each.day.weekday()] = Cell(
            _level(each.bad, most),
            words,
            text,
            query_of_day(containing(DAY, each.day)),
            partly=bool(each.unobserved),
        )
    return cells


def _level(ms: int, most: int) -> int:
    return ceil(LEVELS * ms / most) if ms else 0


def _legend(most: int) -> list[tuple[int, str]]:
    if not most:
        return [(0, "nothing")]
    steps = [(level, f"up to {duration(most * level // LEVELS)}") for level in range(1, LEVELS + 1)]
    return [(0, "nothing"), *steps]


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


def _week_title(day: date) -> str:
    return f"Week {day.isocalendar().week}"


def _month_head(week: Sequence[HeatDay], n: int, weeks: Sequence[Sequence[HeatDay]]) -> str:
    """Return the name of the month that begins in a week, "" if none does."""
    last = weeks[n - 1][-1].day.month if n else 0
    return f"{week[-1].day:%b}" if week[-1].day.month != last else ""


# ---- timelines ----------------------------------------------------------------------------------


class IncidentBar(NamedTuple):
    """An incident on a timeline."""

    x: float
    width: float
    colour: str
    words: str


class ChartTimeline(NamedTuple):
    """The incidents of an asset. ms: how much of them lies in the period."""

    asset: str
    url: str
    ms: int
    lasted: str
    incidents: int
    pieces: list[IncidentBar]


def timelines(summary: PeriodSummary, scenarios: Any) -> list[ChartTimeline]:
    """Return the timelines of the assets with most time in incidents, at most MOST_TIMELINES."""
    of_asset: dict[tuple[str, str], list[LongIncident]] = {}
    for each in summary.incidents:
        of_asset.setdefault((each.scenario, each.asset), []).append(each)
    rows = [
        _timeline(incidents, summary.span, scenarios[scenario])
        for (scenario, _), incidents in of_asset.items()
        if scenario in scenarios
    ]
    return sorted(rows, key=lambda row: (-row.ms, row.asset))[:MOST_TIMELINES]


def _timeline(incidents: list[LongIncident], span: Span, scenario: Any) -> ChartTimeline:
    first, ms = incidents[0], sum(each.within for each in incidents)
    pieces = [_piece(each, span, scenario) for each in incidents]
    url = asset_path(first.scenario, first.asset)
    return ChartTimeline(first.asset, url, ms, length(ms), len(incidents), pieces)


def _piece(incident: LongIncident, span: Span, scenario: Any) -> IncidentBar:
    begin = max(incident.began_at, span.begin)
    unit = WIDTH / max(1, span.ms)
    spec = scenario.spec(incident.worst)
    words = f"{spec.label}, {length(incident.within)}"
    x = (begin - span.begin) * unit
    return IncidentBar(round(x, 1), max(3.0, round(incident.within * unit, 1)), spec.colour, words)


# ---- bars and lines -----------------------------------------------------------------------------


def bar(budget: ErrorBudget | None) -> int | None:
    """Return how much of an error budget is left for a bar, 0 to 100; None without a budget."""
    if budget is None or budget.share is None:
        return None
    return round(100 * min(1.0, max(0.0, budget.share)))


class BudgetLine(NamedTuple):
    """The line of an error budget. points: x and y, for SVG; zero: the height at which nothing is
    left; gaps: x and width of what was not observed; words: a description."""

    points: str
    zero: float
    gaps: list[tuple[float, float]]
    words: str


HEIGHT = 40
"""The height of a line, in its own units."""


def budget_line(status: TargetStatus) -> BudgetLine | None:
    """Return the line of an error budget over the period; None before that has begun."""
    line = status.line
    if len(line) < 2:
        return None
    begin, low = line[0].at, min(0, *(each.left for each in line))
    unit, high = WIDTH / (line[-1].at - begin), max(1, status.budget.whole - low)

    def height(left: int) -> float:
        return round((status.budget.whole - left) * HEIGHT / high, 1)

    points = " ".join(f"{(at - begin) * unit:.1f},{height(left)}" for at, left, _ in line)
    unseen = [
        (round((one.at - begin) * unit, 1), round((two.at - one.at) * unit, 1))
        for one, two in pairwise(line)
        if not two.seen
    ]
    words = f"{length(status.budget.whole)} at first, {length(status.budget.left)} left"
    return BudgetLine(points, height(0), unseen, words)


def plotted(summary: PeriodSummary) -> dict[str, Any]:
    """Return the data of the charts that a script draws: minutes in bad states, by day and by hour;
    null where nothing was observed."""
    by_hour = (
        [_sum(day[hour] for day in summary.week) for hour in range(24)] if summary.week else []
    )
    return {
        "days": {
            "labels": [str(each.day) for each in summary.heat],
            "minutes": [_minutes(each.bad) for each in summary.heat],
        },
        "hours": {
            "labels": [f"{hour:02d}:00" for hour in range(len(by_hour))],
            "minutes": [_minutes(ms) for ms in by_hour],
        },
    }


def _sum(parts: Iterable[int | None]) -> int | None:
    """Return the sum of what was observed; None if nothing was."""
    known = [ms for ms in parts if ms is not None]
    return sum(known) if known else None


def _minutes(ms: int | None) -> float | None:
    return None if ms is None else round(ms / MINUTE_MS, 1)


def gaps(summary: PeriodSummary) -> list[tuple[float, float]]:
    """Return where on a timeline nothing was observed, and how wide each part is."""
    unit = WIDTH / max(1, summary.span.ms)
    return [
        (round((each.begin - summary.span.begin) * unit, 1), round(each.ms * unit, 1))
        for each in summary.unobserved
    ]
