"""The form of a summary's question, and that of a subscription."""

from __future__ import annotations

from datetime import date as Date  # noqa: N812 - a field has its name
from datetime import timedelta
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.http import urlencode

from dashboard.core.common.forms import FilterForm, scenario_choices
from dashboard.core.common.scenarios import scenarios
from dashboard.notify.summaries.figures import Question
from dashboard.notify.summaries.models import EVERY, WEEKDAYS, Subscription
from dashboard.watch.annotations.labels import keys
from domain.history.periods import DATES, FIRST_DAY, LAST_DAY, UNITS, WEEK, between, containing
from domain.history.periods import Period as DaysOfCalendar

# ---- summaries -----------------------------------------------------------------------------------
# The question of a summary, as its address has it.

SERVICE = "service"
HOURS = {"": "all hours", SERVICE: "service hours"}
DAY_EXPECTED = {"invalid": "Expected a day, such as 2026-11-22."}


class DayField(forms.DateField):
    """An optional day."""

    def __init__(self, label: str) -> None:
        widget = forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d")
        super().__init__(label=label, required=False, widget=widget, error_messages=DAY_EXPECTED)

    def clean(self, value: Any) -> Date | None:
        """Return the day, None if there is none. Raises ValidationError."""
        day: Date | None = super().clean(value)
        if day is not None and not FIRST_DAY <= day <= LAST_DAY:
            raise forms.ValidationError(f"Expected a day from {FIRST_DAY} to {LAST_DAY}.")
        return day


class SummaryForm(FilterForm):
    """The period, the scenarios, the label and the hours of a summary."""

    period = forms.ChoiceField(required=False)
    date = DayField("With the day")
    first = DayField("From")
    last = DayField("Until, included")
    scenario = forms.MultipleChoiceField(
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="None ticked: all.",
    )
    label = forms.ChoiceField(required=False, label="By label")
    hours = forms.ChoiceField(required=False)

    def __init__(self, data: QueryDict, today: Date) -> None:
        super().__init__(data)
        self.given, self.today = data, today
        self.offer(
            "period", [*((unit, unit.capitalize()) for unit in UNITS), (DATES, "From, until")]
        )
        self.offer("scenario", scenario_choices())
        known = sorted({key for name in scenarios() for key in keys(name)})
        self.offer("label", [("", "none"), *((key, key) for key in known)])
        self.offer("hours", list(HOURS.items()))

    @property
    def names_a_time(self) -> bool:
        """Whether the address specifies a time in any way."""
        return any(self.data.get(name) for name in ("period", "date", "first", "last"))

    def clean(self) -> dict[str, Any]:
        """Return the fields. Dates that form no period are an error of their field."""
        data = super().clean() or self.cleaned_data
        if data.get("period") == DATES and not self.errors:
            for name in ("first", "last"):
                if data[name] is None:
                    self.add_error(name, "Expected a day, as the period is from one to another.")
            if not self.errors:
                self._check_dates(data["first"], data["last"])
        return data

    def question(self) -> Question:
        """Return the question, by default about the last whole week. The form must be valid."""
        data = self.cleaned_data
        names = tuple(
            name for name in scenarios() if name in data["scenario"] or not data["scenario"]
        )
        return Question(names, self._period(), data["label"], data["hours"] == SERVICE)

    def show(self, question: Question) -> None:
        """Show a question in those fields that the address leaves out."""
        period = question.period
        shown = {"period": period.unit, "date": period.first}
        shown |= {"first": period.first, "last": period.last}
        data = self.given.copy()
        for name, value in shown.items():
            if not data.get(name):
                data[name] = str(value)
        self.data = data

    def _period(self) -> DaysOfCalendar:
        data = self.cleaned_data
        if data["period"] == DATES:
            return between(data["first"], data["last"])
        unit = data["period"] or WEEK
        return containing(unit, data["date"] or _last_whole(unit, self.today))

    def _check_dates(self, first: Date, last: Date) -> None:
        try:
            between(first, last)
        except ValueError as error:
            self.add_error("last", str(error).capitalize() + ".")


def _last_whole(unit: str, today: Date) -> Date:
    """Return a day of the unit's newest period that has ended."""
    return containing(unit, today).first - timedelta(days=1)


def address(question: Question) -> str:
    """Return a question as the query string of a summary's address."""
    period = question.period
    parts: list[tuple[str, str]] = [("period", period.unit)]
    if period.unit == DATES:
        parts += [("first", str(period.first)), ("last", str(period.last))]
    else:
        parts.append(("date", str(period.first)))
    parts += scenario_parts(question)
    if question.label:
        parts.append(("label", question.label))
    if question.service:
        parts.append(("hours", SERVICE))
    return urlencode(parts)


def scenario_parts(question: Question) -> list[tuple[str, str]]:
    """Return a question's scenarios as parts of a query string; empty for all scenarios."""
    if set(question.scenarios) == set(scenarios()):
        return []
    return [("scenario", name) for name in question.scenarios]


# ---- digests -------------------------------------------------------------------------------------
# The form of a subscription.

NEVER = "never"


class SubscriptionForm(forms.Form):
    """How often, on which day and at which hour a scenario's digest is sent."""

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
        """Return the chosen plan, None for no digest. The form must be valid."""
        data = self.cleaned_data
        if data["every"] == NEVER:
            return None
        weekday = data["weekday"] if data["every"] == WEEK else 0
        return {"every": data["every"], "weekday": weekday, "hour": data["hour"]}
