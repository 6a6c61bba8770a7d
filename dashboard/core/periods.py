"""From when until when a filter looks: two moments of a form, typed in UTC."""

from __future__ import annotations

from typing import Any

from django import forms

from dashboard.core.times import FIELD_MINUTE

EXPECTED = {"invalid": "Expected a day and a time, as 2026-11-22T14:30."}


def _moment(label: str) -> forms.DateTimeField:
    widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format=FIELD_MINUTE)
    return forms.DateTimeField(required=False, label=label, widget=widget, error_messages=EXPECTED)


class PeriodForm(forms.Form):
    """A filter with a beginning and an end, either of which may be missing."""

    start = _moment("From (UTC)")
    end = _moment("Until (UTC)")

    def clean(self) -> dict[str, Any]:
        """What was typed; an end that is not after the beginning is an error of its field."""
        data = super().clean() or self.cleaned_data
        start, end = data.get("start"), data.get("end")
        if start and end and end <= start:
            self.add_error("end", "Expected a time after From.")
        return data
