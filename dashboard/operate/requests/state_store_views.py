"""The state store's pages: request a reading, follow it, compare it, export it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import msgspec
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.common.access import ADMINS, role_required, takes
from dashboard.core.common.exports import attachment, written
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.tables import Column, Pager, Table, file_refusal
from dashboard.core.states.board_rows import asset_path
from dashboard.operate.requests.batch_queries import QueryDetail, QueryList
from dashboard.operate.requests.models import READINGS_KEPT, Reading, StoredRow
from dashboard.operate.requests.state_store import (
    PAGE,
    VERDICTS,
    ReadForm,
    ReadingPage,
    ShowForm,
    buckets_of,
    counts,
    lines,
    rows_of,
)
from wire.batch_query import MOST_ROWS, ReadState

PORTION = 500
"""Rows of a file read and sent at a time."""
READINGS = Table(
    "readings", Column.time("When"), "Scenario", "Range", "By", Column.number("Batch"), "Outcome"
)
BUCKETS = Table(
    "stored-buckets", Column.time("Partition"), Column.time("Clock"), Column.number("Offset"),
    Column.number("Assets"), "Rule",
)  # fmt: skip


class ReadingList(QueryList):
    """Earlier readings, and the form that requests another."""

    template_name = "requests/state_store/readings.html"
    roles = ADMINS
    form_class = ReadForm
    kept = READINGS_KEPT
    table = READINGS
    parameters = ("scenario", "asset")
    action = "read-state"
    detail = "state_store:reading"

    def get_form(self, form_class: Any = None) -> Any:
        """Return the submitted form, or one filled in from the URL."""
        if self.request.method == "POST":
            return super().get_form(form_class)
        chosen = {name: self.request.GET.get(name, "")[:255] for name in ("scenario", "asset")}
        return ReadForm(initial=chosen)

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        """Return the context with the most assets that are read."""
        return super().get_context_data(most=MOST_ROWS, **context)

    def query(self, form: ReadForm) -> tuple[ReadState, Reading, dict[str, Any]]:
        """Return the reading that the form describes, and the facts for the audit."""
        parameters = form.read_request()
        partition, asset = parameters.partition, parameters.asset or ""
        row = Reading(
            id=uuid4(),
            scenario=parameters.scenario,
            partition=partition,
            asset=asset,
            after=parameters.after,
        )
        return parameters, row, {"target": asset, "partition": partition}


class ReadingDetail(QueryDetail):
    """One reading and its rows."""

    queryset = Reading.objects.all()
    template_name = "requests/state_store/reading.html"
    roles = ADMINS
    parameters = ShowForm.parameters()

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        """Return the context with the reading and, once it is complete, its rows."""
        reading = self.row
        context["reading"], context["scenario"] = reading, scenarios().get(reading.scenario)
        if reading.complete:
            context |= _rows(reading, ShowForm(self.request.GET))
        return super().get_context_data(**context)


def _rows(reading: Reading, form: ShowForm) -> dict[str, Any]:
    shown = _shown(form)
    page = Paginator(rows_of(reading, shown), PAGE).get_page(shown.page)
    return {
        "form": form,
        "shown": shown,
        "page": page,
        "rows": [_row(reading, row) for row in page],
        "counts": counts(reading, shown),
        "row_table": shown.table,
        "exported": shown.query(page=1),
        "bucket_table": BUCKETS,
        "buckets": buckets_of(reading),
        "pager": Pager.numbered(page, lambda at: shown.query(page=at)),
    }


def _shown(form: ShowForm) -> ReadingPage:
    """Return the rows to show; unreadable values are left out, and the form reports them."""
    form.is_valid()
    data = form.cleaned_data
    return ReadingPage(
        data.get("verdict", ""),
        data.get("q", ""),
        data.get("sort") or "standing",
        data.get("page") or 1,
    )


def _row(reading: Reading, row: StoredRow) -> dict[str, Any]:
    word, icon, colour, hint = VERDICTS[row.verdict]
    board = msgspec.json.decode(row.board) if row.board else None
    return {
        "is": row,
        "word": word,
        "icon": icon,
        "colour": colour,
        "hint": hint,
        "lines": lines(row.stored, board, row.fields),
        "url": asset_path(reading.scenario, row.asset),
    }


@require_safe
@never_cache
@role_required("read", ADMINS)
@takes(*ShowForm.parameters(), blank=False)
def export(request: HttpRequest, id: UUID) -> HttpResponseBase:  # noqa: A002 - as in the URL
    """Return the selected rows as a file of NDJSON."""
    reading, form = get_object_or_404(Reading, pk=id), ShowForm(request.GET)
    if refusal := file_refusal("ndjson", form):
        return refusal
    shown = _shown(form)
    lines = written("ndjson", (), _portions(reading, shown))
    return attachment(request, lines, f"state-store-{reading.scenario}", "ndjson")


def _portions(reading: Reading, shown: ReadingPage) -> Iterator[Iterator[dict[str, Any]]]:
    rows = rows_of(reading, shown)
    at = 0
    while portion := list(rows[at : at + PORTION]):
        yield map(_object, portion)
        at += PORTION


def _object(row: StoredRow) -> dict[str, Any]:
    return {
        "asset": row.asset,
        "partition": row.partition,
        "standing": row.verdict,
        "fields": row.fields,
        "store_version": row.version or None,
        "board_version": row.board_version or None,
        "store": msgspec.Raw(row.record.encode()) if row.record else None,
        "board": msgspec.Raw(row.board.encode()) if row.board else None,
    }
