"""The pages of views: all of them, and the rows of one."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.access import role_required
from dashboard.core.pages import render_page
from dashboard.core.roles import OPERATORS
from dashboard.core.tables import Column, Pager, Table
from dashboard.core.times import now_ms
from dashboard.topic_views.copies import copies, is_stale, why_not
from dashboard.topic_views.declaration import View
from dashboard.topic_views.forms import RowFilter
from dashboard.topic_views.table import Row, State, ViewTable
from dashboard.topic_views.values import printed

PAGE_SIZE = 100
LONGEST_VALUE = 400
"""Most bytes of a key or a value that a page shows."""

VIEW_TABLE = Table(
    "views",
    "View",
    "Topic",
    "Copy",
    Column.number("Rows"),
    Column.number("Memory", "of this process's copy"),
    Column.number("Lag", "records of the topic that the copy has not read"),
    Column.time("As of", "when the copy last had all that the topic held"),
)
ROW_TABLE = Table(
    "view-rows",
    "Key",
    Column.text("Value"),
    Column.number("Partition"),
    Column.number("Offset"),
    Column.time("Appended"),
)
STATUSES = {
    "not-followed": "not kept here",
    "catching-up": "catching up",
    "ready": "ready",
    "topic-absent": "no topic",
    "too-large": "too large",
}


class Entry(NamedTuple):
    """A view in the list. reason: why it gives no answer, empty where it does."""

    view: View
    state: State
    status: str
    reason: str
    stale: bool


class Line(NamedTuple):
    """A row as it is shown. cut: whether the value is longer."""

    key: str
    value: str
    cut: bool
    row: Row


@require_safe
@never_cache
@role_required("read", among=OPERATORS)
def view_list(request: HttpRequest) -> HttpResponse:
    """Return the page of all views; to a script, the part that renews itself."""
    entries = [_entry(table) for table in copies().values()]
    context = {
        "now": now_ms(),
        "entries": entries,
        "table": VIEW_TABLE,
        "address": request.get_full_path(),
    }
    return render_page(request, "topic_views/views", context)


@require_safe
@never_cache
@role_required("read", among=OPERATORS)
def view(request: HttpRequest, name: str) -> HttpResponse:
    """Return the page of a view's rows; to a script, the part that renews itself. Raises
    Http404."""
    table = copies().get(name)
    if table is None:
        raise Http404
    form = RowFilter(request.GET)
    valid, entry = form.is_valid(), _entry(table)
    context = {
        "now": now_ms(),
        "entry": entry,
        "form": form,
        "narrowed": bool(form.query()),
        "table": ROW_TABLE,
        "address": request.get_full_path(),
        **(_rows(table, form) if valid and not entry.reason else {}),
    }
    return render_page(request, "topic_views/view", context, status=200 if valid else 422)


def _rows(table: ViewTable, form: RowFilter) -> dict[str, Any]:
    after = form.cleaned_data["after"]
    wanted = form.wanted()
    page = table.page(wanted.test(), PAGE_SIZE, after, prefix=wanted.prefix())
    following = "" if page.following is None else page.following.hex()
    place = form.data.get("after", "")
    return {
        "lines": list(map(_line, page.rows)),
        "first": after is None,
        "pager": Pager.by_key(form.query(), "after", place, following),
    }


def _entry(table: ViewTable) -> Entry:
    state = table.state()
    ready = state.status == "ready"
    reason = "" if ready else why_not(table, state)
    return Entry(table.view, state, STATUSES[state.status], reason, ready and is_stale(state))


def _line(row: Row) -> Line:
    cut = len(row.value) > LONGEST_VALUE
    return Line(printed(row.key[:LONGEST_VALUE]), printed(row.value[:LONGEST_VALUE]), cut, row)
