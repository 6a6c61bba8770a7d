"""Fields and widgets that forms of several pages have."""

from __future__ import annotations

from typing import Any

from django import forms

from dashboard.core.scenarios import scenarios
from dashboard.core.times import FIELD_MINUTE, FIELD_SECOND
from domain.config_values import PlainError, duration, duration_text


def scenario_choices() -> list[tuple[str, str]]:
    """Return the scenarios' names and titles, as a field offers them."""
    return [(each.name, each.title) for each in scenarios().values()]


class SpanField(forms.CharField):
    """A duration as text, such as `30s` or `5m`; it is cleaned to ms, None where it is empty."""

    def __init__(self, *, zero: bool = False, **options: Any) -> None:
        super().__init__(max_length=20, **options)
        self._zero = zero

    def clean(self, value: Any) -> int | None:
        """Return the duration, ms. Raises ValidationError."""
        text = super().clean(value)
        if not text:
            return None
        try:
            return duration(text, "", self._zero)
        except PlainError as error:
            raise forms.ValidationError(f"Expected {error.expected}.") from None

    def prepare_value(self, value: Any) -> Any:
        """Return a duration in ms as its text."""
        return duration_text(value) if isinstance(value, int) else value


class LocalTimeInput(forms.DateTimeInput):
    """An input of a day and a time in the viewer's zone, whose name the page writes beside it."""

    input_type = "datetime-local"
    template_name = "forms/local_time.html"


class UtcTimeField(forms.DateTimeField):
    """An optional day and time in UTC, to the minute or with `seconds`."""

    def __init__(self, *, label: str, seconds: bool = False, **options: Any) -> None:
        attrs: dict[str, Any] = {"type": "datetime-local"} | ({"step": 1} if seconds else {})
        form = FIELD_SECOND if seconds else FIELD_MINUTE
        super().__init__(
            label=label,
            required=False,
            widget=forms.DateTimeInput(attrs=attrs, format=form),
            error_messages={"invalid": "Expected a day and a time, as 2026-11-22T14:30."},
            **options,
        )
