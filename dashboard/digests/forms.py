"""The form of a subscription."""

from __future__ import annotations

from typing import Any

from django import forms

from dashboard.digests.models import EVERY, WEEKDAYS, Subscription
from domain.history.periods import WEEK

NEVER = "never"


class SubscriptionForm(forms.Form):
    """A form of how often, on which day and at which hour a scenario's digest comes."""

    every = forms.ChoiceField(
        choices=[(NEVER, "never"), *EVERY.items()], initial=NEVER, label="How often"
    )
    weekday = forms.TypedChoiceField(coerce=int, choices=list(enumerate(WEEKDAYS)), label="On")
    hour = forms.TypedChoiceField(
        coerce=int,
        choices=[(hour, f"{hour:02d}:00") for hour in range(24)],
        initial=7,
        label="At",
    )

    def __init__(self, scenario: str, data: Any = None, known: Subscription | None = None) -> None:
        initial = {}
        if known:
            initial = {"every": known.every, "weekday": known.weekday, "hour": known.hour}
        super().__init__(data, auto_id=f"{scenario}_%s", initial=initial)

    def plan(self) -> dict[str, Any] | None:
        """Return what a valid form wants, None for no digest."""
        data = self.cleaned_data
        if data["every"] == NEVER:
            return None
        weekday = data["weekday"] if data["every"] == WEEK else 0
        return {"every": data["every"], "weekday": weekday, "hour": data["hour"]}
