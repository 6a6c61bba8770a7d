"""The fields of a form that schedules a task, on an asset's page and in bulk."""

from __future__ import annotations

from typing import Any

from django import forms

from dashboard.commands.typed_times import typed_end
from dashboard.core.fields import LocalTimeInput
from dashboard.core.times import exact_span, now_ms, utc
from domain.config_values import PlainError, duration
from domain.records import Schedule
from domain.scenario import LEAST_PERIOD, MAX_RUNS, Scenario

ACTIONS = [
    ("notify", "notify"),
    ("emit", "write its state to Kafka again"),
    ("set", "set a state"),
    ("release", "release a pin"),
    ("purge", "purge it"),
]


class SpanField(forms.CharField):
    """A field of a time span, such as 5m; its value is in ms, None where nothing was typed."""

    def clean(self, value: Any) -> int | None:
        """Return the span in ms. Raises ValidationError."""
        text = str(super().clean(value) or "").strip().replace(" ", "")
        if not text:
            return None
        try:
            span = duration(text, "")
        except PlainError:
            span = 0
        if span < LEAST_PERIOD:
            raise forms.ValidationError("Expected a time such as 30s, 5m or 2h, at least 1s.")
        return span


TASK = ("do", "condition", "after", "run_at", "every", "times", "run_until")
"""The fields of a task."""


class ScheduleFields(forms.Form):
    """The base of forms that schedule: what is done, if what, when, and how often.

    A valid form's `at` and `last` are the typed times of the first run and of the end, Unix ms.
    """

    do = forms.ChoiceField(choices=ACTIONS, required=False, label="Do", initial="notify")
    condition = forms.CharField(required=False, max_length=64, label="Only if it is then")
    after = SpanField(
        required=False, max_length=20, label="After", help_text="such as 30s, 5m or 2h"
    )
    run_at = forms.CharField(required=False, label="Or at", widget=LocalTimeInput)
    every = SpanField(required=False, max_length=20, label="Then every", help_text="empty: once")
    times = forms.IntegerField(
        required=False, min_value=1, max_value=MAX_RUNS, label="Times at most"
    )
    run_until = forms.CharField(required=False, label="No run after", widget=LocalTimeInput)
    zone = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)

    def offer_conditions(self, scenario: Scenario) -> None:
        """Let the condition be one of the scenario's states."""
        if not scenario.open_vocabulary:
            states = [(spec.name, spec.label) for spec in scenario.states]
            self.fields["condition"].widget = forms.Select(choices=[("", "anything"), *states])

    def check_schedule(self, scenario: Scenario, data: dict[str, Any], state_field: str) -> None:
        """Note what is missing, or does not belong together. state_field: what a `set` sets."""
        state, condition = data.get(state_field) or "", data.get("condition") or ""
        if not data.get("do"):
            self.add_error("do", "Choose what is to be done.")
        if data.get("do") == "set" and not scenario.knows(state):
            self.add_error(state_field, "Choose the state to set.")
        if condition and not scenario.knows(condition):
            self.add_error("condition", f"There is no state “{condition}”.")
        self._check_begin(data)
        self._check_end(data)

    def _check_begin(self, data: dict[str, Any]) -> None:
        """Work out the time of the first run, and note where there is none, or two."""
        data["at"] = self._typed("run_at", data)
        if data.get("run_at") and data.get("after"):
            self.add_error("run_at", "Expected a time here or a span above, not both.")
        given = data.get("after") or data.get("every") or data.get("run_at")
        if "after" in data and "every" in data and not given:
            self.add_error("after", "Expected a time such as 30s, 5m or 2h.")

    def _check_end(self, data: dict[str, Any]) -> None:
        """Work out the end, and note what a task that runs once has no use for."""
        data["last"] = self._typed("run_until", data)
        if "every" not in self.errors and not data.get("every"):
            for name in ("times", "run_until"):
                if data.get(name):
                    self.add_error(name, "Expected nothing here for a task that runs once.")
        elif data["last"] is not None:
            first = data["at"] or now_ms() + (data.get("after") or data.get("every") or 0)
            if data["last"] < first:
                self.add_error("run_until", "Expected a time after the first run.")

    def _typed(self, field: str, data: dict[str, Any]) -> int | None:
        """Return the time typed in a field, Unix ms; None, which is noted, for what is none."""
        if not data.get(field):
            return None
        try:
            return typed_end(data[field], data.get("zone", ""), now_ms())
        except forms.ValidationError as error:
            self.add_error(field, error)
            return None

    def schedule(self) -> Schedule:
        """Return what the valid form asks for."""
        data = self.cleaned_data
        return Schedule(
            do=data["do"],
            condition=data["condition"] or None,
            after=data["after"],
            at=data["at"],
            every=data["every"],
            times=data["times"],
        )


def words_of(schedule: Schedule, until: int | None = None) -> str:
    """Return what is asked for, in words: `notify in 5 m, then every 1 h, if it is down`.

    until: after which it runs no more, Unix ms.
    """
    does = dict(ACTIONS).get(schedule.do, schedule.do)
    when = []
    if schedule.at is not None:
        when.append(f"at {utc(schedule.at)}")
    if schedule.after is not None:
        when.append(f"in {exact_span(schedule.after)}")
    if schedule.every is not None:
        when.append(f"every {exact_span(schedule.every)}")
    most = [f"at most {schedule.times:,} times"] if schedule.times else []
    end = [f"until {utc(until)}"] if until is not None else []
    condition = [f"if it is {schedule.condition}"] if schedule.condition else []
    return f"{does} {', '.join([', then '.join(when), *most, *end, *condition])}"
