"""The console's page of the job: how its queries fare, and what is asked of them."""

from __future__ import annotations

from typing import Any, get_args

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.audit.log import Actor, note
from dashboard.console import query_status, samples
from dashboard.core.access import form_of, role_required, user_of
from dashboard.core.pages import render_page
from dashboard.core.rate_limits import TooMany
from dashboard.core.roles import OPERATORS, Role, role_of
from dashboard.core.times import now_ms
from dashboard.dead_letters.forgeries import refused
from dashboard.job.forms import OFFERS, RequestForm
from dashboard.job.request_progress import REQUESTS, last_of, newest
from dashboard.job.requests import send
from dashboard.job.status import troubles
from dashboard.pipelines import forms as pipeline_forms
from dashboard.pipelines.status import ASSIGNMENT_TABLE, INVALID_TABLE, pipeline, pipelines
from wire.job import Action
from wire.pipeline import query_name


@require_safe
@never_cache
@role_required("read", OPERATORS)
def job(request: HttpRequest) -> HttpResponse:
    """List every query, and what was asked of it; for a script, the part that refreshes itself."""
    return _page(request)


@form_of("console:job")
@role_required("read", among=(Role.ADMIN,))
def ask(request: HttpRequest, query: str) -> HttpResponse:
    """Ask something of a query; the page's list shows what becomes of it."""
    action = request.POST.get("action")
    if action not in OFFERS or query not in query_status.names():
        raise Http404
    return _send(request, query, f"job.{action}", _form(query, action, request.POST))


@form_of("console:job")
@role_required("read", among=(Role.ADMIN,))
def ask_pipeline(request: HttpRequest, name: str) -> HttpResponse:
    """Ask something of a pipeline; the page's list shows what becomes of it."""
    action = request.POST.get("action")
    if action not in pipeline_forms.OFFERS or pipeline(name, now_ms()) is None:
        raise Http404
    form = pipeline_forms.request_form(name, action, request.POST)
    return _send(request, query_name(name), f"pipeline.{action}", form)


def _send(request: HttpRequest, query: str, action: str, form: RequestForm) -> HttpResponse:
    """Send what a form requests of a query; return to the page, with its errors if it has any."""
    if not form.is_valid():
        return _page(request, form, 422)
    data, actor = form.cleaned_data, Actor.of(request)
    reason = data["reason"]
    try:
        row, _ = send(
            query, form.offer.action, user_of(request), now_ms(), reason=reason, id_=data["id"]
        )
    except TooMany as error:
        note(actor, action, target=query, outcome="refused: too many", reason=reason)
        form.add_error(None, str(error))
        return _page(request, form, 429)
    note(actor, action, target=query, outcome=row.status, reason=reason)
    return redirect(f"{reverse('console:job')}#query-{form.query}")


def _form(query: str, action: str, data: Any = None) -> RequestForm:
    return RequestForm(query, action, data, address=reverse("console:ask", args=[query]))


@require_safe
@never_cache
@role_required("read", OPERATORS)
def figures(request: HttpRequest, query: str) -> HttpResponse:
    """Return a query's figures over time as JSON, for the charts."""
    span = request.GET.get("span", "hour")
    if span not in query_status.SPANS:
        raise Http404
    return JsonResponse(query_status.history(query, span, now_ms()))


@require_safe
@never_cache
@role_required("read", OPERATORS)
def samples_of(request: HttpRequest, query: str) -> HttpResponse:
    """Return as JSON how long reports took to the board, and other figures, for the charts."""
    span = request.GET.get("span", "hour")
    if span not in query_status.SPANS:
        raise Http404
    back, width = query_status.SPANS[span]
    return JsonResponse(samples.history(query, back, max(width, samples.SLOT_MS), now_ms()))


def _page(
    request: HttpRequest, bound: RequestForm | None = None, status: int = 200
) -> HttpResponse:
    now, admin = now_ms(), role_of(request.user) is Role.ADMIN
    found, listed = query_status.queries(now), newest(now)
    context = {
        "now": now,
        "address": "/job/",
        "missing": troubles(now),
        "queries": [
            (
                query,
                _forms(query, bound) if admin else [],
                last_of(query.name, listed, now),
                samples.lines(query.name, now),
            )
            for query in found
        ],
        "pipelines": [
            (
                shown,
                _with_bound(pipeline_forms.forms_of(shown), bound) if admin else [],
                last_of(query_name(shown.record.name), listed, now, pipeline_forms.OFFERS),
            )
            for shown in pipelines(now)
        ],
        "assignment_table": ASSIGNMENT_TABLE,
        "invalid_table": INVALID_TABLE,
        "batch_table": query_status.BATCH_TABLE,
        "minute_table": samples.MINUTES,
        "asked": listed,
        "request_table": REQUESTS,
        "refused": refused(),
        "admin": admin,
        "spans": query_status.SPANS,
        "spark": query_status.spark_page(request.get_host().rsplit(":", 1)[0]),
    }
    return render_page(request, "console/job", context, status=status)


def _forms(query: query_status.Query, bound: RequestForm | None) -> list[Any]:
    """Return the forms of what may be asked of a query as it is, and whether each is open."""
    offered: list[Action] = ["start" if query.state == "stopped" else "stop", "reload"]
    if query.state in ("waiting", "restarting"):
        offered.insert(0, "start")
    forms = [_form(query.name, name) for name in get_args(Action) if name in offered]
    return _with_bound(forms, bound)


def _with_bound(forms: list[RequestForm], bound: RequestForm | None) -> list[Any]:
    """Return forms of one query, and whether each is open: the one that was sent is."""
    shown = {form.offer.action: form for form in forms}
    if bound is not None and any(form.query == bound.query for form in forms):
        shown[bound.offer.action] = bound
    return [(form, form.is_bound) for form in shown.values()]
