"""The pages of incidents, incident groups and maintenance windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.audit.log import Actor
from dashboard.core.common.access import TooMany, form_of, may, role_of, role_required, user_of
from dashboard.core.common.forms import FormPage, ListForm, PeriodForm, scenario_choices
from dashboard.core.common.lists import ListPage
from dashboard.core.common.navigation import OPERATORS, render_page
from dashboard.core.common.scenarios import scenario_or_first, scenarios
from dashboard.core.common.times import FIELD_SECOND, field_text, now_ms
from dashboard.watch.annotations.labels import keys
from dashboard.watch.annotations.models import MAX_VALUE
from dashboard.watch.incidents.models import (
    FILTER,
    LISTED,
    PLANNED,
    RUNNING,
    Incident,
    IncidentQuerySet,
    Window,
    WindowRefused,
    messages_about,
)
from dashboard.watch.incidents.queries import (
    GROUP_FIELDS,
    GROUP_TABLE,
    MEMBER_TABLE,
    GroupResult,
    IncidentGroup,
    find_groups,
    group_of,
)
from dashboard.watch.incidents.report import as_markdown, group_as_markdown, timeline, timeline_of
from dashboard.watch.incidents.windows import (
    COVERED_TABLE,
    SHOWN,
    WINDOW_INCIDENT_TABLE,
    WindowForm,
    coverage_of,
)

# ---- incidents -----------------------------------------------------------------------------------
# The page of an incident, and its report.


@require_safe
@never_cache
@role_required("read")
def incident(request: HttpRequest, number: int) -> HttpResponse:
    """Return an incident's page; scripts get only the part that refreshes."""
    row = _incident(number)
    begun = row.began_at + 999  # a form's times are to the second; by then it had begun
    as_of = {"scenario": row.scenario, "at": field_text(begun, FIELD_SECOND)}
    context = {
        "now": now_ms(),
        "incident": row,
        "scenario": scenarios()[row.scenario],
        "moments": timeline(row),
        "notified": messages_about(row) if role_of(request.user) in OPERATORS else (),
        "address": request.get_full_path(),
        "as_of": f"{reverse('board:as-of')}?{urlencode(as_of)}",
    }
    return render_page(request, "incidents/incident", context)


@require_safe
@never_cache
@role_required("read")
def incident_report(_request: HttpRequest, number: int) -> HttpResponse:
    """Return the report on an incident as a Markdown file."""
    text = as_markdown(_incident(number))
    response = HttpResponse(text, content_type="text/markdown; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="incident-{number}.md"'
    return response


def _incident(number: int) -> Incident:
    """Return an incident. Raises Http404."""
    return get_object_or_404(Incident.objects.shown(), pk=number)


# ---- group views ---------------------------------------------------------------------------------
# The pages of incident groups: their list, one group, and its report.

MOST_MEMBERS = 200
"""Most incidents of a group that its page lists, those that began first."""


class GroupFilterForm(ListForm, PeriodForm):
    """The filter of groups in the URL. Times in UTC."""

    before = None
    scenario = forms.ChoiceField(required=False)
    label = forms.ChoiceField(required=False)
    value = forms.CharField(required=False, max_length=MAX_VALUE, label="Of one value")

    field_order = ("scenario", "label", "value")

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self.chosen = scenario_or_first(str(self.data.get("scenario", "")))
        self.keys = keys(self.chosen.name)
        self.offer("scenario", scenario_choices())
        self.offer("label", [(key, key) for key in self.keys])

    @property
    def key(self) -> str:
        """The chosen label of a valid form, by default the scenario's first; "" if it has none."""
        return self.cleaned_data["label"] or next(iter(self.keys), "")

    def rows(self) -> IncidentQuerySet:
        """Return the incidents to group."""
        data = self.criteria()
        of_value = (self.key, data["value"]) if data["value"] else None
        return Incident.objects.find(start=data["start"], end=data["end"], label=of_value)

    def groups(self) -> GroupResult | None:
        """Return the groups, or None if the filter is invalid or the scenario has no labels."""
        if not self.is_valid() or not self.key:
            return None
        return find_groups(self.rows(), self.chosen, self.key)


class GroupList(ListPage):
    """The list of incidents grouped by a label, newest first."""

    name = "groups"
    form: GroupFilterForm
    form_class = GroupFilterForm
    template = "incidents/groups"
    table = GROUP_TABLE
    renews = False
    fields = GROUP_FIELDS
    exported_as = "incidents"

    def list_context(self) -> dict[str, Any]:
        """Return the groups."""
        return {"found": self.form.groups()}

    def context(self) -> dict[str, Any]:
        """Return the label and scenario of the groups."""
        key = self.form.key if self.form.is_valid() else ""
        return {"key": key, "scenario": self.form.chosen}

    def portions(self) -> Iterable[Iterable[IncidentGroup]]:
        """Return the groups for the file."""
        found = self.form.groups()
        return [found.groups] if found else []

    def plain(self, row: IncidentGroup) -> dict[str, Any]:
        """Return a group as an NDJSON object or a CSV line."""
        return row.plain()


@require_safe
@never_cache
@role_required("read")
def group(request: HttpRequest, number: int, key: str) -> HttpResponse:
    """Return the page of an incident's group for a label."""
    known = _group(number, key)
    members = known.incidents[:MOST_MEMBERS]
    context = {
        "now": now_ms(),
        "group": known,
        "scenario": known.scenario,
        "members": members,
        "moments": timeline_of(members),
        "table": MEMBER_TABLE,
    }
    return render(request, "incidents/group.html", context)


@require_safe
@never_cache
@role_required("read")
def group_report(_request: HttpRequest, number: int, key: str) -> HttpResponse:
    """Return the report on a group as a Markdown file."""
    text = group_as_markdown(_group(number, key), MOST_MEMBERS)
    response = HttpResponse(text, content_type="text/markdown; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="group-{number}.md"'
    return response


def _group(number: int, key: str) -> IncidentGroup:
    """Return the group of an incident. Raises Http404."""
    row = _incident(number)
    found = group_of(row, scenarios()[row.scenario], key)
    if found is None:
        raise Http404
    return found


# ---- maintenance ---------------------------------------------------------------------------------
# The pages of a maintenance window, and the form that plans or changes one.


@require_safe
@never_cache
@role_required("read")
def window(request: HttpRequest, number: int) -> HttpResponse:
    """Return a window's page; scripts get only the part that refreshes."""
    row, now = _window(number), now_ms()
    context = {
        "now": now,
        "window": row,
        "covered": coverage_of(row, now),
        "incidents": row.incidents(now)[:SHOWN],
        "covered_table": COVERED_TABLE,
        "incident_table": WINDOW_INCIDENT_TABLE,
        "most": SHOWN,
        "address": request.get_full_path(),
        "may_command": may(request.user, "command"),
        "planned": row.status == PLANNED,
        "running": row.status == RUNNING,
    }
    return render_page(request, "incidents/maintenance/window", context)


class WindowFormPage(FormPage):
    """The form for a new window, which the URL may fill in partly, or for a planned one."""

    template_name = "incidents/maintenance/form.html"
    permission = "command"
    form_class = WindowForm
    form_takes = ("now",)

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Return the response, or redirect if the window is no longer planned. Raises Http404."""
        self.row = _window(kwargs.pop("number")) if kwargs else None
        if self.row and self.row.status != PLANNED:
            messages.error(request, "It is no longer planned, so it cannot be changed.")
            return redirect("maintenance:window", self.row.pk)
        return super().dispatch(request, *args, **kwargs)

    def get_form(self, form_class: Any = None) -> Any:
        """Return the submitted form, or one filled in from the window or the URL."""
        if self.request.method != "POST":
            if self.row:
                return WindowForm.of(self.row, self.now)
            return WindowForm(self.now, initial=_suggested(self.request))
        if self.row:
            seen = self.request.POST.get("revision", "")
            self.row.revision = int(seen) if seen.isdigit() and len(seen) < 9 else 0
        return super().get_form(form_class)

    def form_valid(self, form: WindowForm) -> HttpResponse:
        """Store the window, unless somebody has changed it in the meantime."""
        try:
            saved = form.save(user_of(self.request), self.row)
        except TooMany as error:
            form.add_error(None, str(error))
            saved = None
        if saved is None:
            return self.form_invalid(form)
        action = f"maintenance.{'changed' if self.row else 'planned'}"
        saved.log(Actor.of(self.request), action)
        return self.done("Saved.", "maintenance:window", saved.pk)


@form_of("maintenance:window", "number")
@role_required("command")
def end(request: HttpRequest, number: int) -> HttpResponseBase:
    """End a running window now."""
    return _do(request, number, Window.end_early, "maintenance.ended", "It has ended.")


@form_of("maintenance:window", "number")
@role_required("command")
def cancel(request: HttpRequest, number: int) -> HttpResponseBase:
    """Cancel a window, so that it counts as if it had never been."""
    return _do(request, number, Window.cancel, "maintenance.cancelled", "It is cancelled.")


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
    except (WindowRefused, TooMany) as error:
        messages.error(request, str(error))
        return redirect("maintenance:window", number)
    row.log(Actor.of(request), action)
    messages.success(request, words)
    return redirect("maintenance:window", number)


def _suggested(request: HttpRequest) -> dict[str, str]:
    """Return the initial values that a link to the form gives."""
    given = {name: request.GET.get(name, "") for name in ("scenario", "q", "asset")}
    suggested = {"scenario": given["scenario"] if given["scenario"] in scenarios() else ""}
    if given["asset"]:
        return suggested | {"covers": LISTED, "assets": given["asset"]}
    if given["q"]:
        return suggested | {"covers": FILTER, "filter": given["q"]}
    return suggested


def _window(number: int) -> Window:
    """Return a window. Raises Http404."""
    return get_object_or_404(Window.objects.shown(), pk=number)
