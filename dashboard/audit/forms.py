"""Forms of the audit's page."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from django import forms

from dashboard.audit.actions import ACTIONS
from dashboard.audit.queries import Wanted
from dashboard.core.fields import scenario_choices
from dashboard.core.filter_forms import PeriodForm
from dashboard.core.times import unix_ms
from domain.names import MAX_NAME

MAX_NUMBER = 2**63 - 1


class AuditFilter(PeriodForm):
    """The filter in the address. Times in UTC."""

    user = forms.CharField(required=False, max_length=150, label="User")
    action = forms.ChoiceField(required=False)
    scenario = forms.ChoiceField(required=False)
    q = forms.CharField(required=False, max_length=MAX_NAME, label="Part of the target")
    outcome = forms.CharField(required=False, max_length=100)
    before = forms.IntegerField(
        required=False, min_value=0, max_value=MAX_NUMBER, widget=forms.HiddenInput
    )

    PLACES = ("before",)
    field_order = ("user", "action", "scenario", "q", "outcome")

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self.offer("scenario", [("", "all"), *scenario_choices()])
        self.offer("action", [("", "all"), *_actions()])
        for name, known in (("user", "users-known"), ("outcome", "outcomes-known")):
            self.fields[name].widget.attrs = {"list": known, "autocomplete": "off"}

    def wanted(self) -> Wanted:
        """Return the filter of a valid form."""
        data = self.cleaned_data
        return Wanted(
            user=data["user"],
            action=data["action"],
            scenario=data["scenario"],
            q=data["q"],
            outcome=data["outcome"],
            start=unix_ms(data["start"]),
            end=unix_ms(data["end"]),
        )


def _actions() -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the actions by their first word; a word's first choice is all of its actions."""
    groups = []
    for word, names in groupby(sorted(ACTIONS), key=lambda name: name.partition(".")[0]):
        group = list(names)
        every = [(f"{word}.", f"all of {word}")] if len(group) > 1 else []
        groups.append((word, [*every, *((name, ACTIONS[name]) for name in group)]))
    return groups
