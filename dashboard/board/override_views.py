"""The page of all overrides."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.board.overrides import OVERRIDES, Override, overrides
from dashboard.core.access import role_required
from dashboard.core.filter_forms import Choice
from dashboard.core.listing import Place
from dashboard.core.pages import render_page
from dashboard.core.scenarios import scenarios
from dashboard.core.tables import Pager
from dashboard.core.times import now_ms


@require_safe
@never_cache
@role_required("read")
def override_list(request: HttpRequest) -> HttpResponse:
    """List every override in force; for a script, the part of the page that refreshes itself."""
    now, mine = now_ms(), request.GET.get("whose") == "mine"
    scenario = request.GET.get("scenario", "")
    scenario = scenario if scenario in scenarios() else ""
    viewer = request.user.get_username()
    after = Place.parse(request.GET.get("after", "")[:60])
    found = overrides(scenarios(), now, viewer, scenario=scenario, mine=mine, after=after)
    chosen = {"scenario": scenario, "whose": "mine" if mine else ""}
    query = urlencode({name: value for name, value in chosen.items() if value})
    context = {
        "now": now,
        "found": found,
        "table": OVERRIDES,
        "rows": [_row(each, now) for each in found.listed],
        "pager": Pager.by_key(query, "after", after, found.following),
        "address": request.get_full_path(),
        "choices": _choices(scenario, mine, found.mine),
        "narrowed": bool(scenario) or mine,
    }
    return render_page(request, "board/overrides", context)


def _row(override: Override, now: int) -> dict[str, Any]:
    return {
        "is": override,
        "soon": override.ends_soon(now),
        "forgotten": override.forgotten(now),
    }


def _choices(scenario: str, mine: bool, own: int) -> list[Choice]:
    """Return links that narrow the list: by scenario, and to the viewer's own."""
    whose = {"whose": "mine"} if mine else {}
    by_scenario = [("", "All scenarios"), *((s.name, s.title) for s in scenarios().values())]
    choices = [
        _choice(title, {**whose, **({"scenario": name} if name else {})}, name == scenario)
        for name, title in by_scenario
    ]
    kept = {"scenario": scenario} if scenario else {}
    return [
        *choices,
        _choice("Everybody's", kept, not mine),
        _choice(f"Mine ({own})", {**kept, "whose": "mine"}, mine),
    ]


def _choice(title: str, query: dict[str, str], chosen: bool) -> Choice:
    return Choice(title, f"?{urlencode(query)}", chosen)
