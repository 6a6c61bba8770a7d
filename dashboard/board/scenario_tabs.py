"""The tabs: every scenario, with how many of its assets are in its most severe state."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.access import role_required
from dashboard.core.scenarios import scenarios
from dashboard.live.shared_live_view import live_view
from dashboard.live.snapshots import count
from dashboard.states.queries import counts_of_all
from domain.scenario import Scenario, StateSpec

# What was counted so long ago at the most is told to another page that asks again.
SHARED_S = 1.0
_shared: tuple[float, dict[str, int]] = (0.0, {})


class Tab(NamedTuple):
    """A scenario's tab. worst: its most severe state; alarms: how many assets are in it."""

    scenario: Scenario
    worst: StateSpec
    alarms: int
    current: bool = False


def tabs(current: str = "", counts: Mapping[str, int] | None = None) -> list[Tab]:
    """Return each scenario's tab as of now. counts: by state, of the current one, if known."""
    known = _known({current: counts} if counts is not None else {})
    found = []
    for name, scenario in scenarios().items():
        worst = scenario.states[0]
        found.append(Tab(scenario, worst, known[name].get(worst.name, 0), name == current))
    return found


def _known(given: Mapping[str, Mapping[str, int]]) -> dict[str, Mapping[str, int]]:
    """Return each scenario's counts by state: those given, those that are kept, or counted now."""
    view = live_view()
    known = {**view.counts(), **given}
    missing = [name for name in scenarios() if name not in known]
    if missing:
        newer = {name: view.overlay(name) for name in missing}
        stored = counts_of_all()
        for name in missing:
            over = newer[name]
            known[name] = count(scenarios()[name], over) if over else stored.get(name, {})
    return known


def alarms(found: list[Tab]) -> int:
    """Return the count in a browser tab's title: of the board that is shown, or of all together.

    A life cycle has no state that is worse than another.
    """
    current = [tab for tab in found if tab.current]
    return sum(tab.alarms for tab in current or found if not tab.scenario.life_cycle)


@require_safe
@never_cache
@role_required("read")
def worst(_request: HttpRequest) -> JsonResponse:
    """Return how many assets of each scenario are in its most severe state, for an open page."""
    global _shared  # noqa: PLW0603 - one answer for all pages of this process
    if time.monotonic() - _shared[0] > SHARED_S:
        _shared = (time.monotonic(), {tab.scenario.name: tab.alarms for tab in tabs()})
    return JsonResponse({"worst": _shared[1]})
