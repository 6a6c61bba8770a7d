"""The command forms of one asset, their target, and a command's way to its outcome."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.forms.models import model_to_dict
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET
from ninja import Status

from dashboard.core.api.problems import Problem, invalid
from dashboard.core.audit.log import Actor
from dashboard.core.common.access import (
    OPERATORS,
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
    ScheduleForm,
    asked_again,
    shown,
)
from dashboard.watch.commands.models import Command as Row
from dashboard.watch.commands.stale_forms import MOVED_ON, changes, read_sight
from dashboard.watch.commands.submission import Outcome, Result, Submitter, progress, submit_form
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


# ---- outcomes ------------------------------------------------------------------------------------
# What came of a submission, for each kind of client.

STATUSES: dict[Result, tuple[int, int]] = {
    "sent": (200, 202),
    "unsent": (503, 503),
    "invalid": (422, 422),
    "id-taken": (422, 409),
    "too-many": (429, 429),
    "changed": (409, 409),
    "unconfirmed": (200, 409),
}
"""HTTP statuses: of a page, and of REST. REST names its problems as results are named."""

POLL_S = 0.05
"""How often a request of REST that waits looks for the job's answer, seconds."""


def render_outcome(
    request: HttpRequest,
    outcome: Outcome,
    form: CommandForm | None = None,
    asset: str = "",
    wait_s: float = 0.0,
) -> Any:
    """Return the outcome of a submission as a page, a fragment, or an answer of REST.

    form and asset: what was submitted on a page, None and empty for REST, which waits `wait_s`
    seconds for the job's answer. Raises Problem for a command of REST that is not sent.
    """
    if form is None:
        return _rest_answer(outcome, wait_s)
    if outcome.result == "sent" and outcome.row is not None and not is_fragment(request):
        return redirect(f"{asset_url(form.scenario.name, asset)}?command={outcome.row.pk}")
    context = _panel_of(outcome, form, asset, user_of(request)).context()
    if is_fragment(request):  # htmx swaps only what succeeds
        return render(request, "commands/_forms.html", context)
    page_status, _ = STATUSES[outcome.result]
    return render(request, "commands/page.html", context, status=page_status)


def _panel_of(outcome: Outcome, form: CommandForm, asset: str, user: User) -> Panel:
    """Return the asset's forms: with the command to follow, or with the one that came back."""
    if outcome.result in ("changed", "unconfirmed"):
        return _renewed(outcome, form, asset)
    if outcome.result == "sent" and outcome.row is not None:
        return _following(outcome.row, form.scenario, user)
    if outcome.reason or outcome.result == "unsent":
        prefix = "Not sent: " if outcome.result == "unsent" else ""
        form.blame(outcome.field, prefix + outcome.reason)
    return Panel(form.scenario, asset, record_of(form.scenario.name, asset), bound=form)


def _renewed(outcome: Outcome, form: CommandForm, asset: str) -> Panel:
    """Return the form about what the asset is now, also to be confirmed where that is needed."""
    now, data, record = now_ms(), form.cleaned_data, outcome.record
    late = outcome.result == "changed"
    since = changes(form.scenario, asset, data["seen"], data["sight"], record, now) if late else []
    bound = form.renewed(record, now, late=late)
    return Panel(form.scenario, asset, record, bound=bound, changes=tuple(since))


def _following(row: Row, scenario: Scenario, user: User) -> Panel:
    record = record_of(scenario.name, row.asset)
    return Panel(scenario, row.asset, record, command=row, user_id=user.pk)


def _rest_answer(outcome: Outcome, wait_s: float) -> Status[Any]:
    """Return 202 and the command, or 200 if the job answers within the wait. Raises Problem."""
    _, status = STATUSES[outcome.result]
    if outcome.field is not None:
        raise invalid(outcome.field, outcome.reason)
    if outcome.row is None or outcome.result != "sent":
        raise Problem(status, outcome.result, outcome.reason, headers=outcome.headers)
    row = _answered(outcome.row, wait_s)
    return Status(200 if wait_s and row.status == "answered" else status, command_out(row))


def _answered(row: Row, wait_s: float) -> Row:
    """Return the row once it is answered, or as it is after the wait."""
    end = time.monotonic() + wait_s
    while row.status != "answered" and time.monotonic() < end:
        time.sleep(POLL_S)
        row.refresh_from_db()
    return row


def command_out(row: Row) -> dict[str, Any]:
    """Return a command's row for the API."""
    return model_to_dict(row) | {
        "id": str(row.pk),
        "state": row.state or None,
        "if_version": row.if_version or None,
        "user": row.username,
        "phase": row.phase(now_ms()),
        "outcome": row.outcome if row.status == "answered" else None,
        "version": str(Version.parse(row.version)) if row.version else None,
    }


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
    by = Submitter(user_of(request), Actor.of(request), "form", form.kept())
    response: HttpResponse = render_outcome(request, submit_form(form, asset, by), form, asset)
    return response


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
