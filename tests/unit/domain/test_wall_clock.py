"""Times of day by the clocks of every zone, on the days on which they change."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest

from domain.history.periods import begin_of
from domain.notifications.hours import Hours
from domain.wall_clock import MOST_WEEKS, wall_time, weekly
from support.run.selection import sampled

DAY, WEEK = timedelta(days=1), timedelta(weeks=1)
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
YEARS = range(2025, 2035)
ZONES = sorted(available_timezones())
PEAKS = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca",
         "America/Havana", "Asia/Beirut", "Atlantic/Azores", "Antarctica/Troll"]  # fmt: skip
"""Zones that change by half an hour or two, at midnight, before it, or four times a year."""

SPANS = [
    (time(22), time(6)), (time(0), time(0)), (time(1, 30), time(2, 30)), (time(2, 30), time(3, 15)),
    (time(2, 10), time(2, 50)), (time(23, 45), time(0, 15)), (time(0, 30), time(1, 30)),
]  # fmt: skip


@cache
def changes(name: str) -> tuple[date, ...]:
    """The days on which the clocks of a zone change."""
    zone, day = ZoneInfo(name), date(YEARS.start, 1, 1)
    noons = [
        datetime.combine(day + DAY * n, time(12), zone)
        for n in range((YEARS.stop - YEARS.start) * 365)
    ]
    pairs = pairwise(noons)
    return tuple(two.date() for one, two in pairs if one.utcoffset() != two.utcoffset())


def shown(at: int, name: str) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC).astimezone(ZoneInfo(name)).replace(tzinfo=None)


def is_first(at: int, expected: datetime, name: str) -> bool:
    """Whether the clocks show a time at a moment, or are put forward past it, and never before."""
    if shown(at, name) < expected or shown(at - 1, name) >= expected:
        return False
    earlier = range(at - 4 * HOUR_MS, at, 15 * MINUTE_MS)
    return all(shown(each, name) < expected for each in earlier)


def around(names: list[str]) -> Iterator[tuple[str, date]]:
    """The days before, on and after a change of clocks."""
    for name in names:
        for day in changes(name):
            for n in (-1, 0, 1):
                yield name, day + n * DAY


def test_it_begins_and_ends_at_the_same_times_of_day_in_every_zone() -> None:
    names = [*PEAKS, *sampled([name for name in ZONES if name not in PEAKS], 12)]
    wrong = []
    for name, day in around(names):
        zone, first = ZoneInfo(name), day - WEEK
        for begin, end in SPANS:
            ends = first + DAY if end <= begin else first
            span = wall_time(first, begin, zone), wall_time(ends, end, zone)
            if (first in changes(name) or ends in changes(name)) or span[0] >= span[1]:
                continue
            _, (low, high) = weekly(*span, name, day)
            begun = datetime.combine(day, begin)
            over = datetime.combine(ends + WEEK, end)
            if not is_first(low, begun, name) or low >= high:
                wrong.append((name, begun, shown(low, name)))
            elif not is_first(high, over, name) and high - low != span[1] - span[0]:
                wrong.append((name, over, shown(high, name)))
    assert wrong == []


@pytest.mark.parametrize("name", PEAKS)
def test_days_and_hours_of_rules_follow_the_same_clocks(name: str) -> None:
    zone = ZoneInfo(name)
    for _, day in around([name]):
        assert is_first(begin_of(day, zone), datetime.combine(day, time()), name)
        hours = Hours(name, frozenset(range(7)), 22 * 60, 6 * 60)
        began = wall_time(day, time(22), zone)
        assert hours.next_edge(began - 1) == began
        assert hours.next_edge(began) == wall_time(day + DAY, time(6), zone)


def ms(text: str) -> int:
    return int(datetime.fromisoformat(f"{text}Z").timestamp() * 1000)


@pytest.mark.parametrize(
    ("clock", "at"),
    [
        (time(1, 59), "2027-03-28T00:59"),
        (time(2, 30), "2027-03-28T01:00"),  # skipped: clocks are put forward at 2:00
        (time(3), "2027-03-28T01:00"),
        (time(3, 30), "2027-03-28T01:30"),
    ],
)
def test_a_time_that_is_skipped_is_when_clocks_are_put_forward(clock: time, at: str) -> None:
    assert wall_time(date(2027, 3, 28), clock, ZoneInfo("Europe/Berlin")) == ms(at)


def test_of_a_time_that_comes_twice_it_is_the_first() -> None:
    assert wall_time(date(2027, 10, 31), time(2, 30), ZoneInfo("Europe/Berlin")) == ms(
        "2027-10-31T00:30"
    )


def test_what_clocks_are_put_forward_past_is_as_long_as_ever() -> None:
    spans = weekly(
        ms("2027-03-21T01:10"), ms("2027-03-21T01:50"), "Europe/Berlin", date(2027, 3, 28)
    )
    assert spans[1] == (ms("2027-03-28T01:00"), ms("2027-03-28T01:40"))


def test_the_first_time_is_as_it_was_given() -> None:
    again = ms("2027-10-31T01:30"), ms("2027-10-31T01:45")  # 2:30 for the second time that day
    assert weekly(*again, "Europe/Berlin", date(2027, 11, 1)) == [again]


def test_days_are_left_out_by_the_calendar_of_the_zone() -> None:
    begin = ms("2026-12-17T23:30")  # the 18th in Berlin
    span = begin, begin + HOUR_MS
    spans = weekly(*span, "Europe/Berlin", date(2027, 1, 8), {date(2026, 12, 25)})
    assert [low for low, _ in spans] == [begin, ms("2026-12-31T23:30"), ms("2027-01-07T23:30")]
    assert len(weekly(*span, "UTC", date(9999, 1, 1), every=2)) == (MOST_WEEKS + 1) // 2
