"""The states that a shift need not hear of: the good ones of a scenario."""

from __future__ import annotations

from dashboard.annotations.row_marks import calm_of
from domain.scenario import Scenario

ALARMING = ("red", "amber")
"""Colours of a life cycle's states that are trouble, as none of its states is worse than another:
an order that was received a second ago is none."""


def is_good(scenario: Scenario, state: str) -> bool:
    """Return whether a state is no incident.

    With severities that is the least severe state, and others that are green; one that a closed
    vocabulary does not know is none. Of a life cycle it is every state in no alarming colour.
    """
    colour = scenario.spec(state).colour
    if scenario.life_cycle:
        return colour not in ALARMING
    return scenario.severity(state) >= calm_of(scenario) or colour == "green"


def good(scenario: Scenario) -> list[str]:
    """Return the names of the good states that the scenario lists."""
    return [spec.name for spec in scenario.states if is_good(scenario, spec.name)]
