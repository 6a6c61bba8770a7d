"""Forms of the state store's page: what is to be read, and what of it is shown."""

from __future__ import annotations

from typing import Any

from django import forms

from dashboard.core.fields import scenario_choices
from dashboard.core.filter_forms import FilterForm
from dashboard.core.scenarios import scenarios
from dashboard.state_store.comparison import VERDICTS
from domain.names import MAX_NAME, name_ok
from domain.scenario import Scenario
from wire.batch_query import ReadState


class ReadForm(forms.Form):
    """The form of a scenario, and of it one asset, one partition, or all."""

    scenario = forms.ChoiceField(choices=scenario_choices)
    partition = forms.IntegerField(required=False, min_value=0, max_value=999)
    asset = forms.CharField(required=False, max_length=MAX_NAME, strip=False)
    after = forms.CharField(
        required=False, max_length=MAX_NAME, strip=False, label="Names after this one"
    )

    def __init__(self, data: Any = None, initial: Any = None) -> None:
        super().__init__(data, initial=initial, auto_id="read-%s")
        self.fields["partition"].widget.attrs["placeholder"] = "all"
        for name, hint in (
            ("asset", "its whole name, or empty for all"),
            ("after", "from the first"),
        ):
            self.fields[name].widget.attrs |= {
                "placeholder": hint,
                "autocomplete": "off",
                "spellcheck": "false",
            }

    def clean_asset(self) -> str:
        """Return an empty text, or what may name an asset. Raises ValidationError."""
        asset: str = self.cleaned_data["asset"]
        if asset and not name_ok(asset):
            raise forms.ValidationError("Expected a name without control characters.")
        return asset

    def clean(self) -> dict[str, Any]:
        """Return the cleaned data.

        A partition is one that the scenario has; an asset has one of its own.
        """
        data = super().clean() or self.cleaned_data
        scenario: Scenario | None = scenarios().get(data.get("scenario", ""))
        partition = data.get("partition")
        if scenario is not None and partition is not None and partition >= scenario.partitions:
            self.add_error("partition", f"Expected 0 to {scenario.partitions - 1}, or nothing.")
        if data.get("asset") and partition is not None:
            self.add_error("partition", "Leave it empty: the asset's name says its partition.")
        if "\0" in data.get("after", ""):
            self.add_error("after", "Expected a name without control characters.")
        return data

    def wanted(self) -> ReadState:
        """Return what is to be read, of a form that is valid."""
        data = self.cleaned_data
        return ReadState(data["scenario"], data["partition"], data["asset"] or None, data["after"])


class ShowForm(FilterForm):
    """The form of what is shown of a reading: by verdict and name, ordered, a page at a time."""

    verdict = forms.ChoiceField(required=False, label="Status")
    q = forms.CharField(required=False, max_length=MAX_NAME, label="Name holds")
    sort = forms.ChoiceField(required=False, widget=forms.HiddenInput)
    page = forms.IntegerField(
        required=False, min_value=1, max_value=10_000, widget=forms.HiddenInput
    )

    def __init__(self, data: Any) -> None:
        super().__init__(data, auto_id="show-%s")
        choices = [("", "any"), *((name, words[0]) for name, words in VERDICTS.items())]
        self.offer("verdict", choices)
        self.offer("sort", [(way + name, name) for name in ORDERS for way in ("", "-")])
        self.fields["verdict"].widget = forms.Select(choices=choices)
        self.fields["q"].widget.attrs["type"] = "search"


ORDERS = {
    "standing": "rank",
    "asset": "asset",
    "partition": "partition",
    "state": "state",
    "since": "since",
    "votes": "votes",
    "due": "due",
}
"""By column: the field that it is ordered by."""
