"""Filters: links that narrow a list, forms with a period, and the filter as an address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from django import forms
from django.utils.http import urlencode

from dashboard.core.fields import UtcTimeField
from dashboard.core.scenarios import scenarios
from domain.scenario import Scenario


class Choice(NamedTuple):
    """A link that narrows a list; chosen: whether it does."""

    title: str
    address: str
    chosen: bool


def scenario_links(chosen: Scenario, path: str = "") -> list[Choice]:
    """Return a link to the list of each scenario. path: the list's, the page's own by default."""
    return [
        Choice(each.title, f"{path}?{urlencode({'scenario': each.name})}", each.name == chosen.name)
        for each in scenarios().values()
    ]


class FilterForm(forms.Form):
    """A filter that an address has.

    What it says of a place in the list is not sent along with another filter.
    """

    template_name = "forms/filter.html"

    PLACES: tuple[str, ...] = ()
    """Fields that say where in the list a page begins: no part of the filter."""

    def offer(self, name: str, choices: Sequence[tuple[str, Any]]) -> None:
        """Offer choices in a field, which may come in groups."""
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices
        field.error_messages["invalid_choice"] = "Expected one of the choices."

    def query(self) -> str:
        """Return the filter as the address has it."""
        parts = (name for name in self.fields if name not in self.PLACES)
        given = {name: self._given(name) for name in parts}
        return urlencode({name: value for name, value in given.items() if value}, doseq=True)

    def _given(self, name: str) -> Any:
        """Return what was given for a field, of one with several choices each that was."""
        field = self.fields[name]
        if isinstance(field, forms.MultipleChoiceField):
            return field.widget.value_from_datadict(self.data, {}, name)
        return self.data.get(name)


class PeriodForm(FilterForm):
    """A filter with a beginning and an end, two times in UTC, either of which may be missing."""

    start = UtcTimeField(label="From (UTC)")
    end = UtcTimeField(label="Until (UTC)")

    def clean(self) -> dict[str, Any]:
        """Return what was typed. An end not after the beginning is an error of its field."""
        data = super().clean() or self.cleaned_data
        start, end = data.get("start"), data.get("end")
        if start and end and end <= start:
            self.add_error("end", "Expected a time after From.")
        return data
