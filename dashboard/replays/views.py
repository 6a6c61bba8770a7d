"""The console's page of replays: chosen, reviewed, requested, followed."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.console import query_status
from dashboard.console.partitions import edges
from dashboard.core.access import form_of, is_fragment, role_required
from dashboard.core.kafka_gateway import gateway
from dashboard.core.navigation import ADMINS
from dashboard.core.rate_limits import TooMany
from dashboard.core.tables import Column, Table
from dashboard.core.times import now_ms
from dashboard.job.models import JobProgress
from dashboard.replays.forms import ChoiceForm, ConfirmForm
from dashboard.replays.plan import Bucket, Edges, Plan, carried, plan
from dashboard.replays.progress import newest
from dashboard.replays.start_times import with_moments
from dashboard.replays.submission import submit

MEANS = {
    "log": "its whole log, from an empty state",
    "snapshot": "the snapshot's state, then what came since",
    "forgets": "no state: everything before is forgotten",
    "nothing": "nothing: its log is empty",
}
PLAN = Table(
    "replay-plan", "Bucket", Column.number("Log begins"), Column.number("Read from"),
    Column.time("From time"), Column.number("To"), Column.number("Records"),
    Column.number("Takes", "its part of the whole"), "Begins with",
)  # fmt: skip


@require_safe
@never_cache
@role_required("read", ADMINS)
def replay(request: HttpRequest) -> HttpResponse:
    """Return the form, its plan, and the newest replays; to a script, these alone."""
    if is_fragment(request):
        return render(request, "replays/_replays.html", _list())
    carry, log_edges, fault = _logs()
    data = request.GET if "query" in request.GET else None
    form = ChoiceForm(carry, log_edges, data)
    reviewed = _reviewed(form, log_edges) if data is not None and log_edges is not None else None
    confirm = ConfirmForm(reviewed.word, reviewed.digest()) if reviewed else None
    status = 422 if form.errors else 503 if data is not None and fault else 200
    return _page(request, form, reviewed, confirm, fault, status)


@form_of("replays:replay")
@role_required("read", ADMINS)
def start(request: HttpRequest) -> HttpResponse:
    """Request of the job what was reviewed, if that is still what would be done."""
    carry, log_edges, fault = _logs()
    form = ChoiceForm(carry, log_edges, request.POST)
    reviewed = None if log_edges is None else _reviewed(form, log_edges)
    if reviewed is None:
        return _page(request, form, None, None, fault, 503 if fault else 422)
    confirm = ConfirmForm(reviewed.word, reviewed.digest(), request.POST)
    if not confirm.is_valid():
        return _page(request, form, reviewed, confirm, "", 422)
    if confirm.cleaned_data["seen"] != reviewed.digest():
        fresh = ConfirmForm(reviewed.word, reviewed.digest())
        moved = "The logs have changed meanwhile: review it again."
        return _page(request, form, reviewed, fresh, moved, 409)
    try:
        sent = submit(request, reviewed, confirm.cleaned_data)
    except TooMany as error:
        confirm.add_error(None, str(error))
        return _page(request, form, reviewed, confirm, "", 429)
    if sent.status == "unsent":
        messages.error(request, f"Not sent: {sent.outcome}")
    return redirect(reverse("replays:replay") + "#replays-title")


def _logs() -> tuple[dict[str, list[str]], Edges | None, str]:
    """Return what each query carries, the edges of its logs, and why these are not known."""
    carry = {name: mine for name in sorted(query_status.names()) if (mine := carried(name))}
    names = [name for mine in carry.values() for name in mine]
    logs = edges([gateway().topics.reports(name) for name in names])
    if logs.fault:
        return carry, None, logs.fault
    scenario_of = gateway().topics.scenario_of
    by_place = {(scenario_of(topic) or "", at): edge for (topic, at), edge in logs.found.items()}
    return carry, by_place, ""


def _reviewed(form: ChoiceForm, log_edges: Edges) -> Plan | None:
    """Return the plan of a form that is valid."""
    if not form.is_valid():
        return None
    return with_moments(plan(form.choice(), log_edges), gateway().bus, gateway().topics)


def _page(
    request: HttpRequest,
    form: ChoiceForm,
    reviewed: Plan | None,
    confirm: ConfirmForm | None,
    trouble: str,
    status: int,
) -> HttpResponse:
    last = JobProgress.objects.order_by("-id").first()
    context = _list() | {
        "form": form,
        "plan": reviewed,
        "plan_table": PLAN,
        "rows": _rows(reviewed) if reviewed else [],
        "confirm": confirm,
        "trouble": trouble,
        "heard": last is not None and bool(form.buckets),
    }
    return render(request, "replays/replay.html", context, status=status)


def _rows(plan: Plan) -> list[tuple[Bucket, str, float]]:
    """Return each bucket, what it begins with in words, and how long its records take, s."""
    return [(each, MEANS[each.means], plan.seconds_of(each)) for each in plan.buckets]


def _list() -> dict[str, Any]:
    now = now_ms()
    return {"now": now, "address": "/replay/", "replays": newest(now)}
