"""The pages of maintenance windows: their list, one of them, the form that plans or changes one."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.audit.log import Actor, note
from dashboard.core.access import form_of, role_required, user_of
from dashboard.core.pages import render_page
from dashboard.core.rate_limits import TooMany
from dashboard.core.roles import may
from dashboard.core.scenarios import scenarios
from dashboard.core.times import now_ms
from dashboard.maintenance.changes import NotNow, cancel_window, end_window
from dashboard.maintenance.forms import WindowFilter, WindowForm
from dashboard.maintenance.models import FILTER, LISTED, PLANNED, RUNNING, Window
from dashboard.maintenance.queries import (
    COVERED_TABLE,
    INCIDENT_TABLE,
    SHOWN,
    WINDOW_TABLE,
    WINDOWS,
    Entry,
    coverage_of,
    incidents_of,
)


@require_safe
@never_cache
@role_required("read")
def window_list(request: HttpRequest) -> HttpResponse:
    """Return the page of windows, newest first; to a script, the part that renews itself."""
    form = WindowFilter(request.GET)
    valid = form.is_valid()
    before = (form.cleaned_data["before"] or 0) if valid else 0
    query = form.query()
    context = {
        "now": now_ms(),
        "form": form,
        "table": WINDOW_TABLE,
        "narrowed": bool(query),
        "address": request.get_full_path(),
        "may_command": may(request.user, "command"),
        **WINDOWS.context(form.wanted().rows() if valid else None, before, query),
    }
    return render_page(request, "maintenance/windows", context, status=200 if valid else 422)


@require_safe
@never_cache
@role_required("read")
def window(request: HttpRequest, number: int) -> HttpResponse:
    """Return the page of one window; to a script, the part that renews itself."""
    row, now = _window(number), now_ms()
    entry = Entry(row, now)
    context = {
        "now": now,
        "entry": entry,
        "covered": coverage_of(row, now),
        "incidents": incidents_of(row, now) if row.begin <= now else [],
        "covered_table": COVERED_TABLE,
        "incident_table": INCIDENT_TABLE,
        "most": SHOWN,
        "address": request.get_full_path(),
        "may_command": may(request.user, "command"),
        "planned": entry.status == PLANNED,
        "running": entry.status == RUNNING,
    }
    return render_page(request, "maintenance/window", context)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@role_required("command")
def new_window(request: HttpRequest) -> HttpResponseBase:
    """Return the form of a new window, or store what it sends.

    The address may say the scenario, and an asset or a filter.
    """
    now = now_ms()
    if request.method == "POST":
        return _save(request, WindowForm(now, request.POST), None)
    return _form(request, WindowForm(now, initial=_suggested(request)), None)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@role_required("command")
def edit_window(request: HttpRequest, number: int) -> HttpResponseBase:
    """Return the form of a planned window, or change it by what the form sends."""
    row, now = _window(number), now_ms()
    if row.status(now) != PLANNED:
        messages.error(request, "It is not planned any more, so it cannot be changed.")
        return redirect("maintenance:window", number)
    if request.method == "POST":
        seen = request.POST.get("revision", "")
        row.revision = int(seen) if seen.isdigit() and len(seen) < 9 else 0
        return _save(request, WindowForm(now, request.POST), row)
    return _form(request, WindowForm.of(row, now), row)


@form_of("maintenance:window", "number")
@role_required("command")
def end(request: HttpRequest, number: int) -> HttpResponseBase:
    """End a running window now."""
    return _do(request, number, end_window, "maintenance.ended", "It has ended.")


@form_of("maintenance:window", "number")
@role_required("command")
def cancel(request: HttpRequest, number: int) -> HttpResponseBase:
    """Cancel a window: it counts as if it had never been."""
    return _do(request, number, cancel_window, "maintenance.cancelled", "It is cancelled.")


def _do(
    request: HttpRequest,
    number: int,
    change: Callable[[Window, User, int], None],
    action: str,
    words: str,
) -> HttpResponseBase:
    row = _window(number)
    try:
        change(row, user_of(request), now_ms())
    except (NotNow, TooMany) as error:
        messages.error(request, str(error))
        return redirect("maintenance:window", number)
    note_window(Actor.of(request), action, row)
    messages.success(request, words)
    return redirect("maintenance:window", number)


def _save(request: HttpRequest, form: WindowForm, row: Window | None) -> HttpResponseBase:
    """Store the window of a form, and go to its page; the form again (422) with what is wrong."""
    try:
        saved = form.save(user_of(request), row) if form.is_valid() else None
    except TooMany as error:
        form.add_error(None, str(error))
        saved = None
    if saved is None:
        return _form(request, form, row, 422)
    note_window(Actor.of(request), f"maintenance.{'changed' if row else 'planned'}", saved)
    messages.success(request, "Saved.")
    return redirect("maintenance:window", saved.pk)


def _form(
    request: HttpRequest, form: WindowForm, row: Window | None, status: int = 200
) -> HttpResponse:
    context = {"form": form, "window": row}
    return render(request, "maintenance/form.html", context, status=status)


def _suggested(request: HttpRequest) -> dict[str, str]:
    """Return what a link to the form says of the window."""
    given = {name: request.GET.get(name, "") for name in ("scenario", "q", "asset")}
    suggested = {"scenario": given["scenario"] if given["scenario"] in scenarios() else ""}
    if given["asset"]:
        return suggested | {"covers": LISTED, "assets": given["asset"]}
    if given["q"]:
        return suggested | {"covers": FILTER, "filter": given["q"]}
    return suggested


def note_window(actor: Actor, action: str, row: Window) -> None:
    """Note in the audit what somebody did to a window."""
    facts = ("covers", "filter", "begin", "end", "excluded", "held", "why")
    named = {name: getattr(row, name) for name in facts}
    note(actor, action, scenario=row.scenario, target=row.name, id=row.pk, **named)


def _window(number: int) -> Window:
    """Return a window. Raises Http404."""
    return get_object_or_404(Window, pk=number, scenario__in=["", *scenarios()])
