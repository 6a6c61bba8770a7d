"""The pages of views: all of them, and the rows of one."""

from __future__ import annotations

from typing import Any, NamedTuple

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.common.access import OPERATORS, role_required
from dashboard.core.common.forms import FilterForm
from dashboard.core.common.navigation import render_page
from dashboard.core.common.tables import Column, Pager, Table
from dashboard.core.common.times import now_ms
from dashboard.operate.console.topic_copies import copies, is_stale, why_not
from dashboard.operate.console.topic_table import (
    MAX_PATTERN,
    CopyState,
    TopicRow,
    TopicRowFilter,
    ViewTable,
)
from dashboard.operate.console.topics import (
    MAX_EXPRESSION,
    BadExpression,
    TopicView,
    expression,
    printed,
)

# ---- topic views ---------------------------------------------------------------------------------
# The filter of a view's rows.


class RowFilterForm(FilterForm):
    """The filter in the address."""

    key = forms.CharField(
        required=False,
        max_length=MAX_PATTERN,
        label="Key",
        strip=False,
        widget=forms.TextInput(attrs={"placeholder": "name-1*", "autocomplete": "off"}),
        help_text="A whole key; * stands for anything, ? for one character.",
    )
    # A field `matches` would hide the form's own method in the browser.
    expression = forms.CharField(
        required=False,
        max_length=MAX_EXPRESSION,
        label="Regular expression",
        strip=False,
        widget=forms.TextInput(attrs={"placeholder": "name-(1|2)[0-9]+", "autocomplete": "off"}),
        help_text="Of a whole key, as RE2 has them.",
    )
    not_empty = forms.BooleanField(required=False, label="Without empty values")
    after = forms.CharField(required=False, max_length=100_000, widget=forms.HiddenInput)

    PLACES = ("after",)

    def criteria(self) -> TopicRowFilter:
        """Return which rows are asked for. The form must be valid."""
        data = self.cleaned_data
        return TopicRowFilter(data["key"], data["not_empty"], data["expression"])

    def clean_expression(self) -> str:
        """Return the expression. Raises ValidationError."""
        text: str = self.cleaned_data["expression"]
        try:
            expression(text)
        except BadExpression as error:
            raise forms.ValidationError(f"Expected {error}.") from None
        return text

    def clean_after(self) -> bytes | None:
        """Return the key after which the page begins. Raises ValidationError."""
        text = self.cleaned_data["after"]
        try:
            return bytes.fromhex(text) if text else None
        except ValueError:
            raise forms.ValidationError("Expected a page of this list.") from None


# ---- topic views ---------------------------------------------------------------------------------
# The pages of views: all of them, and the rows of one.

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


class ViewStatus(NamedTuple):
    """A view in the list. reason: why it gives no answer, empty where it does."""

    view: TopicView
    state: CopyState
    status: str
    reason: str
    stale: bool


class ViewRow(NamedTuple):
    """A row as it is shown. cut: whether the value is longer."""

    key: str
    value: str
    cut: bool
    row: TopicRow


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
    form = RowFilterForm(request.GET)
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


def _rows(table: ViewTable, form: RowFilterForm) -> dict[str, Any]:
    after = form.cleaned_data["after"]
    wanted = form.criteria()
    page = table.page(wanted.test(), PAGE_SIZE, after, prefix=wanted.prefix())
    following = "" if page.following is None else page.following.hex()
    place = form.data.get("after", "")
    return {
        "lines": list(map(_line, page.rows)),
        "first": after is None,
        "pager": Pager.by_key(form.query(), "after", place, following),
    }


def _entry(table: ViewTable) -> ViewStatus:
    state = table.state()
    ready = state.status == "ready"
    reason = "" if ready else why_not(table, state)
    return ViewStatus(table.view, state, STATUSES[state.status], reason, ready and is_stale(state))


def _line(row: TopicRow) -> ViewRow:
    cut = len(row.value) > LONGEST_VALUE
    return ViewRow(printed(row.key[:LONGEST_VALUE]), printed(row.value[:LONGEST_VALUE]), cut, row)
