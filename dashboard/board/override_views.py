"""The page of all overrides."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.board.overrides import MOST, Override, overrides
from dashboard.core.access import role_required
from dashboard.core.pages import render_page
from dashboard.core.scenarios import scenarios
from dashboard.core.times import now_ms


@require_safe
@never_cache
@role_required("read")
def override_list(request: HttpRequest) -> HttpResponse:
    """Every override in force; to a script, the part of the page that renews itself."""
    now, mine = now_ms(), request.GET.get("whose") == "mine"
    scenario = request.GET.get("scenario", "")
    scenario = scenario if scenario in scenarios() else ""
    viewer = request.user.get_username()
    found = overrides(scenarios(), now, viewer, scenario=scenario, mine=mine)
    context = {
        "now": now,
        "found": found,
        "rows": [_row(each, now) for each in found.listed],
        "more": found.total - len(found.listed),
        "most": MOST,
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


def _choices(scenario: str, mine: bool, own: int) -> list[dict[str, Any]]:
    """Links that narrow the list: by scenario, and to the viewer's own."""
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


def _choice(title: str, query: dict[str, str], chosen: bool) -> dict[str, Any]:
    return {"title": title, "query": f"?{urlencode(query)}", "chosen": chosen}
