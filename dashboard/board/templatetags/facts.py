"""What the page of one asset needs besides the board's own marks."""

from __future__ import annotations

from django import template

from dashboard.board.explanation import names
from dashboard.core.times import duration, exact_span, moment
from domain.scenario import Scenario

register = template.Library()
register.simple_tag(moment)
register.filter(duration)
register.filter(names)
register.filter("span", exact_span)


@register.simple_tag
def colour(scenario: Scenario, name: str) -> str:
    """Return the colour of a state, by name."""
    return scenario.spec(name).colour


@register.simple_tag
def label(scenario: Scenario, name: str) -> str:
    """Return what a state is called on pages."""
    return scenario.spec(name).label
