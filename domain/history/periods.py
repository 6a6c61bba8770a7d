"""Periods of a calendar in a time zone: days, ISO weeks, months, quarters, years, or any dates.

A time is a number of ms since 1970 (Unix ms). A day begins with its first instant in the zone: a
clock that is put forward at midnight begins it at one o'clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

DAY, WEEK, MONTH, QUARTER, YEAR, DATES = "day", "week", "month", "quarter", "year", "dates"
UNITS = (DAY, WEEK, MONTH, QUARTER, YEAR)
MONTHS = {MONTH: 1, QUARTER: 3, YEAR: 12}
MAX_DAYS = 3_660
"""Longest period of dates that is counted, days."""
FIRST_DAY, LAST_DAY = date(1990, 1, 1), date(2200, 12, 31)
"""The days of which periods are counted."""


class Span(NamedTuple):
    """A time from `begin` to before `end`, Unix ms."""

    begin: int
    end: int

    @property
    def ms(self) -> int:
        """How long it lasts, ms."""
        return max(0, self.end - self.begin)


class Period(NamedTuple):
    """Days of a calendar: `first`, and those up to before `after`. unit: of UNITS, or DATES."""

    unit: str
    first: date
    after: date

    @property
    def days(self) -> int:
        """How many days it has."""
        return (self.after - self.first).days

    @property
    def last(self) -> date:
        """Its last day."""
        return self.after - timedelta(days=1)

    @property
    def before(self) -> Period:
        """The same unit before; of dates, as many days."""
        if self.unit == DATES:
            return Period(DATES, self.first - timedelta(days=self.days), self.first)
        return containing(self.unit, self.first - timedelta(days=1))

    @property
    def next(self) -> Period:
        """The same unit after it; of dates, as many days."""
        if self.unit == DATES:
            return Period(DATES, self.after, self.after + timedelta(days=self.days))
        return containing(self.unit, self.after)

    @property
    def title(self) -> str:
        """Its name: `31 January 2026`, `Week 5 of 2026`, `January 2026`, `Quarter 1 of 2026`."""
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
        """Return when it begins and ends in a zone."""
        return Span(begin_of(self.first, zone), begin_of(self.after, zone))


def containing(unit: str, day: date) -> Period:
    """Return the day, ISO week, month, quarter or year that a day is in. Raises ValueError for
    another unit."""
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
    """Return the days from `first` to `last`, both included. Raises ValueError for none, and for
    more than MAX_DAYS."""
    days = (last - first).days + 1
    if not 1 <= days <= MAX_DAYS:
        raise ValueError(f"expected 1 to {MAX_DAYS} days, got {days}")
    return Period(DATES, first, last + timedelta(days=1))


# ---- instants of a zone -------------------------------------------------------------------------


def begin_of(day: date, zone: ZoneInfo) -> int:
    """Return the first instant of a day in a zone, Unix ms."""
    return int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp() * 1000)


def day_of(at: int, zone: ZoneInfo) -> date:
    """Return the day that a time is in."""
    return local(at, zone).date()


def local(at: int, zone: ZoneInfo) -> datetime:
    """Return a time as a clock in the zone shows it, to the second."""
    return datetime.fromtimestamp(at // 1000, UTC).astimezone(zone)


class Hour(NamedTuple):
    """An hour as a clock of a zone shows it. begin, end: Unix ms; hour: 0 to 23.

    Where the clock is put back an hour comes twice; one that is put back by less than an hour makes
    a short one.
    """

    begin: int
    end: int
    day: date
    hour: int


def hours(begin: int, end: int, zone: ZoneInfo) -> Iterator[Hour]:
    """Yield the hours that make up the time from `begin` to `end`, the first and last wholly."""
    at = hour_begin(begin, zone) if begin < end else end
    while at < end:
        shown = local(at, zone)
        after = at + (3600 - shown.minute * 60 - shown.second) * 1000
        yield Hour(at, after, shown.date(), shown.hour)
        at = after


def hours_within(begin: int, end: int, zone: ZoneInfo) -> list[Hour]:
    """Return the hours between two times, Unix ms; those at both ends only as far as they are."""
    return [
        hour._replace(begin=max(hour.begin, begin), end=min(hour.end, end))
        for hour in hours(begin, end, zone)
    ]


def hour_begin(at: int, zone: ZoneInfo) -> int:
    """Return when the hour began that a clock of the zone shows, Unix ms."""
    shown = local(at, zone)
    begin = at // 1000 * 1000 - (shown.minute * 60 + shown.second) * 1000
    changed = local(begin, zone)
    if changed.minute or changed.second:  # the clock was changed meanwhile, by a part of an hour
        begin += (3600 - changed.minute * 60 - changed.second) * 1000
    return begin


# ---- clipped at now -----------------------------------------------------------------------------


class PeriodComparison(NamedTuple):
    """The time that is counted of a period, and of the one before it to compare with.

    running: whether the period goes on; then both end after the same time.
    """

    now: Span
    before: Span
    running: bool


def compared(period: Period, zone: ZoneInfo, now: int) -> PeriodComparison:
    """Return what is counted at a time (Unix ms) of a period and of the one before it."""
    whole, before = period.span(zone), period.before.span(zone)
    if now >= whole.end:
        return PeriodComparison(whole, before, running=False)
    until = max(whole.begin, now)
    passed = min(before.begin + until - whole.begin, before.end)
    return PeriodComparison(Span(whole.begin, until), Span(before.begin, passed), running=True)


def _day_title(day: date) -> str:
    return f"{day.day} {day:%B %Y}"
