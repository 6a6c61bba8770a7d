"""The console's page of the job: how its queries fare, and what is asked of them."""

from __future__ import annotations

from typing import Any, get_args

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.audit.log import Actor, note
from dashboard.console import query_status, samples
from dashboard.core.access import form_of, role_required
from dashboard.core.pages import render_page
from dashboard.core.rate_limits import TooMany
from dashboard.core.roles import Role, role_of
from dashboard.core.times import now_ms
from dashboard.dead_letters.forgeries import refused
from dashboard.job.forms import OFFERS, RequestForm
from dashboard.job.request_progress import last_of, newest
from dashboard.job.requests import send
from wire.job import Action


@require_safe
@never_cache
@role_required("read")
def job(request: HttpRequest) -> HttpResponse:
    """Every query, and what was asked of it; to a script, the part that renews itself."""
    return _page(request)


@form_of("console:job")
@role_required("read", among=(Role.ADMIN,))
def ask(request: HttpRequest, query: str) -> HttpResponse:
    """Ask something of a query; what becomes of it is told in the page's list."""
    action = request.POST.get("action")
    if action not in OFFERS or query not in query_status.names():
        raise Http404
    form = RequestForm(query, action, request.POST)
    if not form.is_valid():
        return _page(request, (query, form), 422)
    assert isinstance(request.user, User)
    data, actor = form.cleaned_data, Actor.of(request)
    reason = data["reason"]
    try:
        row, _ = send(
            query, form.offer.action, request.user, now_ms(), reason=reason, id_=data["id"]
        )
    except TooMany as error:
        note(actor, f"job.{action}", target=query, outcome="refused: too many", reason=reason)
        form.add_error(None, str(error))
        return _page(request, (query, form), 429)
    note(actor, f"job.{action}", target=query, outcome=row.status, reason=reason)
    return redirect(f"{reverse('console:job')}#query-{query}")


@require_safe
@never_cache
@role_required("read")
def figures(request: HttpRequest, query: str) -> HttpResponse:
    """A query's figures over time as JSON, for the charts."""
    span = request.GET.get("span", "hour")
    if span not in query_status.SPANS:
        raise Http404
    return JsonResponse(query_status.history(query, span, now_ms()))


@require_safe
@never_cache
@role_required("read")
def samples_of(request: HttpRequest, query: str) -> HttpResponse:
    """How long reports took to the board, and what else was measured, as JSON, for the charts."""
    span = request.GET.get("span", "hour")
    if span not in query_status.SPANS:
        raise Http404
    back, width = query_status.SPANS[span]
    return JsonResponse(samples.history(query, back, max(width, samples.SLOT_MS), now_ms()))


def _page(
    request: HttpRequest, bound: tuple[str, RequestForm] | None = None, status: int = 200
) -> HttpResponse:
    now, admin = now_ms(), role_of(request.user) is Role.ADMIN
    found, listed = query_status.queries(now), newest(now)
    context = {
        "now": now,
        "address": "/job/",
        "queries": [
            (
                query,
                _forms(query, bound) if admin else [],
                last_of(query.name, listed, now),
                samples.lines(query.name, now),
            )
            for query in found
        ],
        "asked": listed,
        "refused": refused(),
        "admin": admin,
        "spans": query_status.SPANS,
        "spark": query_status.spark_page(request.get_host().rsplit(":", 1)[0]),
    }
    return render_page(request, "console/job", context, status=status)


def _forms(query: query_status.Query, bound: tuple[str, RequestForm] | None) -> list[Any]:
    """What may be asked of a query as it is, and whether its form is open."""
    offered: list[Action] = ["start" if query.state == "stopped" else "stop", "reload"]
    if query.state in ("waiting", "restarting"):
        offered.insert(0, "start")
    forms = {action: RequestForm(query.name, action) for action in offered}
    if bound is not None and bound[0] == query.name:
        forms[bound[1].offer.action] = bound[1]
    return [(forms[name], forms[name].is_bound) for name in get_args(Action) if name in forms]
