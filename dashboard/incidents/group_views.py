"""The pages of groups of incidents: their list, the same as a file, one of them, and its report."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.audit.log import Actor, note
from dashboard.core.access import role_required
from dashboard.core.exports import attachment, written
from dashboard.core.fields import scenario_choices
from dashboard.core.filter_forms import PeriodForm
from dashboard.core.listing import file_refusal
from dashboard.core.scenarios import scenario_or_first, scenarios
from dashboard.core.times import now_ms, unix_ms
from dashboard.incidents import groups
from dashboard.incidents.groups import GROUP_TABLE, MEMBER_TABLE, Found, Group, find_groups
from dashboard.incidents.models import real
from dashboard.incidents.queries import Wanted
from dashboard.incidents.report import group_as_markdown
from dashboard.incidents.timeline import timeline_of
from dashboard.labels.models import MAX_VALUE
from dashboard.labels.queries import keys

MOST_MEMBERS = 200
"""Most incidents of a group that its page lists, those that began first."""


class GroupFilter(PeriodForm):
    """The filter of groups in the address. Times in UTC."""

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
        """The label of a valid form, by default the first that the scenario has; "" of none."""
        return self.cleaned_data["label"] or next(iter(self.keys), "")

    def found(self) -> Found:
        """Return the groups of a valid form."""
        data = self.cleaned_data
        of_value = (self.key, data["value"]) if data["value"] else None
        wanted = Wanted(start=unix_ms(data["start"]), end=unix_ms(data["end"]), label=of_value)
        return find_groups(wanted, self.chosen, self.key)


@require_safe
@never_cache
@role_required("read")
def group_list(request: HttpRequest) -> HttpResponse:
    """Return the page of incidents grouped by a label, the newest first."""
    form = GroupFilter(request.GET)
    valid = form.is_valid()
    context = {
        "now": now_ms(),
        "form": form,
        "table": GROUP_TABLE,
        "query": form.query(),
        "key": form.key if valid else "",
        "scenario": form.chosen,
        "found": form.found() if valid and form.key else None,
    }
    return render(request, "incidents/groups.html", context, status=200 if valid else 422)


@require_safe
@never_cache
@role_required("read")
def group_file(request: HttpRequest, form: str) -> HttpResponseBase:
    """Return the groups that pass the filter as CSV or NDJSON."""
    filter_form = GroupFilter(request.GET)
    if refusal := file_refusal(form, filter_form):
        return refusal
    facts = {"form": form, "filter": filter_form.query()}
    note(Actor.of(request), "export.incidents", target=f"groups.{form}", **facts)
    rows = filter_form.found().groups if filter_form.key else []
    return attachment(
        request, written(form, groups.FIELDS, [map(groups.plain, rows)]), "groups", form
    )


@require_safe
@never_cache
@role_required("read")
def group(request: HttpRequest, number: int, key: str) -> HttpResponse:
    """Return the page of the group that an incident belongs to by a label."""
    known = _group(number, key)
    members = groups.entries(known)
    context = {
        "now": now_ms(),
        "group": known,
        "scenario": known.scenario,
        "members": members[:MOST_MEMBERS],
        "moments": timeline_of(members[:MOST_MEMBERS]),
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


def _group(number: int, key: str) -> Group:
    """Return the group of an incident. Raises Http404."""
    row = get_object_or_404(real().filter(scenario__in=scenarios()), pk=number)
    found = groups.group_of(row, scenarios()[row.scenario], key)
    if found is None:
        raise Http404
    return found
