"""Calendar periods in a time zone: days, ISO weeks, months, quarters, years, or any dates.

Times are Unix ms. A day begins with its first instant in the zone: if the clock is put forward at
midnight, the day begins at one o'clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from domain.wall_clock import wall_time

DAY, WEEK, MONTH, QUARTER, YEAR, DATES = "day", "week", "month", "quarter", "year", "dates"
UNITS = (DAY, WEEK, MONTH, QUARTER, YEAR)
MONTHS = {MONTH: 1, QUARTER: 3, YEAR: 12}
MAX_DAYS = 3_660
"""Longest period of dates that is counted, days."""
FIRST_DAY, LAST_DAY = date(1990, 1, 1), date(2200, 12, 31)
"""First and last day of the range in which periods are counted."""


class Span(NamedTuple):
    """The time from `begin` up to, but not including, `end`, Unix ms."""

    begin: int
    end: int

    @property
    def ms(self) -> int:
        """Length in ms."""
        return max(0, self.end - self.begin)


class Period(NamedTuple):
    """The days of a calendar from `first` up to, but not including, `after`. unit: one of UNITS, or
    DATES."""

    unit: str
    first: date
    after: date

    @property
    def days(self) -> int:
        """Number of days."""
        return (self.after - self.first).days

    @property
    def last(self) -> date:
        """The last day."""
        return self.after - timedelta(days=1)

    @property
    def before(self) -> Period:
        """The previous period: the unit before, or as many days for DATES."""
        if self.unit == DATES:
            return Period(DATES, self.first - timedelta(days=self.days), self.first)
        return containing(self.unit, self.first - timedelta(days=1))

    @property
    def next(self) -> Period:
        """The following period: the unit after, or as many days for DATES."""
        if self.unit == DATES:
            return Period(DATES, self.after, self.after + timedelta(days=self.days))
        return containing(self.unit, self.after)

    @property
    def title(self) -> str:
        """The name: `31 January 2026`, `Week 5 of 2026`, `January 2026`, `Quarter 1 of 2026`."""
        if self.unit == WEEK:
            year, week, _ = self.first.isocalendar()
            return f"Week {week} of {year}"
        if self.unit == MONTH:
            return f"{self.first:%B %Y}"
        if self.unit == QUARTER:
            return f"Quarter {(self.first.month + 2) // 3} of {self.first.year}"
        if self.unit == YEAR:
            return str(self.first.year)
        if self.days == 1:
            return _day_title(self.first)
        return f"{_day_title(self.first)} to {_day_title(self.last)}"

    def span(self, zone: ZoneInfo) -> Span:
        """Return the span of the period in a zone."""
        return Span(begin_of(self.first, zone), begin_of(self.after, zone))


def containing(unit: str, day: date) -> Period:
    """Return the day, ISO week, month, quarter or year that contains a day.

    Raises ValueError for any other unit.
    """
    if unit == DAY:
        return Period(DAY, day, day + timedelta(days=1))
    if unit == WEEK:
        first = day - timedelta(days=day.weekday())
        return Period(WEEK, first, first + timedelta(days=7))
    if unit not in MONTHS:
        raise ValueError(f"expected one of {', '.join(UNITS)}, got {unit!r}")
    months = MONTHS[unit]
    month = (day.month - 1) // months * months
    after = month + months
    return Period(
        unit,
        date(day.year, month + 1, 1),
        date(day.year + after // 12, after % 12 + 1, 1),
    )


def between(first: date, last: date) -> Period:
    """Return the period from `first` to `last`, both included.

    Raises ValueError if it has no days or more than MAX_DAYS.
    """
    days = (last - first).days + 1
    if not 1 <= days <= MAX_DAYS:
        raise ValueError(f"expected 1 to {MAX_DAYS} days, got {days}")
    return Period(DATES, first, last + timedelta(days=1))


# ---- instants of a zone -------------------------------------------------------------------------


def begin_of(day: date, zone: ZoneInfo) -> int:
    """Return the first instant of a day in a zone, Unix ms."""
    return wall_time(day, time(), zone)


def day_of(at: int, zone: ZoneInfo) -> date:
    """Return the day in a zone that contains a time, Unix ms."""
    return local(at, zone).date()


def local(at: int, zone: ZoneInfo) -> datetime:
    """Return a time, Unix ms, as the zone's local time, to the second."""
    return datetime.fromtimestamp(at // 1000, UTC).astimezone(zone)


class Hour(NamedTuple):
    """An hour of local time in a zone. begin, end: Unix ms; hour: 0 to 23.

    When the clock is put back, an hour occurs twice; when it is put back by less than an hour, the
    result includes a short one.
    """

    begin: int
    end: int
    day: date
    hour: int


def hours(begin: int, end: int, zone: ZoneInfo) -> Iterator[Hour]:
    """Yield the hours that cover the time from `begin` to `end`, Unix ms; the first and last in
    full."""
    at = hour_begin(begin, zone) if begin < end else end
    while at < end:
        shown = local(at, zone)
        after = at + (3600 - shown.minute * 60 - shown.second) * 1000
        yield Hour(at, after, shown.date(), shown.hour)
        at = after


def hours_within(begin: int, end: int, zone: ZoneInfo) -> list[Hour]:
    """Return the hours between two times, Unix ms, cutting off the first and the last at these
    times."""
    return [
        hour._replace(begin=max(hour.begin, begin), end=min(hour.end, end))
        for hour in hours(begin, end, zone)
    ]


def hour_begin(at: int, zone: ZoneInfo) -> int:
    """Return when the zone's local hour containing a time began, Unix ms."""
    shown = local(at, zone)
    begin = at // 1000 * 1000 - (shown.minute * 60 + shown.second) * 1000
    changed = local(begin, zone)
    if changed.minute or changed.second:  # the clock was changed in between, by part of an hour
        begin += (3600 - changed.minute * 60 - changed.second) * 1000
    return begin


# ---- clipped at now -----------------------------------------------------------------------------


class PeriodComparison(NamedTuple):
    """The spans counted in a period and, for comparison, in the one before it.

    running: whether the period is still running; if so, both spans cover the same length of time.
    """

    now: Span
    before: Span
    running: bool


def compared(period: Period, zone: ZoneInfo, now: int) -> PeriodComparison:
    """Return the spans of a period and of the one before it that are counted at `now`, Unix ms."""
    whole, before = period.span(zone), period.before.span(zone)
    if now >= whole.end:
        return PeriodComparison(whole, before, running=False)
    until = max(whole.begin, now)
    passed = min(before.begin + until - whole.begin, before.end)
    return PeriodComparison(Span(whole.begin, until), Span(before.begin, passed), running=True)


def _day_title(day: date) -> str:
    return f"{day.day} {day:%B %Y}"
