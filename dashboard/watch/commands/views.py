"""The command forms of one asset, their target, and a command's way to its outcome."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from dashboard.core.audit.log import Actor
from dashboard.core.common.access import (
    OPERATORS,
    TooMany,
    form_of,
    is_fragment,
    may,
    role_required,
    user_of,
)
from dashboard.core.common.scenarios import scenario_or_404, scenarios
from dashboard.core.common.times import now_ms
from dashboard.core.rules.models import as_carried
from dashboard.core.states.stores import record_of
from dashboard.watch.commands.forms import (
    FORMS,
    CommandForm,
    PurgeForm,
    ScheduleForm,
    asked_again,
    shown,
)
from dashboard.watch.commands.models import Command as Row
from dashboard.watch.commands.stale_forms import MOVED_ON, changes, moved_on, read_sight
from dashboard.watch.commands.submission import InvalidCommand, Submitter, progress, submit
from dashboard.watch.commands.warnings import returning
from domain.scenario import Scenario
from domain.version import Version
from wire.sink import StateValue

# ---- asset forms ---------------------------------------------------------------------------------
# The command forms of one asset, ready for a template.


@dataclass(frozen=True, slots=True)
class FormOffer:
    """A form and where it goes; `open` where the user is at it.

    changes: what has changed since the form's page was made, where that is why it came back;
    warning: what is to be confirmed of a task before it is scheduled.
    """

    form: CommandForm
    url: str
    open: bool
    changes: tuple[SafeString, ...] = ()
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Begun:
    """A form that an address opens: of which command, with which state chosen."""

    kind: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """The forms of one asset. `bound`: the one that came back, with what has changed since its page
    was made; `command`: one to follow."""

    scenario: Scenario
    asset: str
    record: StateValue | None
    bound: CommandForm | None = None
    changes: tuple[SafeString, ...] = ()
    command: Row | None = None
    user_id: int | None = None
    begun: Begun = Begun()

    def context(self) -> dict[str, Any]:
        """Return the context of `commands/_forms.html`."""
        now = now_ms()
        return {
            "scenario": self.scenario,
            "asset": self.asset,
            "record": self.record,
            "offers": {kind: self._offer(kind, now) for kind in FORMS},
            "asset_url": asset_url(self.scenario.name, self.asset),
            "command": self.command,
            "progress": progress(self.command, now) if self.command else None,
            "again": self.again(now),
            "returning": returning(as_carried(self.scenario), self.record, now),
            "may_command": True,
            "now": now,
        }

    def again(self, now: int) -> FormOffer | None:
        """Return the followed command's form once more, if the job found it too late; else None."""
        row = self.command
        if row is None or row.source != "form" or row.user_id != self.user_id:
            return None
        if row.status != "answered" or row.outcome not in MOVED_ON:
            return None
        form = asked_again(self.scenario, row, self.record, now)
        return self._returned(form, self._since(row, now))

    def _since(self, row: Row, now: int) -> tuple[SafeString, ...]:
        seen = Version.parse(row.if_version) if row.if_version else None
        sight = read_sight(row.kept.get("sight", ""))
        return tuple(changes(self.scenario, self.asset, seen, sight, self.record, now))

    def _offer(self, kind: str, now: int) -> FormOffer:
        if self.bound is not None and self.bound.kind == kind:
            return self._returned(self.bound, self.changes)
        showing, begun = shown(self.record, now), self.begun.kind == kind
        if begun and self.scenario.knows(self.begun.state):
            showing["state"] = self.begun.state
        form = FORMS[kind](self.scenario, showing=showing)
        if begun:
            form.begin()
        return FormOffer(form, _url(self.scenario, kind, self.asset), open=begun)

    def _returned(self, form: CommandForm, since: tuple[SafeString, ...]) -> FormOffer:
        """Return a form that came back. since: what has changed since its page was made."""
        said = form.warning(self.record) if isinstance(form, ScheduleForm) else ""
        return FormOffer(form, _url(self.scenario, form.kind, self.asset), True, since, said)


def asset_url(scenario: str, asset: str) -> str:
    """Return the address at which the board shows the asset."""
    return reverse("board:asset", args=(scenario, asset))


def _url(scenario: Scenario, kind: str, asset: str) -> str:
    return reverse("commands:command", args=(scenario.name, kind, asset))


# ---- commands ------------------------------------------------------------------------------------
# Pages of commands: the forms' target, and a command's way to its outcome.


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
        form.blame(refusal.field if isinstance(refusal, InvalidCommand) else None, str(refusal))
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
