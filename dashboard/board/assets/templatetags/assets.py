"""What the head of every page shows, and what the page of one asset needs."""

from __future__ import annotations

from typing import Any

from django import template
from django.template.context import Context

from dashboard.board.assets.explanation import names
from dashboard.board.assets.palette import VERBS, Verb
from dashboard.board.assets.scenario_tabs import NO_TABS, Tabs, in_title, tabs
from dashboard.core.common.access import ALLOWED, Role
from dashboard.core.common.times import duration, exact_span
from dashboard.core.job.freshness import BoardProblem, Link
from dashboard.watch.annotations.acknowledgements import why_not
from domain.names import USER_PREFIX
from domain.scenario import Scenario
from wire.sink import StateValue

# ---- facts ---------------------------------------------------------------------------------------
# What the page of one asset needs besides the board's own marks.

register = template.Library()
register.filter(duration)
register.filter(names)
register.filter("span", exact_span)


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
def link_for(problem: BoardProblem, role: Role | None) -> Link | None:
    """Return where a reader of this role can do something about a problem, None for nowhere."""
    return next((link for link in problem["links"] if role in link.roles), None)


# ---- navigation ----------------------------------------------------------------------------------
# What the head of every page shows: the scenarios' tabs and the command palette's verbs.


@register.simple_tag(takes_context=True)
def scenario_tabs(context: Context) -> Tabs:
    """Return a page's tabs: those its view has made, else as of now; none without a role."""
    if context.get("role") is None:
        return NO_TABS
    made: Tabs | None = context.get("tabs")
    return made if made is not None else tabs(context.get("tab") or "")


@register.simple_tag
def palette_verbs(role: Role | None) -> tuple[Verb, ...]:
    """Return what the palette offers this role to do."""
    return VERBS if role is not None and "command" in ALLOWED[role] else ()


@register.simple_tag
def unhandled_count(all_tabs: Tabs) -> int:
    """Return how many assets the title of the browser's tab counts."""
    return in_title(all_tabs)
