"""From when until when a filter looks: two moments of a form, typed in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django import forms

_MINUTE = "%Y-%m-%dT%H:%M"
EXPECTED = {"invalid": "Expected a day and a time, as 2026-11-22T14:30."}


def _moment(label: str) -> forms.DateTimeField:
    widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format=_MINUTE)
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


def unix_ms(at: datetime | None) -> int | None:
    """A moment that was typed in UTC, in Unix ms."""
    return None if at is None else int(at.replace(tzinfo=UTC).timestamp() * 1000)
