"""How fast a bucket goes: rates, trends, the time to catch up, shares, and what stands out."""

from __future__ import annotations

import pytest

from dashboard.core.job.liveness import (
    KEPT,
    BucketThroughput,
    Pace,
    Paces,
    Sign,
    Speed,
    signs,
    skews,
)
from support.web.heartbeats import heartbeat

NOW = 1_790_000_000_000


def paced(
    seconds: int, records: int = 0, lag_ms: int = 500, lag_step: int = 0, until: int = NOW
) -> Pace:
    """A bucket with a heartbeat each second; its clock's lag changes by `lag_step` each time."""
    pace = Pace()
    for n in range(seconds):
        at = until - 1_000 * (seconds - 1 - n)
        pace.beat(at, at - (lag_ms + lag_step * n), records)
    return pace


def test_of_nothing_heard_nothing_is_said():
    assert Pace().speed(NOW) == Speed(None, None, None, None)


def test_one_heartbeat_makes_no_rate():
    speed = paced(1, records=40).speed(NOW)
    assert (speed.rate, speed.load, speed.trend) == (None, None, None)
    assert speed.catch_up_ms == 0


def test_a_rate_is_of_the_last_ten_seconds_and_a_load_of_the_last_minute():
    pace = paced(60, records=10, until=NOW - 10_000)
    for n in range(10):
        pace.beat(NOW - 9_000 + 1_000 * n, NOW - 9_500 + 1_000 * n, 70)
    speed = pace.speed(NOW)
    assert speed.rate == pytest.approx(70)
    assert speed.load == pytest.approx((49 * 10 + 10 * 70) / 59)


def test_what_came_before_the_first_heartbeat_known_is_not_counted_twice():
    pace = Pace()
    pace.beat(NOW - 4_000, NOW - 4_500, 1_000_000)
    pace.beat(NOW, NOW - 500, 200)
    assert pace.speed(NOW).rate == pytest.approx(50)


def test_a_heartbeat_told_again_is_not_counted_again():
    pace = paced(5, records=10)
    for n in range(5):
        pace.beat(NOW - 4_000 + 1_000 * n, NOW - 4_500 + 1_000 * n, 10)
    assert pace.speed(NOW).rate == pytest.approx(10)


def test_a_silent_bucket_has_no_rate_and_falls_behind():
    speed = paced(30, records=10, until=NOW - 5_001).speed(NOW)
    assert (speed.rate, speed.load, speed.catch_up_ms) == (None, None, None)
    assert speed.trend == "rising"
    assert paced(30, until=NOW - 3_600_000).speed(NOW).trend == "rising"


@pytest.mark.parametrize(
    ("lag_ms", "step", "trend"),
    [
        (500, 0, "steady"),
        (500, 50, "steady"),
        (500, 500, "rising"),
        (20_000, -1_000, "steady"),  # it has caught up
        (60_000, -900, "falling"),
        (600_000, -900, "steady"),  # 17 s of ten minutes
        (600_000, -9_000, "falling"),
    ],
)
def test_the_trend_of_a_lag(lag_ms: int, step: int, trend: str):
    assert paced(20, lag_ms=lag_ms, lag_step=step).speed(NOW).trend == trend


def test_a_trend_needs_some_seconds():
    assert paced(4, lag_ms=60_000, lag_step=-5_000).speed(NOW).trend is None
    assert paced(5, lag_ms=60_000, lag_step=-5_000).speed(NOW).trend == "falling"


def test_time_to_catch_up_by_the_records_that_are_left():
    pace = paced(20, lag_ms=100_000)
    for n in range(6):
        pace.lagged(NOW - 10_000 + 2_000 * n, 60_000 - 10_000 * n)
    # 50,000 records less in 10 s: the 10,000 left take two more
    assert pace.speed(NOW).catch_up_ms == 2_000


def test_time_to_catch_up_by_the_clock_where_no_page_has_asked_of_late():
    # 19 s of clock gained in 19 s: the 41 s left take as long as they are
    pace = paced(20, lag_ms=60_000, lag_step=-1_000)
    pace.lagged(NOW - 500, 9)
    assert pace.speed(NOW).catch_up_ms == 41_000


def test_what_does_not_shrink_is_never_caught_up():
    pace = paced(20, lag_ms=60_000)
    assert pace.speed(NOW).catch_up_ms is None
    for n in range(6):
        pace.lagged(NOW - 10_000 + 2_000 * n, 5_000 + n)
    assert pace.speed(NOW).catch_up_ms is None


def test_what_is_kept_is_bounded():
    paces = Paces()
    for n in range(10_000):
        paces.record(heartbeat(NOW + 1_000 * n), NOW + 1_000 * n)
        paces.of("attack/0").lagged(NOW + 1_000 * n, n)
    pace = paces.of("attack/0")
    assert len(pace._beats) == len(pace._lags) == KEPT
    assert list(paces.newest) == ["attack/0"]


def test_the_newest_heartbeat_of_a_bucket_is_kept():
    paces = Paces()
    paces.record(heartbeat(2_000), 2_010)
    paces.record(heartbeat(1_000), 1_010)
    assert paces.newest["attack/0"] == (2_010, heartbeat(2_000))


# ---- shares ---------------------------------------------------------------------------------


def test_shares_are_multiples_of_the_even_one():
    assert skews({"a": 30.0, "b": 10.0, "c": 0.0, "d": 0.0}) == {
        "a": 3.0, "b": 1.0, "c": 0.0, "d": 0.0,
    }  # fmt: skip


def test_without_load_there_are_no_shares():
    assert skews({"a": 0.0, "b": None}) == {"a": None, "b": None}
    assert skews({}) == {}


def test_while_one_is_silent_the_others_do_not_look_hot():
    assert skews({"a": 5.0, "b": None}) == {"a": None, "b": None}


# ---- what stands out ------------------------------------------------------------------------


def judged(
    heard: int = 500, lag: int = 900, load: float | None = 5.0, skew: float | None = 1.0,
    whole: float = 20.0,
) -> list[Sign]:  # fmt: skip
    return signs(BucketThroughput(NOW - heard, NOW - lag, load, skew, whole), NOW)


def test_a_clock_that_is_ahead_is_a_sign_of_its_own():
    def ahead(ms: int, heard: int = 500) -> list[Sign]:
        return signs(BucketThroughput(NOW - heard, NOW + ms, 5.0, 1.0, 20.0, ms), NOW)

    assert ahead(5_000) == ["well"]
    assert ahead(5_001) == ["ahead"]
    assert ahead(23 * 3_600_000, heard=6_000) == ["silent", "ahead"]


def test_reports_that_came_too_late_are_those_of_the_last_minute():
    pace = Pace()
    for n in range(90):
        at = NOW - 90_000 + 1_000 * n
        pace.beat(at, at, 5, late=2)
    assert pace.speed(NOW).late == 2 * 59
    assert Pace().speed(NOW).late is None


def test_signs():
    assert judged() == ["well"]
    assert signs(BucketThroughput(None, None, None, None, 0.0), NOW) == ["unknown"]
    assert judged(heard=5_001) == ["silent"]
    assert judged(lag=10_001) == ["behind"]
    assert judged(skew=2.0) == ["hot"]
    assert judged(load=0.0, skew=0.0) == ["idle"]
    assert judged(lag=10_001, skew=3.5) == ["behind", "hot"]


def test_what_is_late_because_the_job_is_silent_is_silent_alone():
    assert judged(heard=60_000, lag=61_000, load=None, skew=None) == ["silent"]


def test_a_few_records_make_no_partition_hot():
    assert judged(load=0.5, skew=4.0, whole=0.5) == ["well"]
