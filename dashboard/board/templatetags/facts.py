"""What the page of one asset needs besides the board's own marks."""

from __future__ import annotations

from typing import Any

from django import template

from dashboard.annotations.acknowledgements import why_not
from dashboard.board.explanation import names
from dashboard.core.roles import Role
from dashboard.core.times import duration, exact_span, moment
from dashboard.job.freshness import Link, Trouble
from domain.names import USER_PREFIX
from domain.scenario import Scenario
from wire.sink import StateValue

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


@register.simple_tag(takes_context=True)
def idle_commands(context: Any, scenario: Scenario, record: StateValue | None) -> str:
    """Return the commands that would change nothing, by name, with spaces between: a release where
    nothing is pinned and no vote of the user's stands, an acknowledgement that is refused."""
    own = USER_PREFIX + context["request"].user.get_username()
    voters = {vote.agent for vote in record.votes} if record else set()
    pinned = record is not None and record.override is not None
    idle = {
        "release": not pinned and own not in voters,
        "acknowledge": bool(why_not(scenario, record.state if record else "")),
    }
    return " ".join(name for name, is_idle in idle.items() if is_idle)


@register.filter
def link_for(trouble: Trouble, role: Role | None) -> Link | None:
    """Return where a reader of this role can do something about a trouble, None for nowhere."""
    return next((link for link in trouble["links"] if role in link.roles), None)
