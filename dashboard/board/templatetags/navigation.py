"""What the head of every page shows: the scenarios' tabs and the command palette's verbs."""

from __future__ import annotations

from django import template
from django.template.context import Context

from dashboard.board.palette_actions import VERBS, Verb
from dashboard.board.scenario_tabs import NO_TABS, Tabs, alarms, tabs
from dashboard.core.roles import ALLOWED, Role

register = template.Library()


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
def alarm_count(found: Tabs) -> int:
    """Return how many assets the title of the browser's tab counts."""
    return alarms(found)
