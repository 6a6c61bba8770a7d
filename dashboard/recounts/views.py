"""Recounts' pages: a time is counted from the log, and held against the summary."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.audit.log import Actor, note
from dashboard.batch_queries.progress import progress_of, progress_of_all
from dashboard.batch_queries.snapshots import snapshots_before
from dashboard.batch_queries.submission import submit_form
from dashboard.core.access import form_of, role_required, user_of
from dashboard.core.pages import render_page
from dashboard.core.retention import apply_all
from dashboard.core.roles import Role, role_of
from dashboard.core.scenarios import scenarios
from dashboard.core.tables import Column, Table
from dashboard.core.times import DAY_MS, now_ms
from dashboard.recounts.forms import RecountForm
from dashboard.recounts.models import KEPT, KEPT_MS, MOST_RECOUNTS, Recount
from dashboard.recounts.queries import (
    HOURS,
    KINDS,
    TooManyWindows,
    comparison,
    excluded,
    totals_of,
)
from dashboard.rules.active_rule import as_carried
from dashboard.summaries.targets import reporting_zone
from wire.batch_query import Recount as Wanted

ADMINS = (Role.ADMIN,)
RECOUNTS = Table(
    "recounts", Column.time("When"), "Scenario", Column.time("From"), Column.time("To"), "By",
    "Outcome",
)  # fmt: skip


@require_safe
@never_cache
@role_required("read", ADMINS)
def recounts(request: HttpRequest) -> HttpResponse:
    """Return what was counted, and the form that counts once more."""
    return _list(request, RecountForm(now_ms(), initial=request.GET.dict()))


@form_of("recounts:recounts")
@role_required("read", ADMINS)
def run(request: HttpRequest) -> HttpResponse:
    """Request a recount of the job; its page shows how far it has come."""
    now = now_ms()
    form = RecountForm(now, request.POST)
    status = _request(request, form, now) if form.is_valid() else 422
    if form.errors:
        return _list(request, form, status)
    return redirect("recounts:recount", form.cleaned_data["recount"])


def _request(request: HttpRequest, form: RecountForm, now: int) -> int:
    """Send what a valid form asks for. Returns the HTTP status, beside the form's errors."""
    data = form.cleaned_data
    name, since, until = data["scenario"], data["since_ms"], data["until_ms"]
    try:
        windows = excluded(name, since, until)
    except TooManyWindows as error:
        form.add_error(None, str(error))
        return 422
    row = Recount(id=uuid4(), scenario=name, since=since, until=until, zone=reporting_zone().key)
    begin = snapshots_before(as_carried(scenarios()[name]), since)
    wanted = Wanted(name, since, until, row.zone, windows, begin)
    status = submit_form(form, "recount", wanted, row, user_of(request), now)
    if not form.errors:
        apply_all(KEPT, now)
        note(Actor.of(request), "job.recount", scenario=name, since=since, until=until)
        data["recount"] = row.pk
    return status


def _list(request: HttpRequest, form: RecountForm, status: int = 200) -> HttpResponse:
    now = now_ms()
    newest = list(Recount.objects.order_by("-asked_at")[:MOST_RECOUNTS])
    context = {
        "now": now,
        "form": form,
        "table": RECOUNTS,
        "recounts": list(zip(newest, progress_of_all(newest, now), strict=True)),
        "kept": MOST_RECOUNTS,
        "kept_days": KEPT_MS // DAY_MS,
    }
    return render(request, "recounts/recounts.html", context, status=status)


@require_safe
@never_cache
@role_required("read", ADMINS)
def recount(request: HttpRequest, id: UUID) -> HttpResponse:  # noqa: A002 - as in the URL
    """Return one recount, its progress and how it compares; to a script, the part that renews
    itself. Raises Http404."""
    row, now = get_object_or_404(Recount, pk=id), now_ms()
    known = scenarios().get(row.scenario)
    context: dict[str, Any] = {
        "now": now,
        "recount": row,
        "title": known.title if known else row.scenario,
        "followed": progress_of(row, now),
        "admin": role_of(request.user) is Role.ADMIN,
        "back": request.path,
        "address": request.get_full_path(),
    }
    totals = totals_of(row)
    if totals is not None:
        context |= {
            "totals": totals,
            "comparison": comparison(row, totals),
            "kind_table": KINDS,
            "hour_table": HOURS,
        }
    return render_page(request, "recounts/recount", context)
