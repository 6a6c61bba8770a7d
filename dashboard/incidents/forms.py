"""The filter of incidents."""

from __future__ import annotations

from typing import Any

from django import forms

from dashboard.core.fields import scenario_choices
from dashboard.core.filter_forms import PeriodForm
from dashboard.core.scenarios import scenarios
from dashboard.core.times import unix_ms
from dashboard.incidents.queries import ANY_TIME, BEGAN, ENDED, STATUSES, Wanted
from dashboard.labels.models import MAX_KEY, MAX_VALUE
from domain.names import MAX_NAME

MAX_ID = 2**63 - 1
OF_TIMES = {ANY_TIME: "some part of them", BEGAN: "they began", ENDED: "they ended"}
"""What of incidents lies in the time of the filter, in words."""


class LabelField(forms.CharField):
    """An optional label, `customer:Acme`; with nothing after the colon, that there is none."""

    def __init__(self) -> None:
        hint = {"placeholder": "customer:Acme", "autocomplete": "off"}
        super().__init__(
            required=False,
            max_length=MAX_KEY + 1 + MAX_VALUE,
            label="Label",
            widget=forms.TextInput(attrs=hint),
        )

    def clean(self, value: Any) -> tuple[str, str] | None:
        """Return key and value; None where nothing was given. Raises ValidationError."""
        text = super().clean(value)
        key, colon, of_key = text.partition(":")
        if not text:
            return None
        if not key or not colon:
            raise forms.ValidationError("Expected a key and a value, as customer:Acme.")
        return key, of_key


class IncidentFilter(PeriodForm):
    """The filter in the address. Times in UTC."""

    scenario = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)
    status = forms.ChoiceField(required=False)
    worst = forms.ChoiceField(required=False, label="Worst state")
    q = forms.CharField(required=False, max_length=MAX_NAME, label="Part of a name")
    asset = forms.CharField(required=False, max_length=MAX_NAME, label="Or its whole name")
    label = LabelField()
    of_time = forms.ChoiceField(required=False, label="In this time")
    flapping = forms.BooleanField(required=False, label="Only flapping ones")
    before = forms.IntegerField(
        required=False, min_value=0, max_value=MAX_ID, widget=forms.HiddenInput
    )

    PLACES = ("before",)
    field_order = (
        "scenario", "status", "worst", "q", "asset", "label", "start", "end", "of_time",
    )  # fmt: skip

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self.offer("scenario", scenario_choices())
        self.offer("of_time", list(OF_TIMES.items()))
        self.offer("status", [("", "all"), *((name, name.capitalize()) for name in STATUSES)])
        states = [
            (each.title, [(s.name, s.label) for s in each.states if not each.is_good(s.name)])
            for each in scenarios().values()
        ]
        self.offer("worst", [("", "all"), *states])

    def wanted(self) -> Wanted:
        """Return the filter of a valid form."""
        data = self.cleaned_data
        return Wanted(
            tuple(data["scenario"]),
            data["q"],
            data["worst"],
            data["status"],
            unix_ms(data["start"]),
            unix_ms(data["end"]),
            data["of_time"],
            data["asset"],
            data["label"],
            data["flapping"],
        )
