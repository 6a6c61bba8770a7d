"""The form of a recount: a scenario, and from when to when."""

from __future__ import annotations

from typing import Any

from django import forms

from dashboard.core.fields import UtcTimeField, scenario_choices
from dashboard.core.times import DAY_MS, HOUR_MS, unix_ms

LONGEST_MS = 31 * DAY_MS
"""Longest time that is counted; the log may hold less."""


class RecountForm(forms.Form):
    """What is counted once more."""

    scenario = forms.ChoiceField(choices=scenario_choices)
    since = UtcTimeField(label="From (UTC)")
    until = UtcTimeField(label="To (UTC)", help_text="Empty: to the last full hour.")

    def __init__(self, now: int, data: Any = None, initial: Any = None) -> None:
        super().__init__(data, initial=initial, auto_id="recount-%s")
        self._now = now

    def clean(self) -> dict[str, Any]:
        """Return since when and until when, Unix ms, beside the scenario."""
        data = super().clean() or self.cleaned_data
        if self.errors:
            return data
        last = self._now // HOUR_MS * HOUR_MS
        data["until_ms"] = unix_ms(data["until"]) if data["until"] else last
        if data["since"] is None:
            self.add_error("since", "Expected a time, for instance 2026-11-20T08:00.")
            return data
        data["since_ms"] = unix_ms(data["since"])
        if data["until_ms"] > self._now:
            self.add_error("until", "Expected a time that is past.")
        elif not 0 < data["until_ms"] - data["since_ms"] <= LONGEST_MS:
            days = LONGEST_MS // DAY_MS
            self.add_error("since", f"Expected a time before the end, {days} days at the most.")
        return data
