"""The form that changes how long a scenario keeps rows of a kind."""

from __future__ import annotations

from typing import Any

from django import forms

from dashboard.core.fields import scenario_choices
from dashboard.core.retention import Retention
from dashboard.core.times import DAY_MS
from dashboard.retention.periods import LEAST_MS, MOST_MS, adjustable, period, to_be_deleted

LEAST, MOST = LEAST_MS // DAY_MS, MOST_MS // DAY_MS


class PeriodForm(forms.Form):
    """A form of a kind, a scenario and a number of days. now: Unix ms.

    A time that deletes rows has to be confirmed: the form says how many.
    """

    key = forms.ChoiceField(label="What")
    scenario = forms.ChoiceField(label="Scenario")
    days = forms.IntegerField(
        required=False,
        min_value=LEAST,
        max_value=MOST,
        label="Days",
        help_text=f"{LEAST} to {MOST:,}; empty: the default",
    )
    confirm = forms.BooleanField(required=False, label="Delete what is older, for good")

    def __init__(self, now: int, data: Any = None) -> None:
        super().__init__(data, auto_id="period_%s")
        self.now = now
        for name, choices in (
            ("key", [(key, each.what) for key, each in adjustable().items()]),
            ("scenario", scenario_choices()),
        ):
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)
            field.choices = choices

    def clean(self) -> dict[str, Any]:
        """Ask for a confirmation where rows would be deleted."""
        data = super().clean() or self.cleaned_data
        if self.errors:
            return data
        each, kept_ms = self.kind(), self.kept_ms()
        assert each.kept_ms is not None
        if kept_ms is not None and kept_ms < each.least_ms:
            self.add_error("days", f"Expected at least {each.least_ms // DAY_MS} days of these.")
            return data
        after = each.kept_ms if kept_ms is None else kept_ms
        if after < period(each, data["scenario"]) and not data["confirm"]:
            n = to_be_deleted(each, data["scenario"], after, self.now)
            if n:
                words = f"The next run deletes {n:,} rows for good. Tick this to have it so."
                self.add_error("confirm", words)
        return data

    def kind(self) -> Retention:
        """Return the kind that a form names."""
        return adjustable()[self.cleaned_data["key"]]

    def kept_ms(self) -> int | None:
        """Return how long it is kept, ms; None for the default."""
        days = self.cleaned_data["days"]
        return None if days is None else days * DAY_MS
