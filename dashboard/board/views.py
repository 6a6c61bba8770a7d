"""The board, and the panel of one asset."""

from __future__ import annotations

import re
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.annotations.shifts import here
from dashboard.board.asset_page import facts_of
from dashboard.board.scenario_tabs import tabs
from dashboard.core.access import is_fragment, role_required, user_of
from dashboard.core.roles import may
from dashboard.core.scenarios import scenario_or_404, scenarios, topics
from dashboard.core.times import now_ms
from dashboard.filter_language.parser import MAX_TEXT, FilterError
from dashboard.filters.examples import examples, placeholder
from dashboard.filters.models import SavedFilter
from dashboard.filters.saved_filters import default_of, menu
from dashboard.job.status import troubles
from dashboard.live.merge import Merged
from dashboard.live.page_filter import LIMIT, Filter, order_of_token
from dashboard.live.shared_live_view import live_view
from dashboard.live.snapshots import Read, read
from dashboard.live.typed_filter import named, shown, unknown_states
from dashboard.pipelines.reporters import reporter_of
from dashboard.states.caveats import NAMED
from dashboard.states.newest import record_of
from dashboard.states.sort_orders import (
    CHOSEN,
    COLUMNS,
    OFFERED,
    direction,
    next_sort,
    sort_of,
    sorted_rows,
)
from domain.names import name_ok
from domain.scenario import Scenario, StateSpec

OTHERS = 20
"""Most states outside an open vocabulary's known ones that have a filter button of their own."""


@require_safe
@never_cache
@role_required("read")
def board(request: HttpRequest, scenario: str = "") -> HttpResponse:
    """Render the board of one scenario, filtered as the address says."""
    known = scenario_or_404(scenario or request.GET.get("scenario") or next(iter(scenarios())))
    begins = default_of(user_of(request), known.name)
    if begins is not None and not request.GET.keys() & {"q", "state", "after"}:
        return _beginning(request, begins)
    text = request.GET.get("q", "")[: MAX_TEXT + 1]
    wanted, problem = _wanted(request, known, text)
    view = live_view()
    found = read(known, wanted, view.overlay(known.name))
    context = _board(request, known, wanted, found)
    context |= {"q": text, "problem": problem, "begins": begins is not None}
    context["doubts"] = _doubts(request, text, found.merged)
    context |= {"examples": examples(known), "placeholder": placeholder(known)}
    context["saved"] = menu(user_of(request), known.name)
    return render(request, "board/board.html", context)


def _beginning(request: HttpRequest, begins: SavedFilter) -> HttpResponse:
    """Redirect to the same address with the filter that the user's board begins with."""
    query = request.GET.copy()
    query["scenario"], query["q"] = begins.scenario, begins.text
    return redirect(f"{reverse('board:board')}?{query.urlencode()}")


def _wanted(request: HttpRequest, known: Scenario, text: str) -> tuple[Filter, str]:
    """Return the filter asked for, without its text if that is no filter, and why it is none."""
    given = request.GET.getlist("state")[:50]
    unknown = unknown_states(known, given)
    states = named(known, (state for state in given if state not in unknown))
    after = order_of_token(request.GET.get("after", ""))
    problem = f"No state is called {', '.join(unknown)}" if unknown else ""
    try:
        return shown(known, states, text, now_ms(), after=after), problem
    except FilterError as error:
        return Filter(states, after=after), str(error)


def _board(request: HttpRequest, known: Scenario, wanted: Filter, found: Read) -> dict[str, Any]:
    now, merged, sort = now_ms(), found.merged, sort_of(request.GET.get("sort", ""))
    here(request.user, now)
    context = {
        "scenario": known,
        "tabs": tabs(known.name, merged.counts),
        "filter": wanted,
        "buttons": _buttons(known, wanted, found),
        "rows": sorted_rows(merged.rows, sort),
        "sort": sort,
        "heads": _heads(request, known, sort),
        "orders": OFFERED,
        "columns": CHOSEN,
        "csv": _filter_query(request, known),
        "row_marks": {mark.asset: mark for mark in found.marks},
        "may_command": may(request.user, "command"),
        "all": sum(merged.counts.values()),
        "now": now,
        "troubles": troubles(now, known.name),
        "wall": request.GET.get("wall") == "1",
        "reports_topic": topics().reports(known.name),
        "reporter": reporter_of(known.name),
        **_paging(request, wanted, merged),
    }
    context["boot"] = _boot(context, known, found) | {"user": request.user.get_username()}
    chosen = request.GET.get("asset", "")
    if name_ok(chosen):
        context |= facts_of(known, chosen, record_of(known.name, chosen), now)
    return context


def _boot(context: dict[str, Any], known: Scenario, found: Read) -> dict[str, Any]:
    """Return the data that the page's modules start with: parts of its context, and their own."""
    shared = ("now", "total", "stopped", "may_command", "after", "sort")
    return {name: context[name] for name in shared} | {
        "scenario": known.name,
        "noun": known.noun,
        "states": [_plain(spec) for spec in known.states],
        "troubles": context["troubles"],
        "limit": LIMIT,
        "least": found.merged.least,
        "counts": found.merged.counts,
        "doubts": found.merged.doubts,
        "acknowledged": found.held.counts,
        "marks": found.marks,
        "next": context["next_after"],
    }


@require_safe
@never_cache
@role_required("read")
def asset(request: HttpRequest, scenario: str, asset: str) -> HttpResponse:
    """Render one asset: a page, a panel for htmx, or (`?part=facts`) its facts alone."""
    known = scenario_or_404(scenario)
    if not name_ok(asset):
        raise Http404
    record, now = record_of(scenario, asset), now_ms()
    if request.GET.get("part") != "facts":  # those renew themselves
        here(request.user, now)
    context = facts_of(known, asset, record, now, request.GET.get("before", ""))
    context["may_command"] = may(request.user, "command")
    if is_fragment(request):
        part = "_panel_update" if request.GET.get("part") == "facts" else "_asset"
        return render(request, f"board/{part}.html", context)
    told = troubles(now, known.name)
    boot = {"scenario": scenario, "watch": asset, "now": now, "troubles": told}
    context |= {"troubles": told, "boot": boot, "tab": scenario}
    status = 200 if record or context["history"] else 404
    return render(request, "board/asset.html", context, status=status)


def _paging(request: HttpRequest, wanted: Filter, merged: Merged) -> dict[str, Any]:
    """Return the totals, and where this page and the next one begin, as tokens and addresses.

    A token is "" where there is none.
    """
    after = request.GET["after"] if wanted.after else ""
    return {
        "total": merged.total,
        "total_is_least": merged.least,
        "stopped": merged.stopped is not None,
        "more": merged.total - len(merged.rows),
        "after": after,
        "after_asset": wanted.after[2] if wanted.after else "",
        "next_after": merged.next or "",
        "next_address": _address(request, after=merged.next or ""),
        "top_address": _address(request, after=""),
    }


def _address(request: HttpRequest, **changes: str) -> str:
    """Return this address with other parameters, without those that are empty.

    The panel is left out.
    """
    query = request.GET.copy()
    query.pop("asset", None)
    for name, text in changes.items():
        query.pop(name, None)
        if text:
            query[name] = text
    return f"{request.path}?{query.urlencode()}"


def _heads(request: HttpRequest, known: Scenario, sort: str) -> list[dict[str, str]]:
    """Return the column heads, and where each leads: to the page sorted by it, or otherwise."""
    return [
        {
            "name": column.name,
            "title": column.title or known.noun.capitalize(),
            "direction": direction(column, sort),
            "address": _address(request, sort=next_sort(column, sort)) if column.rises else "",
        }
        for column in COLUMNS
    ]


def _filter_query(request: HttpRequest, known: Scenario) -> str:
    """Return the query of the address as the board's file takes it, whatever page it is on."""
    query = QueryDict(mutable=True)
    query["scenario"] = known.name
    query.setlist("state", request.GET.getlist("state"))
    if text := request.GET.get("q", ""):
        query["q"] = text
    return query.urlencode()


def _buttons(known: Scenario, wanted: Filter, found: Read) -> list[dict[str, Any]]:
    """Return a filter button for each state of the scenario, and for others that are there."""
    counts, acknowledged = found.merged.counts, found.held.counts
    named = [spec.name for spec in known.states]
    others = sorted(set(counts) - set(named), key=lambda name: (-counts[name], name))[:OTHERS]
    others += sorted(wanted.states - set(named) - set(others))
    return [
        {
            "spec": known.spec(name),
            "count": counts.get(name, 0),
            "acknowledged": acknowledged.get(name, 0),
            "on": name in wanted.states,
        }
        for name in (*named, *others)
    ]


def _doubts(request: HttpRequest, text: str, merged: Merged) -> list[dict[str, Any]]:
    """Return each doubt, and how many assets have it.

    on: whether the filter asks for it by a term of its own; address: of the board with that term
    added or removed.
    """
    found = []
    for doubt in NAMED:
        stands = re.compile(rf"(^|\s){re.escape(doubt.term)}(?=\s|$)")
        on = bool(stands.search(text))
        toggled = stands.sub("", text, count=1) if on else f"{text} {doubt.term}"
        address = _address(request, after="", q=toggled.strip())
        count = merged.doubts.get(doubt.name, 0)
        found.append({**doubt._asdict(), "count": count, "on": on, "address": address})
    return found


def _plain(spec: StateSpec) -> dict[str, str]:
    return {"name": spec.name, "label": spec.label, "colour": spec.colour, "icon": spec.icon}
