"""Pages of commands: the forms' target, and a command's way to its outcome."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from dashboard.audit.log import Actor
from dashboard.commands.asset_forms import Panel, asset_url
from dashboard.commands.forms import FORMS, CommandForm, PurgeForm, ScheduleForm
from dashboard.commands.models import Command as Row
from dashboard.commands.stale_forms import changes, moved_on
from dashboard.commands.status import progress
from dashboard.commands.submission import Invalid, Submitter, submit
from dashboard.core.access import form_of, is_fragment, role_required, user_of
from dashboard.core.rate_limits import TooMany
from dashboard.core.roles import OPERATORS, may
from dashboard.core.scenarios import scenario_or_404, scenarios
from dashboard.core.times import now_ms
from dashboard.states.newest import record_of
from domain.scenario import Scenario
from wire.sink import StateValue


@form_of("board:asset", "scenario", "asset")
@role_required("command")
def command(request: HttpRequest, scenario: str, kind: str, asset: str) -> HttpResponse:
    """Submit one command, or show its form again with what was typed and what was wrong.

    A purge, and a task that has a warning, is shown once more, to be confirmed.

    A form whose asset is known to have changed since is shown again too, with what has changed,
    and nothing is sent: once it is sent again from there, it is carried out whatever the asset is.
    """
    known = scenario_or_404(scenario)
    if kind not in FORMS:
        raise Http404
    form = FORMS[kind](known, request.POST)
    if not form.is_valid():
        return _again(request, form, asset, 422)
    record = record_of(scenario, asset)
    late = _is_late(form, asset, record)
    if late or not _is_confirmed(form, record):
        return _renewed(request, form, asset, record, late)
    return _submit(request, form, asset)


def _is_late(form: CommandForm, asset: str, record: StateValue | None) -> bool:
    """Return whether the form requests an unchanged state that is known to be another by now."""
    data = form.cleaned_data
    if not data["unchanged"] or Row.objects.filter(pk=data["id"]).exclude(status="unsent").exists():
        return False  # a form sent twice is shown its outcome of the first time
    return moved_on(form.scenario.name, asset, data["seen"], data["sight"], record)


def _is_confirmed(form: CommandForm, record: StateValue | None) -> bool:
    """Return whether the valid form may be sent: its warning, if it has one, has been shown."""
    if isinstance(form, ScheduleForm):
        return form.warning(record) in ("", form.data.get("confirm"))
    return not isinstance(form, PurgeForm) or form.confirmed


def _renewed(
    request: HttpRequest, form: CommandForm, asset: str, record: StateValue | None, late: bool
) -> HttpResponse:
    """Return the form about what the asset is now, also to be confirmed where that is needed."""
    now, data = now_ms(), form.cleaned_data
    since = changes(form.scenario, asset, data["seen"], data["sight"], record, now) if late else []
    bound = form.renewed(record, now, late=late)
    panel = Panel(form.scenario, asset, record, bound=bound, changes=tuple(since))
    return _forms(request, panel, 409 if late else 200)


def _submit(request: HttpRequest, form: CommandForm, asset: str) -> HttpResponse:
    user, scenario = user_of(request), form.scenario
    by = Submitter(user, Actor.of(request), "form", form.kept())
    row, refusal = submit(scenario, form.command(asset, user.get_username()), by)
    if row is None:
        form.blame(refusal.field if isinstance(refusal, Invalid) else None, str(refusal))
        return _again(request, form, asset, 429 if isinstance(refusal, TooMany) else 422)
    if row.status == "unsent":
        form.blame(None, f"Not sent: {row.outcome}")
        return _again(request, form, asset, 503)
    if not is_fragment(request):
        return redirect(f"{asset_url(scenario.name, asset)}?command={row.pk}")
    return _forms(request, _following(row, scenario, user), 200)


def _again(request: HttpRequest, form: CommandForm, asset: str, status: int) -> HttpResponse:
    record = record_of(form.scenario.name, asset)
    return _forms(request, Panel(form.scenario, asset, record, bound=form), status)


def _forms(request: HttpRequest, panel: Panel, status: int) -> HttpResponse:
    if is_fragment(request):  # htmx swaps only what succeeds
        return render(request, "commands/_forms.html", panel.context())
    return render(request, "commands/page.html", panel.context(), status=status)


@require_GET
@never_cache
@role_required("read", OPERATORS)
def status(request: HttpRequest, id: uuid.UUID) -> HttpResponse:  # noqa: A002 - as in the URL
    """Return how far a command has come: a fragment that renews itself until it is settled, or a
    page.

    Where the job refused it because the asset had changed, its user gets the form again.
    """
    row = get_object_or_404(Row, pk=id)
    now, scenario = now_ms(), scenarios().get(row.scenario)
    context: dict[str, Any] = {
        "command": row,
        "scenario": scenario,
        "progress": progress(row, now),
        "asset": row.asset,
        "asset_url": asset_url(row.scenario, row.asset),
        "fragment": is_fragment(request),
        "now": now,
    }
    if scenario is not None and may(request.user, "command"):
        panel = _following(row, scenario, user_of(request))
        if panel.again(now) is not None:
            context |= panel.context()
    name = "commands/_status.html" if is_fragment(request) else "commands/status.html"
    return render(request, name, context)


def _following(row: Row, scenario: Scenario, user: User) -> Panel:
    record = record_of(scenario.name, row.asset)
    return Panel(scenario, row.asset, record, command=row, user_id=user.pk)
