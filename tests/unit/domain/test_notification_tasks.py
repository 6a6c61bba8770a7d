"""What a rule does with scheduled tasks that notify: told or held back, in which messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.core.common.scenarios import scenarios
from domain.notifications.hours import Hours
from domain.notifications.machine import LIMIT, MAINTENANCE, OUTSIDE, QUIET
from domain.notifications.rule import Quiet, Rule, Stage
from domain.notifications.task_run import NoticeHold, hold_of, within_limit

HOUR = 3_600_000
STAGES = (Stage(0, channels=(1,)),)
NIGHT = Hours("UTC", frozenset(range(7)), 0, 360)
"""Of each day; the epoch began in it."""
NIGHT_ENDS = 6 * HOUR


@pytest.mark.parametrize(
    ("rule", "state", "at", "muted", "expected"),
    [
        (Rule(STAGES), "clear", HOUR, False, None),
        (Rule(STAGES, at_least="under-attack"), "clear", HOUR, False, None),
        (Rule(STAGES), "under-attack", HOUR, True, NoticeHold(MAINTENANCE)),
        (Rule(STAGES, hours=NIGHT), "clear", HOUR, False, None),
        (Rule(STAGES, hours=NIGHT), "clear", 7 * HOUR, False, NoticeHold(OUTSIDE)),
        (Rule(STAGES, quiet=Quiet(NIGHT)), "clear", HOUR, False, NoticeHold(QUIET, NIGHT_ENDS)),
        (Rule(STAGES, quiet=Quiet(NIGHT)), "clear", 7 * HOUR, False, None),
        (Rule(STAGES, quiet=Quiet(NIGHT, "suspicious")), "under-attack", HOUR, False, None),
        (Rule(STAGES, quiet=Quiet(NIGHT, "suspicious")), "clear", HOUR, False,
         NoticeHold(QUIET, NIGHT_ENDS)),
    ],
)  # fmt: skip
def test_a_run_is_told_or_held_back_for_a_reason(
    rule: Rule, state: str, at: int, muted: bool, expected: NoticeHold | None
):
    assert hold_of(rule, scenarios()["attack"], state, at, at, muted=muted) == expected


@given(
    runs=st.lists(st.integers(), min_size=1, max_size=12, unique=True),
    recent=st.lists(st.integers(0, 2 * HOUR), max_size=8).map(sorted),
    most=st.integers(1, 8),
)
def test_every_run_is_in_one_message_of_no_more_than_the_limit(
    runs: list[int], recent: list[int], most: int
):
    rule, now = Rule(STAGES, most=most, per_ms=HOUR), 2 * HOUR
    parts, limit = within_limit(rule, runs, recent, now)
    counted = [at for at in recent if at > now - HOUR]
    if limit is None:
        assert [run for part in parts for run in part] == runs
        assert len(parts) <= most - len(counted)
    else:
        assert (parts, limit) == ([], NoticeHold(LIMIT, counted[0] + HOUR))
        assert len(counted) >= most
