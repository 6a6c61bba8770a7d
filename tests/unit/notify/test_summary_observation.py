"""What of a time was observed: hours divided where a gap begins or ends, and what is left."""

from __future__ import annotations

from collections import Counter
from datetime import date
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import HOUR_MS, MINUTE_MS
from dashboard.notify.summaries.figures import Observed
from dashboard.notify.summaries.models import ALL_SLOTS, UTC
from dashboard.notify.summaries.phrases import bad_states, days_in_words, observed, period_title
from dashboard.notify.summaries.raw_history import ms_within, observed_runs, pieces, rest
from dashboard.notify.summaries.times import measure
from domain.history.periods import DAY, Span, between, containing, hours_within
from domain.history.runs import merged

ZONE = ZoneInfo(UTC)
DAY_OF_HOURS = Span(0, 24 * HOUR_MS)
GAPS = st.lists(
    st.tuples(st.integers(0, 24 * 60), st.integers(0, 24 * 60)).map(
        lambda pair: (min(pair) * MINUTE_MS, max(pair) * MINUTE_MS)
    ),
    max_size=5,
).map(merged)


def minutes(spans: list[tuple[int, int]]) -> set[int]:
    return {at for low, high in spans for at in range(low, high, MINUTE_MS)}


@given(gaps=GAPS)
def test_hours_are_divided_into_what_was_observed_and_what_was_not(gaps: list[tuple[int, int]]):
    hours = hours_within(*DAY_OF_HOURS, ZONE)
    parts = list(pieces(hours, gaps))
    ends = [part.end for part, _ in parts]
    assert [part.begin for part, _ in parts] == [0, *ends[:-1]]
    assert ends[-1] == DAY_OF_HOURS.end
    assert all(part.begin < part.end for part, _ in parts)
    gone = minutes([(part.begin, part.end) for part, is_kept in parts if not is_kept])
    assert gone == minutes(gaps)
    runs = observed_runs(hours, gaps)
    assert [(run[0].begin, run[-1].end) for run in runs] == rest(gaps, DAY_OF_HOURS)
    for run in runs:
        assert all(one.end == other.begin for one, other in pairwise(run))
    assert {hour.hour for run in runs for hour in run} == {
        at // HOUR_MS for at in range(*DAY_OF_HOURS, MINUTE_MS) if at not in gone
    }


@given(
    gaps=GAPS,
    begin=st.integers(0, 1440),
    ms=st.integers(0, 1440),
    slots=st.sets(st.integers(72, 95)),
)
def test_of_any_part_as_much_counts_as_was_observed_in_its_hours(
    gaps: list[tuple[int, int]], begin: int, ms: int, slots: set[int]
):
    """1 January 1970 was a Thursday, of which the slots from 72 on are."""
    low, high = begin * MINUTE_MS, min(begin + ms, 1440) * MINUTE_MS
    gone = Counter(minutes(gaps))
    for chosen in (ALL_SLOTS, frozenset(slots)):
        counted = [
            at
            for at in range(low, high, MINUTE_MS)
            if not gone[at] and 72 + at // HOUR_MS in chosen
        ]
        assert measure(DAY_OF_HOURS, gaps, chosen, ZONE)(low, max(low, high)) == (
            len(counted) * MINUTE_MS
        )


def test_what_gaps_have_of_a_time_is_clipped_to_it():
    gaps = [(0, 10), (20, 30)]
    assert ms_within(gaps, 5, 25) == 10
    assert ms_within(gaps, 10, 20) == ms_within(gaps, 30, 5) == 0
    assert rest(gaps, Span(0, 30)) == [(10, 20)]
    assert rest([], Span(5, 5)) == []


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (Observed(HOUR_MS, HOUR_MS, seen=True), "1 h 00 m"),
        (Observed(MINUTE_MS, HOUR_MS, seen=True), "1 m 00 s of 1 h 00 m (1.6 %)"),
        (Observed(MINUTE_MS, 2_000 * HOUR_MS, seen=True), "1 m 00 s of 83 d 08 h (under 0.1 %)"),
        (Observed(0, HOUR_MS, seen=False), "not observed"),
        (Observed(0, 0, seen=False), "not observed"),
        (Observed(0, 0, seen=True), "0 s"),
    ],
)
def test_how_much_was_observed_is_said_in_words(own: Observed, words: str):
    assert observed(own) == words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("attack", "Under attack or Suspicious"),
        ("connectivity", "Down or Degraded"),
        ("clients", "Challenge"),
        ("orders", ""),
    ],
)
def test_bad_states_have_the_labels_of_their_scenario(name: str, words: str):
    assert bad_states(scenarios()[name]) == words


def test_days_are_dates_of_iso_8601():
    day, two = containing(DAY, date(2026, 3, 2)), between(date(2026, 3, 2), date(2026, 3, 3))
    assert (period_title(day), days_in_words(day)) == ("2026-03-02", "Monday 2026-03-02")
    assert period_title(two) == days_in_words(two) == "2026-03-02 to 2026-03-03"
