"""What is said of a task that by time alone may hide what agents say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dashboard.watch.commands.warnings import PURGES, may_hide, warning
from domain.records import Schedule
from domain.scenario import UNKNOWN, Latest, Scenario, StateSpec

SITES = Scenario(
    name="sites",
    title="Sites",
    noun="site",
    states=tuple(StateSpec(name, name, "grey", "ring") for name in ("bad", "meh", "good")),
    rule=Latest(),
    vote_lifetime=600_000,
)


@pytest.mark.parametrize(
    ("state", "condition", "shown", "hides"),
    [
        ("good", None, "bad", True),
        ("good", None, "meh", True),
        ("good", None, "good", False),
        ("meh", None, "good", False),
        ("meh", "bad", "good", True),
        ("good", "good", "bad", False),
        # nobody knows what it is, so it may be the worst
        ("meh", None, None, True),
        ("bad", None, None, False),
        ("meh", None, UNKNOWN, True),
        ("bad", None, UNKNOWN, False),
        ("meh", UNKNOWN, "good", True),
        ("bad", None, "left over", False),
    ],
)
def test_a_pin_hides_what_is_worse(
    state: str, condition: str | None, shown: str | None, hides: bool
) -> None:
    assert may_hide(SITES, "set", state, condition, shown) is hides


@pytest.mark.parametrize(
    ("do", "hides"), [("purge", True), ("emit", False), ("notify", False), ("release", False)]
)
def test_of_the_other_actions_a_purge_hides(do: str, hides: bool) -> None:
    assert may_hide(SITES, do, None, None, "bad") is hides


@pytest.mark.parametrize("do", ["set", "purge"])
def test_in_a_life_cycle_nothing_is_hidden(do: str) -> None:
    assert not may_hide(replace(SITES, life_cycle=True), do, "good", None, "bad")


def test_what_is_said_names_what_time_will_do() -> None:
    assert warning(SITES, Schedule("purge", after=1), "", "good") == PURGES
    said = warning(SITES, Schedule("set", after=1), "good", "bad")
    assert "time alone will pin it to" in said
    assert warning(SITES, Schedule("notify", after=1), "", "bad") == ""
