"""The board, and the panel of one asset."""

from __future__ import annotations

import re
from typing import Any, cast

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.annotations.shifts import here
from dashboard.board.asset_page import facts_of
from dashboard.board.scenario_tabs import tabs
from dashboard.core.access import is_fragment, role_required
from dashboard.core.roles import may
from dashboard.core.scenarios import scenarios, topics
from dashboard.core.times import now_ms
from dashboard.filter_language.parser import MAX_TEXT, FilterError
from dashboard.filters.examples import examples, placeholder
from dashboard.filters.models import SavedFilter
from dashboard.filters.saved_filters import default_of, menu
from dashboard.job.freshness_problems import troubles
from dashboard.live.merge import Merged
from dashboard.live.page_filter import LIMIT, Filter, order_of_token
from dashboard.live.shared_view import live_view
from dashboard.live.snapshots import Read, read
from dashboard.live.typed_filter import named, shown
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
    """The board of one scenario, filtered as the address says."""
    known = _scenario(scenario or request.GET.get("scenario", ""))
    begins = default_of(_user(request), known.name)
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
    context["saved"] = menu(_user(request), known.name)
    return render(request, "board/board.html", context)


def _user(request: HttpRequest) -> User:
    return cast("User", request.user)


def _beginning(request: HttpRequest, begins: SavedFilter) -> HttpResponse:
    """To the same address with the filter that the user's board begins with."""
    query = request.GET.copy()
    query["scenario"], query["q"] = begins.scenario, begins.text
    return redirect(f"{reverse('board:board')}?{query.urlencode()}")


def _wanted(request: HttpRequest, known: Scenario, text: str) -> tuple[Filter, str]:
    """What is asked for, without the text where that is no filter; then why it is none."""
    states = named(known, request.GET.getlist("state")[:50])
    after = order_of_token(request.GET.get("after", ""))
    try:
        return shown(known, states, text, now_ms(), after=after), ""
    except FilterError as error:
        return Filter(states, after=after), str(error)


def _board(request: HttpRequest, known: Scenario, wanted: Filter, found: Read) -> dict[str, Any]:
    now, merged, sort = now_ms(), found.merged, sort_of(request.GET.get("sort", ""))
    here(request.user, now)
    told, paging = troubles(now, known.name), _paging(request, wanted, merged)
    chosen = request.GET.get("asset", "")
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
        "total": merged.total,
        "all": sum(merged.counts.values()),
        "total_is_least": merged.least,
        "stopped": merged.stopped is not None,
        "more": merged.total - len(merged.rows),
        "now": now,
        "standing": told,
        "wall": request.GET.get("wall") == "1",
        "reports_topic": topics().reports(known.name),
        "boot": {
            "scenario": known.name,
            "noun": known.noun,
            "states": [_plain(spec) for spec in known.states],
            "limit": LIMIT,
            "now": now,
            "standing": told,
            "total": merged.total,
            "least": merged.least,
            "stopped": merged.stopped is not None,
            "counts": merged.counts,
            "doubts": merged.doubts,
            "acknowledged": found.held.counts,
            "marks": found.marks,
            "may_command": may(request.user, "command"),
            "user": request.user.get_username(),
            "after": paging["after"],
            "next": paging["next_after"],
            "sort": sort,
        },
    }
    context |= paging
    if name_ok(chosen):
        context |= facts_of(known, chosen, record_of(known.name, chosen), now)
    return context


@require_safe
@never_cache
@role_required("read")
def asset(request: HttpRequest, scenario: str, asset: str) -> HttpResponse:
    """One asset: a page, a panel for htmx, or (`?part=facts`) its facts alone."""
    known = scenarios().get(scenario)
    if known is None or not name_ok(asset):
        raise Http404
    record, now = record_of(scenario, asset), now_ms()
    if request.GET.get("part") != "facts":  # those renew themselves
        here(request.user, now)
    context = facts_of(known, asset, record, now, request.GET.get("before", ""))
    if is_fragment(request):
        part = "_renewed" if request.GET.get("part") == "facts" else "_asset"
        return render(request, f"board/{part}.html", context)
    told = troubles(now, known.name)
    boot = {"scenario": scenario, "watch": asset, "now": now, "standing": told}
    context |= {"standing": told, "boot": boot, "tab": scenario}
    status = 200 if record or context["history"] else 404
    return render(request, "board/asset.html", context, status=status)


def _paging(request: HttpRequest, wanted: Filter, merged: Merged) -> dict[str, str]:
    """Where this page begins and the next one, as tokens and addresses; "" where there is none."""
    after = request.GET["after"] if wanted.after else ""
    return {
        "after": after,
        "after_asset": wanted.after[2] if wanted.after else "",
        "next_after": merged.next or "",
        "next_address": _address(request, merged.next or ""),
        "top_address": _address(request, ""),
    }


def _address(request: HttpRequest, after: str) -> str:
    """The address of this board's page after a token; the panel is not taken along."""
    query = request.GET.copy()
    query.pop("asset", None)
    query.pop("after", None)
    if after:
        query["after"] = after
    return f"{request.path}?{query.urlencode()}"


def _heads(request: HttpRequest, known: Scenario, sort: str) -> list[dict[str, str]]:
    """The heads of the columns, and where each leads to: the page sorted by it, or otherwise."""
    return [
        {
            "name": column.name,
            "title": column.title or known.noun.capitalize(),
            "direction": direction(column, sort),
            "address": _sorted(request, next_sort(column, sort)) if column.rises else "",
        }
        for column in COLUMNS
    ]


def _filter_query(request: HttpRequest, known: Scenario) -> str:
    """What the address asks for, wherever on the board it is, as the board's file takes it."""
    query = QueryDict(mutable=True)
    query["scenario"] = known.name
    query.setlist("state", request.GET.getlist("state"))
    if text := request.GET.get("q", ""):
        query["q"] = text
    return query.urlencode()


def _sorted(request: HttpRequest, sort: str) -> str:
    query = request.GET.copy()
    query.pop("sort", None)
    query.pop("asset", None)
    if sort:
        query["sort"] = sort
    return f"{request.path}?{query.urlencode()}"


def _scenario(name: str) -> Scenario:
    known = scenarios()
    if name and name not in known:
        raise Http404
    return known[name] if name else next(iter(known.values()))


def _buttons(known: Scenario, wanted: Filter, found: Read) -> list[dict[str, Any]]:
    """A filter button for each state of the scenario, and for others that are there."""
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
    """Each doubt, how many assets there is one of, whether the filter asks for it by a term of its
    own, and the address of the board with that term or without it."""
    found = []
    for doubt in NAMED:
        stands = re.compile(rf"(^|\s){re.escape(doubt.term)}(?=\s|$)")
        on = bool(stands.search(text))
        toggled = stands.sub("", text, count=1) if on else f"{text} {doubt.term}"
        query = request.GET.copy()
        query.pop("asset", None)
        query.pop("after", None)
        query["q"] = toggled.strip()
        told = {"count": merged.doubts.get(doubt.name, 0), "on": on}
        found.append({**doubt._asdict(), **told, "address": f"{request.path}?{query.urlencode()}"})
    return found


def _plain(spec: StateSpec) -> dict[str, str]:
    return {"name": spec.name, "label": spec.label, "colour": spec.colour, "icon": spec.icon}
