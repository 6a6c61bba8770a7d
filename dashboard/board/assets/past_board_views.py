"""The page of a board's past: how it stood at a moment, and what differs from now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, HttpResponseBase, QueryDict
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.board.assets.past_board import (
    COUNTS,
    DIFFERENCES,
    PAGE,
    THEN,
    AsOf,
    Narrowed,
    PastDifference,
    PastQuery,
    Then,
    TooManyChanges,
)
from dashboard.board.live.page_filter import order_of_token, token_of_order
from dashboard.core.common.access import role_required, takes
from dashboard.core.common.exports import attachment, unprocessable, written
from dashboard.core.common.forms import Choice, FilterForm, UtcTimeField, scenario_choices
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.sql import chunks
from dashboard.core.common.tables import Pager, file_refusal
from dashboard.core.common.times import FIELD_SECOND, MINUTE_MS, field_text, now_ms, unix_ms
from dashboard.core.states import queries
from dashboard.core.states.filter_parser import state_of
from dashboard.core.states.models import HISTORY_KEPT_MS
from domain.names import CONTROL, MAX_NAME, MAX_STATE

USUAL_MS = 60 * MINUTE_MS
"""How far back the page looks unless it is told a moment."""
AGO = {
    "15 min": 15 * MINUTE_MS,
    "1 h": 60 * MINUTE_MS,
    "8 h": 480 * MINUTE_MS,
    "1 day": 1_440 * MINUTE_MS,
    "7 days": 7 * 1_440 * MINUTE_MS,
}
VIEWS = {"differences": "What differs from now", "board": "The board then"}


class AsOfForm(FilterForm):
    """The parameters of the address. Times in UTC."""

    scenario = forms.ChoiceField(required=False)
    at = UtcTimeField(label="At (UTC)", seconds=True)
    view = forms.ChoiceField(required=False, choices=list(VIEWS.items()), widget=forms.HiddenInput)
    state = forms.CharField(required=False, max_length=MAX_STATE, widget=forms.HiddenInput)
    now = forms.CharField(required=False, max_length=MAX_STATE, widget=forms.HiddenInput)
    q = forms.CharField(required=False, max_length=MAX_NAME, label="Part of a name")
    back = forms.BooleanField(required=False, label="Also assets that changed and changed back")
    after = forms.CharField(required=False, max_length=400, widget=forms.HiddenInput)

    def __init__(self, data: QueryDict, now: int) -> None:
        """Prepare the form. now: Unix ms."""
        super().__init__(data if data.get("at") else _with_moment(data, now - USUAL_MS))
        self._now = now
        self.offer("scenario", scenario_choices())
        self.fields["q"].widget.attrs["type"] = "search"

    def clean_at(self) -> int:
        """Return the moment in Unix ms. Raises ValidationError where there is no history of it."""
        given: datetime | None = self.cleaned_data["at"]
        if given is None:  # asked for as spaces
            return self._now - USUAL_MS
        at = unix_ms(given)
        if at > self._now:
            raise forms.ValidationError("expected a moment that has passed")
        if at < self._now - HISTORY_KEPT_MS:
            raise forms.ValidationError("expected a moment of the last 90 days: history ends there")
        return at

    def clean_q(self) -> str:
        """Return the text. Raises ValidationError where no name may hold it."""
        text: str = self.cleaned_data["q"]
        if CONTROL.search(text):
            raise forms.ValidationError("no name contains such a character")
        return text

    def asked(self) -> PastQuery:
        """Return the moment and filter of a valid form."""
        given = self.cleaned_data
        known = scenarios()[given["scenario"] or next(iter(scenarios()))]
        return PastQuery(
            known.name,
            given["at"],
            given["view"] or "differences",
            state_of(given["state"], known) or given["state"],
            state_of(given["now"], known) or given["now"],
            given["q"],
            given["back"],
        )


def _with_moment(data: QueryDict, at: int) -> QueryDict:
    """Return the query with the moment `at` (Unix ms), so that the form shows it."""
    data = data.copy()
    data["at"] = field_text(at, FIELD_SECOND)
    return data


@require_safe
@never_cache
@role_required("read")
@takes(*AsOfForm.parameters())
def as_of(request: HttpRequest) -> HttpResponse:
    """Render the board at a moment, or its differences from now."""
    now = now_ms()
    form = AsOfForm(request.GET, now)
    context: dict[str, Any] = {"now": now, "form": form}
    status = 422
    if form.is_valid():
        asked = form.asked()
        context |= {"asked": asked, "agos": _agos(asked, now)}
        try:
            with queries.consistent():
                context |= _context(asked, form.cleaned_data["after"])
            status = 200
        except TooManyChanges as error:
            form.add_error("at", str(error))
    return render(request, "board/asof.html", context, status=status)


def _agos(asked: PastQuery, now: int) -> list[Choice]:
    """Return links to moments in the past."""
    return [
        Choice(
            f"{title} ago", f"?{asked.address(at=now - ms)}", abs(now - ms - asked.at) < MINUTE_MS
        )
        for title, ms in AGO.items()
    ]


def _context(asked: PastQuery, after: str) -> dict[str, Any]:
    scenario = scenarios()[asked.scenario]
    past = AsOf(scenario, asked.at)
    shown = (
        _board(past, asked, after) if asked.view == "board" else _differences(past, asked, after)
    )
    links = {view: asked.address(view=view, state="", now="") for view in VIEWS}
    views = [
        Choice(VIEWS[view], f"?{address}", view == asked.view) for view, address in links.items()
    ]
    counts = {"counts": _counts(past, asked), "count_table": COUNTS}
    return {"scenario": scenario, "links": links, "views": views, **counts, **shown}


def _counts(past: AsOf, asked: PastQuery) -> list[dict[str, Any]]:
    """Return how many assets were in each state, and how many are now."""
    then, now = past.counts(), queries.counts(asked.scenario)
    names = sorted({*then, *now}, key=past.scenario.severity)
    return [
        {
            "state": name,
            "then": then.get(name, 0),
            "now": now.get(name, 0),
            "more": now.get(name, 0) - then.get(name, 0),
            "address": asked.address(view="board", state=name, now=""),
        }
        for name in names
    ]


def _board(past: AsOf, asked: PastQuery, after: str) -> dict[str, Any]:
    page = past.page(Narrowed(asked.state, asked.q), order_of_token(after))
    rows, token = page[:PAGE], ""
    if len(page) > PAGE:
        token = token_of_order(rows[-1].order)
    return {"rows": rows, "table": THEN, "pager": _pager(asked, after, token)}


def _differences(past: AsOf, asked: PastQuery, after: str) -> dict[str, Any]:
    every = past.differences()
    differences = [one for one in every if asked.includes(one)]
    begin = int(after) if after.isascii() and after.isdecimal() else 0
    further = str(begin + PAGE) if len(differences) > begin + PAGE else ""
    moves = Counter((one.state, one.now) for one in every if asked.back or not one.stayed)
    return {
        "rows": differences[begin : begin + PAGE],
        "total": len(differences),
        "back": sum(one.stayed for one in every),
        "moves": [_move(asked, move, n) for move, n in moves.most_common(12)],
        "table": DIFFERENCES,
        "pager": _pager(asked, after, further),
    }


def _move(asked: PastQuery, move: tuple[str, str], n: int) -> dict[str, Any]:
    state, now = move
    chosen = (asked.state, asked.now) == (state or "-", now or "-")
    address = asked.address(state="" if chosen else state or "-", now="" if chosen else now or "-")
    return {"state": state, "now": now, "n": n, "chosen": chosen, "address": address}


def _pager(asked: PastQuery, after: str, token: str) -> Pager:
    return Pager.by_key(asked.address(), "after", after, token)


# ---- as a file ----------------------------------------------------------------------------

FIELDS = {
    "board": ("asset", "state", "since"),
    "differences": ("asset", "state", "now", "worst", "changes", "at"),
}
PORTION = 1_000
"""Rows that are sent at a time."""


@require_safe
@never_cache
@role_required("read")
@takes(*AsOfForm.parameters(), blank=False)
def as_of_file(request: HttpRequest, form: str) -> HttpResponseBase:
    """Return all that the page shows, on every page, as CSV or NDJSON."""
    typed = AsOfForm(request.GET, now_ms())
    if refusal := file_refusal(form, typed):
        return refusal
    asked = typed.asked()
    try:
        past = AsOf(scenarios()[asked.scenario], asked.at)
    except TooManyChanges as error:
        return unprocessable(f"at: {error}")
    fields = ("scenario", *FIELDS[asked.view])
    whole = chunks(_whole(past, asked), PORTION)
    rows = ([_plain(each, asked) for each in portion] for portion in whole)
    return attachment(request, written(form, fields, rows), f"as-of-{asked.view}", form)


def _whole(past: AsOf, asked: PastQuery) -> Iterator[Then | PastDifference]:
    if asked.view == "board":
        return past.rows(Narrowed(asked.state, asked.q))
    return (one for one in past.differences() if asked.includes(one))


def _plain(each: Then | PastDifference, asked: PastQuery) -> dict[str, Any]:
    fields = {name: getattr(each, name) for name in FIELDS[asked.view]}
    return {"scenario": asked.scenario} | fields
