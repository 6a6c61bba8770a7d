"""The board, the panel of one asset, and what a board's filter finds as a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.board.assets.asset_page import facts_of
from dashboard.board.assets.scenario_tabs import tabs
from dashboard.board.live.live_view import live_view
from dashboard.board.live.page_filter import (
    LIMIT,
    PageFilter,
    named,
    order_of_token,
    shown,
    unknown_states,
    with_states,
)
from dashboard.board.live.snapshots import Merged, MergedSnapshot, causes, read
from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import is_fragment, may, role_required, takes, user_of
from dashboard.core.common.exports import CONTENT_TYPES, attachment, unprocessable, written
from dashboard.core.common.navigation import first_board
from dashboard.core.common.scenarios import scenario_or_404, scenarios, topics
from dashboard.core.common.times import iso, now_ms
from dashboard.core.job.pipelines import reporter_of
from dashboard.core.job.status import problems
from dashboard.core.states.board_rows import cause_of, details_of
from dashboard.core.states.caveats import NAMED, UNHANDLED, CountedTerm, in_doubt
from dashboard.core.states.filter_parser import MAX_TEXT, FilterError
from dashboard.core.states.filter_terms import Filter
from dashboard.core.states.queries import (
    chosen_columns,
    columns,
    direction,
    next_sort,
    orders,
    ranking_of,
    sort_of,
    sorted_rows,
)
from dashboard.core.states.stores import record_of
from dashboard.watch.annotations.acknowledgements import record_presence
from dashboard.watch.annotations.labels import labels_of
from dashboard.watch.filters.completion import examples, placeholder
from dashboard.watch.filters.models import SavedFilter
from dashboard.watch.filters.search import by_name
from domain.names import name_ok
from domain.scenario import Scenario, StateSpec
from wire.sink import StateValue, VoteValue, state_value

# ---- exports -------------------------------------------------------------------------------------
# What a board's filter finds, whole, as a file.

FIELDS = (
    "asset",
    "state",
    "label",
    "since",
    "disputed",
    "unconfirmed",
    "in_doubt",
    "votes",
    "pending",
    "pending_at",
    "pinned_by",
    "pinned_until",
    "underlying",
    "labels",
    "cause",
    "version",
)
PORTION = 500
"""Rows that are sent at a time."""

Plain = dict[str, Any]


@require_safe
@never_cache
@role_required("read")
@takes("scenario", "q", "state", blank=False)
def board_file(request: HttpRequest, form: str) -> HttpResponseBase:
    """Return all that the board's filter finds, on every page, by name, as CSV or NDJSON."""
    name = request.GET.get("scenario", "")
    known = scenarios().get(name) if name else next(iter(scenarios().values()))
    if form not in CONTENT_TYPES or known is None:
        raise Http404
    text, states = request.GET.get("q", ""), request.GET.getlist("state")[:50]
    try:
        criteria = with_states(known, states, text[: MAX_TEXT + 1], now_ms())
    except FilterError as error:
        return unprocessable(f"q: {error}")
    record(Actor.of(request), "export.board", scenario=known.name, form=form, filter=str(criteria))
    return attachment(
        request, written(form, _fields(known), _portions(known, criteria)), known.name, form
    )


def _fields(scenario: Scenario) -> tuple[str, ...]:
    """Return the fields of the file, those of the scenario's details after the votes."""
    place = FIELDS.index("votes") + 1
    return (*FIELDS[:place], *_detail_fields(scenario), *FIELDS[place:])


def _detail_fields(scenario: Scenario) -> list[str]:
    return [f"detail_{key}" for key in scenario.detail_keys]


def _portions(scenario: Scenario, criteria: Filter) -> Iterator[list[Plain]]:
    now, after = now_ms(), ""
    while True:
        rows, more = by_name(scenario, criteria, now, after=after, limit=PORTION)
        labels = labels_of(scenario.name, [asset for asset, _ in rows])
        yield [_plain(scenario, state_value(text), labels.get(name, {})) for name, text in rows]
        if more is None:
            return
        after = more


def _plain(scenario: Scenario, record: StateValue, labels: dict[str, str]) -> Plain:
    """Return a record as a row of the file, with times in ISO 8601, UTC."""
    pending, override = record.pending, record.override
    doubted = in_doubt(scenario, record.votes, record.doubts)
    agents = {one.agent for one in doubted}
    return {
        "asset": record.asset,
        "state": record.state,
        "label": scenario.spec(record.state).label,
        "since": iso(record.since),
        "disputed": record.disputed,
        "unconfirmed": _unconfirmed(record),
        "in_doubt": "; ".join(map(str, doubted)),
        "votes": " ".join(_vote(vote, vote.agent in agents) for vote in record.votes),
        **dict(zip(_detail_fields(scenario), details_of(scenario, record), strict=True)),
        "pending": pending and pending.state,
        "pending_at": pending and iso(pending.due),
        "pinned_by": override and override.user,
        "pinned_until": override and override.until and iso(override.until),
        "underlying": override and override.underlying,
        "labels": " ".join(f"{key}:{value}" for key, value in labels.items()),
        "cause": cause_of(scenario, record),
        "version": record.version,
    }


def _unconfirmed(record: StateValue) -> str:
    return (record.unconfirmed_reason or "yes") if record.unconfirmed else ""


def _vote(vote: VoteValue, doubted: bool) -> str:
    said = f"{vote.agent}={vote.state}"
    marks = [mark for mark in ("silent", "muted") if getattr(vote, mark) is not None]
    marks += ["in doubt"] if doubted else []
    return f"{said} ({', '.join(marks)})" if marks else said


# ---- board ---------------------------------------------------------------------------------------
# The board, and the panel of one asset.

BOARD_PARAMETERS = (
    "scenario", "q", "state", "sort", "after", "wall", "asset", "do", "to", "command",
)  # fmt: skip
OTHERS = 20
"""Most states outside an open vocabulary's known ones that have a filter button of their own."""


@require_safe
@never_cache
@role_required("read")
@takes(*BOARD_PARAMETERS)
def board(request: HttpRequest, scenario: str = "") -> HttpResponse:
    """Render the board of one scenario, filtered as the address says."""
    if not (scenario or request.GET) and (address := first_board(user_of(request))):
        return redirect(address)
    known = scenario_or_404(scenario or request.GET.get("scenario") or next(iter(scenarios())))
    begins = SavedFilter.objects.default_of(user_of(request), known.name)
    if begins is not None and not request.GET.keys() & {"q", "state", "after"}:
        return _beginning(request, begins)
    text = request.GET.get("q", "")[: MAX_TEXT + 1]
    page_filter, problem = _requested_filter(request, known, text)
    view = live_view()
    if page_filter.after is None and request.GET.get("wall") != "1":
        page_filter = replace(page_filter, ranking=ranking_of(known, request.GET.get("sort", "")))
    snapshot = read(known, page_filter, view.overlay(known.name))
    context = _board(request, known, page_filter, snapshot)
    context |= {"q": text, "problem": problem, "begins": begins is not None}
    context["doubts"] = [
        _chip(request, text, doubt, snapshot.merged.doubts.get(doubt.name, 0)) for doubt in NAMED
    ]
    context["unhandled"] = _chip(request, text, UNHANDLED, sum(snapshot.unhandled.values()))
    context |= {"examples": examples(known), "placeholder": placeholder(known)}
    context["saved"] = SavedFilter.objects.menu(user_of(request), known.name)
    return render(request, "board/board.html", context)


def _beginning(request: HttpRequest, begins: SavedFilter) -> HttpResponse:
    """Redirect to the same address with the filter that the user's board begins with."""
    query = request.GET.copy()
    query["scenario"], query["q"] = begins.scenario, begins.text
    return redirect(f"{reverse('board:board')}?{query.urlencode()}")


def _requested_filter(request: HttpRequest, known: Scenario, text: str) -> tuple[PageFilter, str]:
    """Return the filter of the address, and what is wrong with its text, which is left out then."""
    given = request.GET.getlist("state")[:50]
    unknown = unknown_states(known, given)
    states = named(known, (state for state in given if state not in unknown))
    after = order_of_token(request.GET.get("after", ""))
    problem = f"No state is called {', '.join(unknown)}" if unknown else ""
    try:
        return shown(known, states, text, now_ms(), after=after), problem
    except FilterError as error:
        return PageFilter(states, after=after), str(error)


def _board(
    request: HttpRequest, known: Scenario, page_filter: PageFilter, snapshot: MergedSnapshot
) -> dict[str, Any]:
    now, merged, sort = now_ms(), snapshot.merged, sort_of(known, request.GET.get("sort", ""))
    record_presence(request.user, now)
    context = {
        "scenario": known,
        "tabs": tabs(known.name, snapshot, _filter_text(request)),
        "filter": page_filter,
        "buttons": _buttons(known, page_filter, snapshot),
        "rows": sorted_rows(known, merged.rows, sort),
        "sort": sort,
        "heads": _heads(request, known, sort),
        "orders": orders(known),
        "columns": chosen_columns(known),
        "csv": _filter_query(request, known),
        "row_marks": {mark.asset: mark for mark in snapshot.marks},
        "causes": causes(known.name, live_view()),
        "may_command": may(request.user, "command"),
        "all": sum(merged.counts.values()),
        "now": now,
        "problems": problems(now, known.name),
        "wall": request.GET.get("wall") == "1",
        "reports_topic": topics().reports(known.name),
        "reporter": reporter_of(known.name),
        **_paging(request, page_filter, merged),
    }
    context["boot"] = _boot(context, known, snapshot) | {"user": request.user.get_username()}
    chosen = request.GET.get("asset", "")
    if name_ok(chosen):
        context |= facts_of(known, chosen, record_of(known.name, chosen), now)
    return context


def _filter_text(request: HttpRequest) -> str:
    """Return the text of the filter, where nothing else is chosen."""
    return "" if request.GET.getlist("state") else request.GET.get("q", "")


def _boot(context: dict[str, Any], known: Scenario, snapshot: MergedSnapshot) -> dict[str, Any]:
    """Return the data that the page's modules start with: parts of its context, and their own."""
    shared = ("now", "total", "stopped", "may_command", "after", "sort", "causes")
    return {name: context[name] for name in shared} | {
        "scenario": known.name,
        "noun": known.noun,
        "states": [_board_plain(spec) for spec in known.states],
        "details": known.detail_keys,
        "problems": context["problems"],
        "limit": LIMIT,
        "least": snapshot.merged.least,
        "counts": snapshot.merged.counts,
        "doubts": snapshot.merged.doubts,
        "acknowledged": snapshot.handled.acknowledged,
        "unhandled": snapshot.unhandled,
        "marks": snapshot.marks,
        "next": context["next_after"],
        "ranked": snapshot.merged.ranked,
    }


@require_safe
@never_cache
@role_required("read")
@takes("part", "before", "do", "to", "command")
def asset(request: HttpRequest, scenario: str, asset: str) -> HttpResponse:
    """Render one asset: a page, a panel for htmx, or (`?part=facts`) its facts alone."""
    known = scenario_or_404(scenario)
    if not name_ok(asset):
        raise Http404
    record, now = record_of(scenario, asset), now_ms()
    if request.GET.get("part") != "facts":  # those renew themselves
        record_presence(request.user, now)
    context = facts_of(known, asset, record, now, request.GET.get("before", ""))
    context["may_command"] = may(request.user, "command")
    if is_fragment(request):
        part = "_panel_update" if request.GET.get("part") == "facts" else "_asset"
        return render(request, f"board/{part}.html", context)
    current = problems(now, known.name)
    boot = {"scenario": scenario, "watch": asset, "now": now, "problems": current}
    context |= {"problems": current, "boot": boot, "tab": scenario}
    status = 200 if record or context["history"] else 404
    return render(request, "board/asset.html", context, status=status)


def _paging(request: HttpRequest, page_filter: PageFilter, merged: Merged) -> dict[str, Any]:
    """Return the totals, and where this page and the next one begin, as tokens and addresses.

    A token is "" where there is none.
    """
    after = request.GET["after"] if page_filter.after else ""
    return {
        "total": merged.total,
        "total_is_least": merged.least,
        "stopped": merged.stopped is not None,
        "more": merged.total - len(merged.rows),
        "after": after,
        "after_asset": page_filter.after[2] if page_filter.after else "",
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
            "css": _column_css(known, column.name),
            "title": column.title or known.noun.capitalize(),
            "direction": direction(column, sort),
            "address": _address(request, sort=next_sort(known, column, sort))
            if column.rises
            else "",
        }
        for column in columns(known)
    ]


def _column_css(known: Scenario, name: str) -> str:
    """Return the classes of a column; a detail's name its place, which styles know."""
    if name not in known.detail_keys:
        return f"col-{name}"
    return f"col-detail col-d{known.detail_keys.index(name) + 1}"


def _filter_query(request: HttpRequest, known: Scenario) -> str:
    """Return the query of the address for the board's file, without the page."""
    query = QueryDict(mutable=True)
    query["scenario"] = known.name
    query.setlist("state", list(filter(None, request.GET.getlist("state"))))
    if text := request.GET.get("q", ""):
        query["q"] = text
    return query.urlencode()


def _buttons(
    known: Scenario, page_filter: PageFilter, snapshot: MergedSnapshot
) -> list[dict[str, Any]]:
    """Return a filter button for each state of the scenario, and for others that are there."""
    counts, acknowledged = snapshot.merged.counts, snapshot.handled.acknowledged
    named = [spec.name for spec in known.states]
    others = sorted(set(counts) - set(named), key=lambda name: (-counts[name], name))[:OTHERS]
    others += sorted(page_filter.states - set(named) - set(others))
    return [
        {
            "spec": known.spec(name),
            "count": counts.get(name, 0),
            "acknowledged": acknowledged.get(name, 0),
            "on": name in page_filter.states,
        }
        for name in (*named, *others)
    ]


def _chip(request: HttpRequest, text: str, kind: CountedTerm, n: int) -> dict[str, Any]:
    """Return a count of assets that leads to them.

    on: whether the filter has a term of its own for it; address: of the board with that term
    added or removed.
    """
    stands = re.compile(rf"(^|\s){re.escape(kind.term)}(?=\s|$)")
    on = bool(stands.search(text))
    toggled = stands.sub("", text, count=1) if on else f"{text} {kind.term}"
    address = _address(request, after="", q=toggled.strip())
    return {**kind._asdict(), "count": n, "on": on, "address": address}


def _board_plain(spec: StateSpec) -> dict[str, str]:
    return {"name": spec.name, "label": spec.label, "colour": spec.colour, "icon": spec.icon}
