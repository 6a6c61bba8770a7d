"""The list of scheduled tasks, and the form that cancels one of them."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.audit.log import Actor
from dashboard.commands.asset_forms import asset_url
from dashboard.commands.submission import Submitter, submit
from dashboard.core.access import form_of, role_required, user_of
from dashboard.core.pages import render_page
from dashboard.core.roles import OPERATORS, may, role_of
from dashboard.core.scenarios import scenario_or_404
from dashboard.core.tables import Pager
from dashboard.core.times import now_ms
from dashboard.schedules.forms import CancelForm, ScheduleFilter
from dashboard.schedules.models import ScheduledTask
from dashboard.schedules.queries import TASKS, entry_of, set_aside
from domain.records import Command

LISTED = 100
"""Tasks of one page of the list."""


@require_safe
@never_cache
@role_required("read")
def task_list(request: HttpRequest) -> HttpResponse:
    """Return the page of tasks, the next run first; to a script, the part that renews itself."""
    form = ScheduleFilter(request.GET)
    valid = form.is_valid()
    rows = form.wanted().rows() if valid else ScheduledTask.objects.none()
    shown = Paginator(rows, LISTED).get_page(form.cleaned_data["page"] if valid else 1)
    query = form.query()
    context = {
        "now": now_ms(),
        "form": form,
        "valid": valid,
        "table": TASKS,
        "entries": [(entry_of(row), uuid.uuid4()) for row in shown],
        "aside": set_aside(),
        "narrowed": bool(query),
        "address": request.get_full_path(),
        "may_command": may(request.user, "command"),
        "may_see_messages": role_of(request.user) in OPERATORS,
        "pager": Pager.numbered(shown, lambda page: f"?{_with_page(query, page)}"),
    }
    return render_page(request, "schedules/schedules", context, status=200 if valid else 422)


def _with_page(query: str, page: int) -> str:
    return "&".join(filter(None, (query, urlencode({"page": page}))))


@form_of("board:asset", "scenario", "asset")
@role_required("command")
def cancel(request: HttpRequest, scenario: str, asset: str) -> HttpResponse:
    """Send the command that cancels a task, and go to the asset's page, which follows it."""
    known = scenario_or_404(scenario)
    form = CancelForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Not sent: the form names no task.")
        return redirect(asset_url(scenario, asset))
    user, data = user_of(request), form.cleaned_data
    command = Command("cancel", asset, str(data["id"]), user.get_username(), task=str(data["task"]))
    row, refusal = submit(known, command, Submitter(user, Actor.of(request), "form"))
    if row is None:
        messages.error(request, f"Not sent: {refusal}")
        return redirect(asset_url(scenario, asset))
    return redirect(f"{asset_url(scenario, asset)}?command={row.pk}")
