"""When digests are due."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.notify.summaries.digests import DigestPlan, between, due_at, newest_due
from domain.history.periods import DAY, WEEK, containing

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = [ZoneInfo(name) for name in ("UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia")]


def ms(text: str) -> int:
    """A time in UTC, Unix ms."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def test_a_daily_one_is_due_on_the_next_day():
    day = containing(DAY, date(2026, 11, 22))
    assert due_at(day, DigestPlan(DAY, 4, 7), BERLIN) == ms("2026-11-23T06:00")


def test_a_weekly_one_is_due_on_its_weekday_after_the_week():
    week = containing(WEEK, date(2026, 11, 18))
    assert due_at(week, DigestPlan(WEEK, 0, 7), BERLIN) == ms("2026-11-23T06:00")
    assert due_at(week, DigestPlan(WEEK, 4, 7), BERLIN) == ms("2026-11-27T06:00")


@pytest.mark.parametrize(
    ("now", "expected"),
    [("2026-03-29T05:59", date(2026, 3, 27)), ("2026-03-29T06:00", date(2026, 3, 28))],
)
def test_the_hour_is_the_clocks_also_when_that_is_put_forward(now: str, expected: date):
    assert newest_due(DigestPlan(DAY, 0, 8), BERLIN, ms(now)).first == expected


PLANS = st.builds(DigestPlan, st.sampled_from([DAY, WEEK]), st.integers(0, 6), st.integers(0, 23))
TIMES = st.integers(ms("2020-01-01"), ms("2035-01-01"))


@given(PLANS, st.sampled_from(ZONES), TIMES)
def test_the_newest_is_due_and_the_one_after_it_is_not(plan: DigestPlan, zone: ZoneInfo, now: int):
    period = newest_due(plan, zone, now)
    assert due_at(period, plan, zone) <= now < due_at(period.next, plan, zone)
    assert period.span(zone).end <= now


def test_what_lies_between_is_counted():
    day = containing(DAY, date(2026, 11, 22))
    assert between(day, None) == between(day, day.before) == 0
    assert between(day, containing(DAY, day.first - timedelta(days=4))) == 3
    week = containing(WEEK, date(2026, 11, 22))
    assert between(week, week.before.before) == 1
