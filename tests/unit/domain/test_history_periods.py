"""Periods of a calendar in a zone, against a clock that is looked at every minute."""

from __future__ import annotations

import itertools
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from domain.history.periods import (
    MAX_DAYS,
    UNITS,
    Span,
    begin_of,
    between,
    compared,
    containing,
    day_of,
    hour_begin,
    hours,
    hours_within,
)
from support.web.clocks import at

MINUTE, HOUR = 60_000, 3_600_000
ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "America/Havana",
    "America/Santiago",
)
zones = st.sampled_from(ZONES).map(ZoneInfo)
days = st.dates(date(2024, 1, 1), date(2027, 12, 31))


@given(zones, days)
@example(ZoneInfo("Africa/Cairo"), date(2026, 4, 24))
@example(ZoneInfo("America/Havana"), date(2026, 11, 1))
@example(ZoneInfo("Australia/Lord_Howe"), date(2026, 4, 5))
def test_a_day_begins_with_its_first_instant(zone: ZoneInfo, day: date):
    begin = begin_of(day, zone)
    assert datetime.fromtimestamp(begin / 1000, zone).date() == day
    assert datetime.fromtimestamp(begin / 1000 - 1, zone).date() == day - timedelta(days=1)
    assert day_of(begin, zone) == day


@given(zones, days)
@example(ZoneInfo("Australia/Lord_Howe"), date(2026, 4, 5))
@example(ZoneInfo("Australia/Lord_Howe"), date(2026, 10, 4))
@example(ZoneInfo("America/Havana"), date(2026, 11, 1))
def test_the_hours_of_a_day_are_those_that_a_clock_shows(zone: ZoneInfo, day: date):
    begin, end = begin_of(day, zone), begin_of(day + timedelta(days=1), zone)
    listed = list(hours(begin, end, zone))
    assert (listed[0].begin, listed[-1].end) == (begin, end)
    for before, after in itertools.pairwise(listed):
        assert before.end == after.begin
    for hour in listed:
        assert 0 < hour.end - hour.begin <= HOUR
        for moment in range(hour.begin, hour.end, MINUTE):
            shown = datetime.fromtimestamp(moment / 1000, zone)
            assert (shown.date(), shown.hour) == (hour.day, hour.hour)
            assert hour_begin(moment, zone) == hour.begin


def test_hours_are_cut_off_at_both_ends():
    zone = ZoneInfo("UTC")
    first, second = hours_within(90 * MINUTE, 130 * MINUTE, zone)
    assert (first.begin, first.end) == (90 * MINUTE, 120 * MINUTE)
    assert (second.begin, second.end) == (120 * MINUTE, 130 * MINUTE)
    assert hours_within(5, 5, zone) == []


@given(st.sampled_from(UNITS), days)
def test_a_period_has_its_day_and_meets_its_neighbours(unit: str, day: date):
    period = containing(unit, day)
    assert period.first <= day < period.after
    assert period.before.after == period.first
    assert period.next.first == period.after
    assert period.next.before == period
    assert containing(unit, period.last) == period


@pytest.mark.parametrize(
    ("unit", "first", "days_", "title"),
    [
        ("day", date(2026, 2, 28), 1, "28 February 2026"),
        ("week", date(2025, 12, 29), 7, "Week 1 of 2026"),
        ("month", date(2024, 2, 1), 29, "February 2024"),
        ("quarter", date(2026, 10, 1), 92, "Quarter 4 of 2026"),
        ("year", date(2026, 1, 1), 365, "2026"),
    ],
)
def test_periods_have_names(unit: str, first: date, days_: int, title: str):
    period = containing(unit, first + timedelta(days=days_ - 1))
    assert (period.first, period.days, period.title) == (first, days_, title)


def test_dates_are_compared_with_as_many_days_before():
    period = between(date(2026, 3, 10), date(2026, 3, 31))
    assert (period.days, period.title) == (22, "10 March 2026 to 31 March 2026")
    assert (period.before.first, period.before.last) == (date(2026, 2, 16), date(2026, 3, 9))
    for last in (date(2026, 3, 9), date(2026, 3, 10) + timedelta(days=MAX_DAYS)):
        with pytest.raises(ValueError, match="days"):
            between(date(2026, 3, 10), last)
    with pytest.raises(ValueError, match="expected one of day"):
        containing("decade", date(2026, 1, 1))


def test_a_day_on_which_the_clock_changes_is_shorter_or_longer():
    zone = ZoneInfo("Europe/Berlin")
    lengths = [
        containing("day", day).span(zone).ms / HOUR
        for day in (date(2026, 3, 29), date(2026, 10, 25), date(2026, 3, 30))
    ]
    assert lengths == [23, 25, 24]


def test_what_goes_on_is_compared_with_as_much_of_the_one_before():
    zone = ZoneInfo("Europe/Berlin")
    spans = compared(containing("week", date(2026, 3, 31)), zone, at("2026-03-31T12:00"))
    assert spans.running
    assert spans.now == Span(at("2026-03-29T22:00"), at("2026-03-31T12:00"))
    assert spans.before == Span(at("2026-03-22T23:00"), at("2026-03-24T13:00"))
    ended = compared(containing("week", date(2026, 3, 22)), zone, at("2026-03-31T12:00"))
    assert not ended.running
    assert ended.now.end == ended.now.begin + 7 * 24 * HOUR
    to_come = compared(containing("week", date(2026, 5, 1)), zone, at("2026-03-31T12:00"))
    assert (to_come.now.ms, to_come.before.ms) == (0, 0)


def test_the_one_before_ends_where_it_ends():
    """February has passed before March is over."""
    zone = ZoneInfo("UTC")
    spans = compared(containing("month", date(2026, 3, 1)), zone, at("2026-03-30T00:00"))
    assert spans.before == Span(at("2026-02-01T00:00"), at("2026-03-01T00:00"))
