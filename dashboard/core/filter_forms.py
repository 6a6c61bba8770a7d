"""Forms of filters: what is offered to choose from, a period, and the filter as an address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.http import urlencode

from dashboard.core.times import FIELD_MINUTE

EXPECTED = {"invalid": "Expected a day and a time, as 2026-11-22T14:30."}


class FilterForm(forms.Form):
    """A filter that an address has."""

    PLACES: tuple[str, ...] = ()
    """Fields that say where in the list a page begins: no part of the filter."""

    def offer(self, name: str, choices: Sequence[tuple[str, Any]]) -> None:
        """Offer choices in a field, which may come in groups."""
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices
        field.error_messages["invalid_choice"] = "Expected one of those that are offered."

    def query(self) -> str:
        """Return the filter as the address has it."""
        parts = (name for name in self.fields if name not in self.PLACES)
        return urlencode({name: self.data[name] for name in parts if self.data.get(name)})


def _moment(label: str) -> forms.DateTimeField:
    widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format=FIELD_MINUTE)
    return forms.DateTimeField(required=False, label=label, widget=widget, error_messages=EXPECTED)


class PeriodForm(FilterForm):
    """A filter with a beginning and an end, two times in UTC, either of which may be missing."""

    start = _moment("From (UTC)")
    end = _moment("Until (UTC)")

    def clean(self) -> dict[str, Any]:
        """What was typed; an end that is not after the beginning is an error of its field."""
        data = super().clean() or self.cleaned_data
        start, end = data.get("start"), data.get("end")
        if start and end and end <= start:
            self.add_error("end", "Expected a time after From.")
        return data
