"""Alarms, the times in which a worse state was pending: their filter, their list, their file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import forms
from django.db.models import Q, QuerySet

from dashboard.core.fields import scenario_choices
from dashboard.core.filter_forms import PeriodForm
from dashboard.core.listing import Listing, Order, TableFile
from dashboard.core.scenarios import scenarios
from dashboard.core.tables import Column, Table
from dashboard.core.times import duration, now_ms, unix_ms
from dashboard.summaries.asset_links import AssetLinks
from dashboard.summaries.models import Alarm
from domain.names import MAX_NAME
from domain.scenario import Scenario

FALSE, TRUE, PENDING = "false", "true", "pending"
OUTCOMES = {FALSE: "came to nothing", TRUE: "came true", PENDING: "still pending"}
MAX_ID = 2**63 - 1
MOST_EXPORTED = 100_000


class AlarmFilter(PeriodForm):
    """The filter of alarms in the address. Times in UTC."""

    outcome = forms.ChoiceField(required=False)
    scenario = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)
    asset = forms.CharField(required=False, max_length=MAX_NAME, label="Whole name")
    before = forms.IntegerField(
        required=False, min_value=0, max_value=MAX_ID, widget=forms.HiddenInput
    )

    PLACES = ("before",)
    field_order = ("outcome", "scenario", "asset", "start", "end")

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        words = ((name, text.capitalize()) for name, text in OUTCOMES.items())
        self.offer("outcome", [("", "all"), *words])
        self.offer("scenario", scenario_choices())

    def rows(self) -> QuerySet[Alarm]:
        """Return the alarms of a valid form: those that ended in its time, and those that are
        pending still and began before its end."""
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


@dataclass(frozen=True)
class Line(AssetLinks):
    """An alarm as the page shows it. ms: how long the state was pending, so far where it still
    is."""

    row: Alarm
    scenario: Scenario
    ms: int

    @property
    def lasted(self) -> str:
        """How long it lasted, in words."""
        return duration(self.ms)

    @property
    def outcome(self) -> str:
        """What came of it, in words."""
        return OUTCOMES[outcome_of(self.row)]


def outcome_of(row: Alarm) -> str:
    """Return what came of an alarm: FALSE, TRUE or PENDING."""
    if row.end is None:
        return PENDING
    return TRUE if row.came_true else FALSE


def line_of(row: Alarm) -> Line:
    """Return an alarm as the page shows it now."""
    until = now_ms() if row.end is None else row.end
    return Line(row, scenarios()[row.scenario], max(0, until - row.begin))


FIELDS = ("scenario", "asset", "state", "began_at", "ended_at", "duration_ms", "outcome")


def plain(row: Alarm) -> dict[str, Any]:
    """Return an alarm as an object of NDJSON, or a line of CSV."""
    return {
        "scenario": row.scenario,
        "asset": row.asset,
        "state": row.state,
        "began_at": row.begin,
        "ended_at": row.end,
        "duration_ms": None if row.end is None else row.end - row.begin,
        "outcome": outcome_of(row),
    }


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
NEWEST = Order("begin")
ALARMS = Listing(line_of, NEWEST)
ALARM_FILE = TableFile("alarms", FIELDS, plain, order=NEWEST, at_most=MOST_EXPORTED)
