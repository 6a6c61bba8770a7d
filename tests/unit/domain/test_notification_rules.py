"""Rules of notifications as data, and hours of the week in a time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.notifications.hours import Hours
from domain.notifications.rule_parser import RuleError, plain_rule, rule_from_plain

HOUR = 3_600_000
WHOLE: dict[str, Any] = {
    "scenarios": ["attack"],
    "labels": ["customer=acme", "note=a=b"],
    "states": ["under-attack"],
    "at_least": "suspicious",
    "after_ms": 60_000,
    "hours": {"zone": "Europe/Berlin", "days": [0, 4], "begin": "08:00", "end": "18:30"},
    "quiet": {
        "zone": "UTC", "days": [6], "begin": "22:00", "end": "06:00", "exempt": "under-attack",
    },
    "group_by": ["customer"],
    "window_ms": 0,
    "repeat_ms": 3_600_000,
    "stages": [
        {"after_ms": 0, "channels": [1], "rotas": []},
        {"after_ms": 600_000, "channels": [], "rotas": [2, 3]},
    ],
    "resolved": False,
    "incidents": False,
    "tasks": False,
    "agents": ["agent-silent", "agent-late"],
    "budgets": True,
    "most": 5,
    "per_ms": 600_000,
}  # fmt: skip


def test_a_rule_is_written_as_it_was_read():
    assert plain_rule(rule_from_plain(WHOLE)) == WHOLE


def test_a_stage_is_all_that_a_rule_needs():
    rule = rule_from_plain({"stages": [{"channels": [1]}]})
    assert rule_from_plain(plain_rule(rule)) == rule


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"scenarios": ["attack"], "states": ["suspicious"]}, True),
        ({"scenarios": ["orders"]}, False),
        ({"labels": ["customer=acme"]}, True),
        ({"labels": ["customer=other"]}, False),
        ({"tasks": False}, False),
    ],
)
def test_a_rule_tells_of_tasks_by_scenario_and_labels(change: dict[str, Any], expected: bool):
    rule = rule_from_plain({"stages": [{"channels": [1]}]} | change)
    assert rule.covers_task("attack", {"customer": "acme"}) is expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, False),
        ({"agents": ["agent-late"]}, True),
        ({"agents": ["agent-silent"]}, False),
        ({"agents": ["agent-late"], "labels": ["customer=acme"], "incidents": False}, True),
        ({"agents": ["agent-late"], "scenarios": ["orders"]}, False),
    ],
)
def test_a_rule_tells_of_agents_by_kind_and_scenario(change: dict[str, Any], expected: bool):
    rule = rule_from_plain({"stages": [{"channels": [1]}]} | change)
    assert rule.covers_finding("attack", "agent-late") is expected


@pytest.mark.parametrize(
    ("change", "key", "expected"),
    [
        ({"stages": []}, "stages", "whom to tell"),
        ({"stages": [{"after_ms": 5, "channels": [1]}]}, "stages", "first stage at once"),
        ({"stages": [{"channels": [1]}, {"channels": [2]}]}, "stages", "each later"),
        ({"stages": [{}]}, "stages", "a channel or a rota"),
        ({"stages": [{"channels": ["1"]}]}, "stages", "a number from 1"),
        ({"stages": [{"channels": [1], "users": [2]}]}, "stages", "after_ms, channels, rotas"),
        ({"labels": ["customer"]}, "labels", "key=value"),
        ({"states": "under-attack"}, "states", "a list"),
        ({"after_ms": -1}, "after_ms", "from 0 to"),
        ({"after_ms": True}, "after_ms", "from 0 to"),
        ({"repeat_ms": 5}, "repeat_ms", "from 60000 to"),
        ({"hours": {"begin": "8:00", "end": "18:00"}}, "hours", "00:00 to 24:00"),
        ({"hours": {"begin": "08:00"}}, "hours", "00:00 to 24:00"),
        ({"hours": {"begin": "08:00", "end": "18:00", "days": []}}, "hours", "0 for Monday"),
        ({"hours": {"begin": "08:00", "end": "18:00", "days": [7]}}, "hours", "from 0 to 6"),
        ({"hours": {"zone": "Mars", "begin": "08:00", "end": "18:00"}}, "hours", "Europe/Berlin"),
        ({"hours": {"zone": "../x", "begin": "08:00", "end": "18:00"}}, "hours", "Europe/Berlin"),
        ({"quiet": {"begin": "08:00", "end": "18:00", "exempt": 1}}, "quiet", "a text"),
        ({"resolved": "yes"}, "resolved", "true or false"),
        ({"tasks": 1}, "tasks", "true or false"),
        ({"incidents": "no"}, "incidents", "true or false"),
        ({"agents": ["agent-ill"]}, "agents", "some of agent-refused, agent-silent"),
        ({"agents": "agent-late"}, "agents", "a list"),
        ({"most": 0}, "most", "from 1 to"),
        ({"colour": "red"}, "colour", "one of scenarios"),
        ({"scenarios": ["x"] * 51}, "scenarios", "at most 50"),
    ],
)
def test_a_wrong_value_is_told_by_its_key(change: dict[str, Any], key: str, expected: str):
    with pytest.raises(RuleError) as refused:
        rule_from_plain(WHOLE | change)
    assert expected in refused.value.errors[key]


def test_all_wrong_values_are_told_at_once():
    with pytest.raises(RuleError) as refused:
        rule_from_plain({"most": 0, "resolved": 1})
    assert refused.value.errors.keys() == {"most", "resolved", "stages"}


# ---- hours ------------------------------------------------------------------------------------


def at(zone: str, *moment: int) -> int:
    return int(datetime(*moment, tzinfo=ZoneInfo(zone)).timestamp() * 1000)  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("hours", "moment", "inside"),
    [
        (Hours("UTC", frozenset({0}), 480, 1080), (2026, 11, 23, 8), True),
        (Hours("UTC", frozenset({0}), 480, 1080), (2026, 11, 23, 18), False),
        (Hours("UTC", frozenset({0}), 480, 1080), (2026, 11, 24, 9), False),
        # The night of a Monday goes on into Tuesday.
        (Hours("UTC", frozenset({0}), 1320, 360), (2026, 11, 24, 5), True),
        (Hours("UTC", frozenset({0}), 1320, 360), (2026, 11, 23, 5), False),
        (Hours("UTC", frozenset({0}), 0, 0), (2026, 11, 23, 23, 59), True),
        (Hours("UTC", frozenset({0}), 0, 1440), (2026, 11, 24), False),
        # Half past seven in UTC is half past eight in Berlin in winter.
        (Hours("Europe/Berlin", frozenset({0}), 510, 540), (2026, 11, 23, 7, 30), True),
    ],
)
def test_hours_contain_what_is_in_them(hours: Hours, moment: tuple[int, ...], inside: bool):
    assert hours.contain(at("UTC", *moment)) is inside


def test_hours_keep_to_the_local_clock_when_it_changes():
    hours = Hours("Europe/Berlin", frozenset(range(7)), 480, 1080)
    for day in (24, 25, 26):  # the clocks go back on 25 October 2026
        assert hours.contain(at("Europe/Berlin", 2026, 10, day, 8))
        assert not hours.contain(at("Europe/Berlin", 2026, 10, day, 7, 59))


ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Pacific/Apia")


@given(
    st.sampled_from(ZONES),
    st.frozensets(st.integers(0, 6), min_size=1),
    st.integers(0, 1440),
    st.integers(0, 1440),
    st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)),  # noqa: DTZ001 - in UTC below
)
def test_between_two_edges_nothing_changes(zone, days, begin, end, moment):
    hours = Hours(zone, days, begin, end)
    now = int(moment.replace(tzinfo=UTC).timestamp() * 1000)
    edge = hours.next_edge(now)
    assert now < edge <= now + timedelta(days=9) / timedelta(milliseconds=1)
    inside = hours.contain(now)
    for part in (0.01, 0.25, 0.5, 0.99):
        assert hours.contain(now + int((edge - now - 1) * part)) is inside
