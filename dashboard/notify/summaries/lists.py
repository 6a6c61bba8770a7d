"""The lists of alarms and of spans behind the figures."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import Q, QuerySet

from dashboard.core.common.forms import ListForm, PeriodForm, scenario_choices
from dashboard.core.common.lists import ListPage
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.tables import Column, ListOrder, Table
from dashboard.core.common.times import unix_ms
from dashboard.notify.summaries.models import (
    FALSE,
    OUTCOMES,
    PENDING,
    TRUE,
    Alarm,
    ImpairedSpan,
    SpanQuerySet,
)
from dashboard.notify.summaries.phrases import gap_note
from domain.names import MAX_NAME

# ---- alarms --------------------------------------------------------------------------------------
# Alarms, which are the times in which a worse state was pending: filter, list and file.


class AlarmFilterForm(ListForm, PeriodForm):
    """The filter of alarms, from the address. Times in UTC."""

    outcome = forms.ChoiceField(required=False)
    scenario = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)
    asset = forms.CharField(required=False, max_length=MAX_NAME, label="Whole name")

    field_order = ("outcome", "scenario", "asset", "start", "end")

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        words = ((name, text.capitalize()) for name, text in OUTCOMES.items())
        self.offer("outcome", [("", "all"), *words])
        self.offer("scenario", scenario_choices())

    def rows(self) -> QuerySet[Alarm]:
        """Return the alarms that match: those that ended in the form's time, and those that are
        still pending and began before its end. The form must be valid."""
        data = self.cleaned_data
        begin, end = unix_ms(data["start"]) or 0, unix_ms(data["end"])
        ended, going_on = Q(end__gte=begin), Q(end=None)
        if end is not None:
            ended &= Q(end__lt=end)
            going_on &= Q(begin__lt=end)
        known = {
            FALSE: ended & Q(came_true=False),
            TRUE: ended & Q(came_true=True),
            PENDING: going_on,
        }
        rows = Alarm.objects.filter(
            known.get(data["outcome"], ended | going_on),
            scenario__in=data["scenario"] or list(scenarios()),
        )
        return rows.filter(asset=data["asset"]) if data["asset"] else rows


ALARM_TABLE = Table(
    "",
    "Asset",
    "Scenario",
    Column("Pending state", "the worse state that it was about to enter"),
    "Began",
    "Ended",
    Column("Lasted", numeric=True),
    Column("Outcome", "whether the asset was in that state, or in one as severe, when it ended"),
)


class AlarmList(ListPage):
    """The list of alarms, newest first."""

    name = "alarms"
    form: AlarmFilterForm
    form_class = AlarmFilterForm
    template = "summaries/alarms"
    table = ALARM_TABLE
    order = ListOrder("begin")
    renews = False
    fields = ("scenario", "asset", "state", "began_at", "ended_at", "duration_ms", "outcome")
    at_most = 100_000

    def plain(self, row: Alarm) -> dict[str, Any]:
        """Return an alarm as an object for NDJSON, or a line of CSV."""
        return {
            "scenario": row.scenario,
            "asset": row.asset,
            "state": row.state,
            "began_at": row.begin,
            "ended_at": row.end,
            "duration_ms": None if row.end is None else row.end - row.begin,
            "outcome": row.outcome,
        }

    def context(self) -> dict[str, Any]:
        """Return how much of the time was not observed, in words."""
        return {"unobserved": unobserved_note(self.form, self.now)}


def unobserved_note(form: PeriodForm, now: int) -> str:
    """Return how much of the filter's time was not observed, in words. now: Unix ms.

    Empty if the filter is invalid, or if there is nothing to say.
    """
    if not form.is_valid():
        return ""
    data = form.cleaned_data
    names = data["scenario"] or list(scenarios())
    return gap_note(names, unix_ms(data["start"]) or None, unix_ms(data["end"]), now)


# ---- spans ---------------------------------------------------------------------------------------
# The list of the spans behind a figure of a summary.

BAD, UNCONFIRMED = "bad", "unconfirmed"
KINDS = {BAD: "In bad states", UNCONFIRMED: "Unconfirmed"}


class SpanFilterForm(ListForm, PeriodForm):
    """The filter of spans, from the address. Times in UTC."""

    kind = forms.ChoiceField(required=False)
    scenario = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)
    asset = forms.CharField(required=False, max_length=MAX_NAME, label="Whole name")

    field_order = ("kind", "scenario", "asset", "start", "end")

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self.offer("kind", list(KINDS.items()))
        self.offer("scenario", scenario_choices())

    @property
    def chosen_kind(self) -> str:
        """The kind of spans that are listed. The form must be valid."""
        return self.cleaned_data["kind"] or BAD

    def rows(self) -> SpanQuerySet:
        """Return the bad, or the unconfirmed, times that match. The form must be valid."""
        begin, end = unix_ms(self.cleaned_data["start"]) or 0, unix_ms(self.cleaned_data["end"])
        unconfirmed = self.chosen_kind == UNCONFIRMED
        rows = ImpairedSpan.objects.filter(self._of_assets(), unconfirmed=unconfirmed)
        return rows.during(begin, end)

    def _of_assets(self) -> Q:
        data = self.cleaned_data
        condition = Q(scenario__in=data["scenario"] or list(scenarios()))
        return condition & Q(asset=data["asset"]) if data["asset"] else condition


TABLE = Table(
    "",
    "Asset",
    "Scenario",
    "State",
    "Began",
    "Ended",
    Column("In the time", "how much of it lies between From and Until", numeric=True),
)


class SpanList(ListPage):
    """The list of the spans behind a figure, newest first."""

    form: SpanFilterForm
    form_class = SpanFilterForm
    template = "summaries/spans"
    table = TABLE
    order = ListOrder("begin")
    renews = False

    def context(self) -> dict[str, Any]:
        """Return the kind of the spans, and how much of the time was not observed, in words."""
        kind = KINDS[self.form.chosen_kind] if self.form.is_valid() else "History"
        return {"kind": kind, "unobserved": unobserved_note(self.form, self.now)}
