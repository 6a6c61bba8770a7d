"""Pages of commands: the forms' target, and a command's way to its outcome."""

from __future__ import annotations

import uuid

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from dashboard.accounts.access import is_fragment, role_required
from dashboard.board.store import record_of
from dashboard.commands.following import progress
from dashboard.commands.forms import FORMS, CommandForm, PurgeForm
from dashboard.commands.limits import TooMany
from dashboard.commands.models import Command as Row
from dashboard.commands.panel import Panel, asset_url
from dashboard.commands.sending import IdTaken, Invalid, now_ms, send
from dashboard.scenarios import scenarios
from domain.scenario import Scenario


@require_POST
@role_required("command")
def command(request: HttpRequest, scenario: str, kind: str, asset: str) -> HttpResponse:
    """Send one command, or show its form again with what was typed and what was wrong."""
    known = scenarios().get(scenario)
    if known is None or kind not in FORMS:
        raise Http404
    form = FORMS[kind](known, request.POST)
    if not form.is_valid():
        return _again(request, form, asset, 422)
    if isinstance(form, PurgeForm) and not form.confirmed:
        return _again(request, form, asset, 200)
    return _send(request, known, form, asset)


def _send(request: HttpRequest, scenario: Scenario, form: CommandForm, asset: str) -> HttpResponse:
    assert isinstance(request.user, User)
    try:
        asked = form.command(asset, request.user.get_username())
        row = send(scenario, asked, request.user, "form")
    except (Invalid, IdTaken) as error:
        form.blame(getattr(error, "field", None), str(error))
        return _again(request, form, asset, 422)
    except TooMany as error:
        form.blame(None, str(error))
        return _again(request, form, asset, 429)
    if row.status == "unsent":
        form.blame(None, f"Not sent: {row.outcome}")
        return _again(request, form, asset, 503)
    if not is_fragment(request):
        return redirect(f"{asset_url(scenario.name, asset)}?command={row.pk}")
    panel = Panel(scenario, asset, record_of(scenario.name, asset), command=row)
    return render(request, "commands/_forms.html", panel.context())


def _again(request: HttpRequest, form: CommandForm, asset: str, status: int) -> HttpResponse:
    panel = Panel(form.scenario, asset, record_of(form.scenario.name, asset), bound=form)
    if is_fragment(request):  # htmx swaps only what succeeds
        return render(request, "commands/_forms.html", panel.context())
    return render(request, "commands/page.html", panel.context(), status=status)


@require_GET
@never_cache
@role_required("read")
def status(request: HttpRequest, id: uuid.UUID) -> HttpResponse:  # noqa: A002 - as in the URL
    """How far a command has come: a fragment that asks again until it is settled, or a page."""
    row = get_object_or_404(Row, pk=id)
    context = {
        "command": row,
        "progress": progress(row, now_ms()),
        "asset_url": asset_url(row.scenario, row.asset),
    }
    name = "commands/_status.html" if is_fragment(request) else "commands/status.html"
    return render(request, name, context)
