"""The list of scheduled tasks, and the form that cancels one."""

from __future__ import annotations

import uuid
from typing import Any

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import urlencode

from dashboard.core.audit.log import Actor
from dashboard.core.common.access import OPERATORS, form_of, may, role_of, role_required, user_of
from dashboard.core.common.lists import ListPage
from dashboard.core.common.scenarios import scenario_or_404
from dashboard.core.common.tables import Column, Pager, Table
from dashboard.core.states.filter_forms import VocabularyForm
from dashboard.core.states.vocabularies import (
    ChoiceKey,
    TextKey,
    TimeKey,
    Vocabulary,
    choice_of,
    scenario_key,
)
from dashboard.watch.commands.models import (
    ACTIONS,
    ASIDE,
    OVER,
    STATUSES,
    WAITING,
    ScheduledTask,
    ScheduledTaskQuerySet,
)
from dashboard.watch.commands.submission import Submitter, submit
from dashboard.watch.commands.views import asset_url
from domain.records import Command

# ---- schedules -----------------------------------------------------------------------------------
# The columns of scheduled tasks, on the page and in the API.

STATUS_TITLES = {WAITING: "Waiting", ASIDE: "Set aside", OVER: "Over"}
FIELDS = (
    "scenario", "asset", "do", "state", "every", "until", "times", "owner", "reason", "outcome",
    "ran_at", "aside", "ended_at",
)  # fmt: skip
TASKS = Table(
    "schedules",
    "Asset",
    "Scenario",
    "Does",
    Column.text("If", "only if the asset is in this state then"),
    Column.time("Next run"),
    "How often",
    "Owner",
    Column.text("Last outcome"),
    "Status",
    Column.unseen("Cancel"),
)


# ---- schedules -----------------------------------------------------------------------------------
# The filter of scheduled tasks, and the form that cancels one.


def _task_owners() -> list[str]:
    owners = ScheduledTask.objects.order_by("owner").values_list("owner", flat=True)
    return list(owners.distinct())


TASK_VOCABULARY = Vocabulary(
    word=lambda text: Q(asset__icontains=text),
    example="a name, do:purge, next:<1h",
    default=f"status:{WAITING},{ASIDE}",
    keys=(
        ChoiceKey(
            "status", "waiting, set aside, over", choice_of(STATUS_TITLES), STATUSES.__getitem__
        ),
        scenario_key(),
        TextKey("asset", "the whole name", "asset"),
        ChoiceKey("do", "what it does", choice_of(ACTIONS), "do"),
        TextKey("owner", "in whose name it runs", "owner", known=_task_owners),
        TimeKey("next", "when it runs next: <1h from now", "next_at", ahead=True),
    ),
)


class ScheduleFilterForm(VocabularyForm):
    """The filter in the address; its pages have numbers."""

    vocabulary = TASK_VOCABULARY
    before = None

    page = forms.IntegerField(required=False, min_value=1, widget=forms.HiddenInput)

    PLACES = ("page",)

    def every(self) -> ScheduledTaskQuerySet:
        """Return the tasks, the next run first."""
        return ScheduledTask.objects.shown()


class CancelForm(forms.Form):
    """A form that cancels a task. id: of the command, made with the form."""

    id = forms.UUIDField()
    task = forms.UUIDField()


# ---- schedules -----------------------------------------------------------------------------------
# The list of scheduled tasks, and the form that cancels one of them.


class TaskList(ListPage):
    """The list of tasks, the next run first; in the API the last recorded."""

    form_class = ScheduleFilterForm
    template = "commands/schedules/schedules"
    table = TASKS
    fields = FIELDS

    def list_context(self) -> dict[str, Any]:
        """Return the tasks of the page, each with the id of a command, and the pager."""
        valid, query = self.form.is_valid(), self.form.query()
        rows = self.form.rows() if valid else ScheduledTask.objects.none()
        number = self.form.cleaned_data["page"] if valid else 1
        shown = Paginator(rows, self.page_size).get_page(number)
        return {
            "valid": valid,
            "entries": [(task, uuid.uuid4()) for task in shown],
            "narrowed": self.form.narrows,
            "pager": Pager.numbered(shown, lambda page: f"?{_with_page(query, page)}"),
        }

    def context(self) -> dict[str, Any]:
        """Return how many tasks are set aside, and what the user may do and see."""
        return {
            "aside": ScheduledTask.objects.shown().filter(STATUSES[ASIDE]).count(),
            "may_command": may(self.request.user, "command"),
            "may_see_messages": role_of(self.request.user) in OPERATORS,
        }

    def plain(self, row: ScheduledTask) -> dict[str, Any]:
        """Return a task as the API gives it."""
        own = super().plain(row)
        texts = {name: own[name] or None for name in ("state", "outcome", "aside")}
        named = {"id": str(row.task), "if": row.condition or None, "next": row.next_at}
        return own | texts | named | {"ending": row.ending or None}


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
    outcome = submit(known, command, Submitter(user, Actor.of(request), "form"))
    if outcome.row is None:
        messages.error(request, f"Not sent: {outcome.reason}")
        return redirect(asset_url(scenario, asset))
    return redirect(f"{asset_url(scenario, asset)}?command={outcome.row.pk}")
