"""The state store's pages: requested, followed, shown next to the database, exported as a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import msgspec
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import ADMINS, role_required, user_of
from dashboard.core.common.exports import attachment, written
from dashboard.core.common.navigation import render_page
from dashboard.core.common.retention import apply_all
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.tables import Column, Pager, Table
from dashboard.core.common.times import DAY_MS, now_ms
from dashboard.core.states.board_rows import asset_path
from dashboard.operate.requests.batch_queries import progress_of, progress_of_all, submit_form
from dashboard.operate.requests.models import (
    MOST_READINGS,
    READINGS_KEPT,
    READINGS_KEPT_MS,
    Reading,
    StoredRow,
)
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
"""Rows of a file that are read and sent at a time."""
READINGS = Table(
    "readings", Column.time("Asked"), "Scenario", "Of it", "By", Column.number("Batch"), "Outcome"
)
BUCKETS = Table(
    "stored-buckets", Column.time("Partition"), Column.time("Clock"), Column.number("Offset"),
    Column.number("Assets"), "Rule",
)  # fmt: skip


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@role_required("read", ADMINS)
def readings(request: HttpRequest) -> HttpResponse:
    """List what was read, with the form that requests another reading."""
    if request.method != "POST":
        chosen = request.GET.get("scenario", "")
        initial = {"scenario": chosen, "asset": request.GET.get("asset", "")[:255]}
        return _list(request, ReadForm(initial=initial))
    form = ReadForm(request.POST)
    if not form.is_valid():
        return _list(request, form, 422)
    wanted = form.read_request()
    reading, now = _new(wanted), now_ms()
    status = submit_form(form, "read-state", wanted, reading, user_of(request), now)
    if form.errors:
        return _list(request, form, status)
    apply_all(READINGS_KEPT, now)
    record(
        Actor.of(request),
        "job.read-state",
        scenario=wanted.scenario,
        target=wanted.asset or "",
        partition=wanted.partition,
    )
    return redirect("state_store:reading", reading.pk)


def _new(wanted: ReadState) -> Reading:
    return Reading(
        id=uuid4(),
        scenario=wanted.scenario,
        partition=wanted.partition,
        asset=wanted.asset or "",
        after=wanted.after,
    )


def _list(request: HttpRequest, form: ReadForm, status: int = 200) -> HttpResponse:
    now = now_ms()
    newest = list(Reading.objects.order_by("-asked_at")[:MOST_READINGS])
    context = {
        "now": now,
        "form": form,
        "table": READINGS,
        "readings": list(zip(newest, progress_of_all(newest, now), strict=True)),
        "kept": MOST_READINGS,
        "kept_days": READINGS_KEPT_MS // DAY_MS,
        "most": MOST_ROWS,
    }
    return render(request, "state_store/readings.html", context, status=status)


@require_safe
@never_cache
@role_required("read", ADMINS)
def reading(request: HttpRequest, id: UUID) -> HttpResponse:  # noqa: A002 - as in the URL
    """Return one reading, its progress and its rows; to a script, the part that renews itself."""
    reading, now = get_object_or_404(Reading, pk=id), now_ms()
    context: dict[str, Any] = {
        "now": now,
        "reading": reading,
        "scenario": scenarios().get(reading.scenario),
        "followed": progress_of(reading, now),
        "admin": True,
        "back": request.path,
        "address": request.get_full_path(),
    }
    if reading.complete:
        form = ShowForm(request.GET)
        shown = _shown(form)
        page = Paginator(rows_of(reading, shown), PAGE).get_page(shown.page)
        context |= {
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
    return render_page(request, "state_store/reading", context)


def _shown(form: ShowForm) -> ReadingPage:
    """Return what is to be shown; what cannot be read is left out, and the form says so."""
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
def export(request: HttpRequest, id: UUID) -> HttpResponseBase:  # noqa: A002 - as in the URL
    """Return the rows that are to be shown as a file: a JSON object in a line each."""
    reading = get_object_or_404(Reading, pk=id)
    shown = _shown(ShowForm(request.GET))
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
