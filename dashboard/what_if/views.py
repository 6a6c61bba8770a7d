"""What-if's pages: a rule is proposed, tried on the log, and shown."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.audit.log import Actor, note
from dashboard.batch_queries.progress import progress_of, progress_of_all
from dashboard.batch_queries.submission import submit_form
from dashboard.core.access import form_of, role_required, user_of
from dashboard.core.filter_forms import scenario_links
from dashboard.core.pages import render_page
from dashboard.core.retention import apply_all
from dashboard.core.roles import OPERATORS, Role, role_of
from dashboard.core.scenarios import scenario_or_first, scenarios
from dashboard.core.tables import Column, Pager, Table
from dashboard.core.times import DAY_MS, now_ms
from dashboard.rules.active_rule import as_carried
from dashboard.what_if.forms import TrialForm
from dashboard.what_if.models import KEPT, KEPT_MS, MOST_TRIALS, Trial
from dashboard.what_if.queries import (
    PAGE,
    STATES,
    again_url,
    asset_table,
    began_of,
    begun_at,
    earlier,
    propose_url,
    proposed,
    rows_of,
    snapshots,
    states_of,
    totals_of,
)
from domain.overlay import MAX_TEXT, overlaid, overlay_text
from domain.scenario import Scenario
from wire.batch_query import WhatIf

ADMINS = (Role.ADMIN,)
TRIALS = Table(
    "trials", Column.time("When"), "Scenario", "Changed keys", Column.time("Since"), "By", "Why",
    "Outcome",
)  # fmt: skip


@require_safe
@never_cache
@role_required("read", OPERATORS)
def trials(request: HttpRequest) -> HttpResponse:
    """Return what was tried; to admins, the form that tries another rule."""
    running = _running(request.GET.get("scenario", ""))
    text = request.GET.get("rule", "")[:MAX_TEXT]
    initial = {"scenario": running.name, "back": "6", "rule": text}
    return _list(request, TrialForm(running, now_ms(), initial=initial))


@form_of("what_if:trials")
@role_required("read", ADMINS)
def run(request: HttpRequest) -> HttpResponse:
    """Request of the job to try a rule; its page shows how far it has come. Raises Http404."""
    name = request.POST.get("scenario", "")
    if name not in scenarios():
        raise Http404
    now = now_ms()
    form = TrialForm(_running(name), now, request.POST)
    if not form.is_valid():
        return _list(request, form, 422)
    data = form.cleaned_data
    tried = Trial(
        id=uuid4(),
        scenario=name,
        since=data["from"],
        keys=overlay_text(data["keys"]),
        reason=data["reason"],
    )
    proposed = overlaid(form.running, data["keys"])
    begin = snapshots(form.running, proposed, tried.since)
    what_if = WhatIf(name, tried.since, data["keys"], begin)
    status = submit_form(form, "what-if", what_if, tried, user_of(request), now)
    if form.errors:
        return _list(request, form, status)
    apply_all(KEPT, now)
    note(
        Actor.of(request),
        "job.what-if",
        scenario=tried.scenario,
        keys=sorted(data["keys"]),
        since=tried.since,
        reason=tried.reason,
    )
    return redirect("what_if:trial", tried.pk)


def _running(name: str) -> Scenario:
    """Return a scenario with the rule that the job uses; the first one where none has the name."""
    return as_carried(scenario_or_first(name))


def _list(request: HttpRequest, form: TrialForm, status: int = 200) -> HttpResponse:
    now = now_ms()
    newest = list(Trial.objects.order_by("-asked_at")[:MOST_TRIALS])
    context = {
        "now": now,
        "form": form,
        "running": form.running,
        "choices": scenario_links(form.running),
        "admin": role_of(request.user) is Role.ADMIN,
        "table": TRIALS,
        "trials": [
            (each, progress, totals_of(each))
            for each, progress in zip(newest, progress_of_all(newest, now), strict=True)
        ],
        "earlier": earlier(form.running),
        "kept": MOST_TRIALS,
        "kept_days": KEPT_MS // DAY_MS,
    }
    return render(request, "what_if/trials.html", context, status=status)


@require_safe
@never_cache
@role_required("read", OPERATORS)
def trial(request: HttpRequest, id: UUID) -> HttpResponse:  # noqa: A002 - as in the URL
    """Return one trial, its progress and its result; to a script, the part that renews itself.

    Raises Http404.
    """
    trial, now = get_object_or_404(Trial, pk=id), now_ms()
    known = scenarios().get(trial.scenario)
    admin = role_of(request.user) is Role.ADMIN
    context: dict[str, Any] = {
        "now": now,
        "trial": trial,
        "title": known.title if known else trial.scenario,
        "followed": progress_of(trial, now),
        "admin": admin,
        "back": request.path,
        "address": request.get_full_path(),
        "again": again_url(trial),
        "propose": propose_url(trial) if admin and known else "",
    }
    totals = totals_of(trial)
    if totals is not None:
        context |= _result(request, trial, totals, known)
    return render_page(request, "what_if/trial", context)


def _result(
    request: HttpRequest, trial: Trial, totals: Any, known: Scenario | None
) -> dict[str, Any]:
    scenario = proposed(totals, known or next(iter(scenarios().values())))
    rows = trial.fared.order_by("place")
    q = request.GET.get("q", "").replace("\0", "")[:255]
    if q:
        rows = rows.filter(asset__contains=q)
    page = Paginator(rows, PAGE).get_page(request.GET.get("page"))
    drawn, axis = rows_of(trial, page, scenario, totals)
    return {
        "totals": totals,
        "begin": begun_at(totals),
        "scenario": scenario,
        "began": began_of(totals),
        "state_table": STATES,
        "states": states_of(totals, scenario),
        "q": q,
        "pager": Pager.numbered(page, lambda at: f"?{urlencode({'q': q, 'page': str(at)})}"),
        "row_table": asset_table(axis, now_ms()),
        "rows": drawn,
        "moved": totals.earlier + totals.later,
        "mean_shift": totals.shift // max(1, totals.earlier + totals.later),
        "told": trial.fared.count(),
    }
