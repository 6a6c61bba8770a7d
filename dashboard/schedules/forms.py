"""The filter of scheduled tasks, and the form that cancels one."""

from __future__ import annotations

from typing import Any

from django import forms

from dashboard.core.fields import scenario_choices
from dashboard.core.filter_forms import FilterForm
from dashboard.schedules.queries import ACTIONS, STATUS_TITLES, Wanted
from domain.names import MAX_NAME


class ScheduleFilter(FilterForm):
    """The filter in the address."""

    scenario = forms.ChoiceField(required=False)
    status = forms.ChoiceField(required=False)
    do = forms.ChoiceField(required=False, label="Does")
    owner = forms.CharField(required=False, max_length=MAX_NAME)
    q = forms.CharField(required=False, max_length=MAX_NAME, label="Part of a name")
    page = forms.IntegerField(required=False, min_value=1, widget=forms.HiddenInput)

    PLACES = ("page",)

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self.offer("scenario", [("", "all"), *scenario_choices()])
        self.offer("status", [("", "not over"), *STATUS_TITLES.items()])
        self.offer("do", [("", "anything"), *ACTIONS.items()])

    def wanted(self) -> Wanted:
        """Return the filter of a valid form."""
        data = self.cleaned_data
        return Wanted(data["scenario"], data["q"], data["do"], data["owner"], data["status"])


class CancelForm(forms.Form):
    """A form that cancels a task. id: of the command, made with the form."""

    id = forms.UUIDField()
    task = forms.UUIDField()
