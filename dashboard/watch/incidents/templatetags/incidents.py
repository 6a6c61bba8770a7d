"""Template tags for incidents and maintenance on the board and on an asset's page."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django import template
from django.urls import reverse
from django.utils.http import urlencode

from dashboard.core.common.access import may
from dashboard.core.common.times import DAY_MS
from dashboard.watch.incidents.models import Case, Window, case_number
from domain.scenario import Scenario

register = template.Library()

AHEAD_MS = 31 * DAY_MS
"""How far ahead an asset's page announces planned windows."""
SOON_MS = DAY_MS
"""How far ahead a board announces planned windows."""
MOST = 5
"""Most windows that are announced at a time."""


@register.inclusion_tag("incidents/_of_asset.html", takes_context=True)
def asset_incident(context: Any, scenario: Scenario, asset: str) -> dict[str, Any]:
    """Return the context of an asset's newest incident, as it is worked on."""
    return {"case": Case.objects.of_asset(scenario.name, asset), "now": context["now"]}


@register.simple_tag
def incident_of_number(text: str) -> Case | None:
    """Return the incident whose number a text is, `INC-1042` or `1042`, or None."""
    number = case_number(text)
    return None if number is None else Case.objects.shown().filter(pk=number).first()


@register.inclusion_tag("incidents/maintenance/_announced.html", takes_context=True)
def asset_maintenance(context: Any, scenario: Scenario, asset: str) -> dict[str, Any]:
    """Return the context of the windows that cover an asset now, or will."""
    now, user = context["now"], context["request"].user
    covering = Window.objects.covering(scenario.name, [asset], now, now + AHEAD_MS).get(asset, [])
    windows = list(dict.fromkeys(span.window for span in covering))
    query = urlencode({"scenario": scenario.name, "asset": asset})
    plan = f"{reverse('maintenance:new')}?{query}" if may(user, "command") else ""
    return _context(windows, now) | {"plan": plan}


@register.inclusion_tag("incidents/maintenance/_strip.html")
def board_maintenance(scenario: Scenario, now: int) -> dict[str, Any]:
    """Return the context of the windows of a board that are running or begin within a day."""
    return _context(Window.objects.between(scenario.name, now, now + SOON_MS), now) | {
        "scenario": scenario
    }


def _context(windows: Collection[Window], now: int) -> dict[str, Any]:
    shown = list(windows)[:MOST]
    return {"windows": shown, "more": len(windows) - len(shown), "now": now}
