"""The lists of alarms and of spans that figures are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django import forms
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.audit.log import export
from dashboard.core.common.access import role_required
from dashboard.core.common.forms import PeriodForm, scenario_choices
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.tables import Column, Listing, ListOrder, Table, TableFile
from dashboard.core.common.times import duration, now_ms, unix_ms
from dashboard.core.states.board_rows import asset_path
from dashboard.notify.summaries.models import Alarm, TroubleSpan
from dashboard.notify.summaries.phrases import gap_note
from domain.names import MAX_NAME
from domain.scenario import Scenario

# ---- asset links ---------------------------------------------------------------------------------
# The addresses that a line about an asset's time has.

if TYPE_CHECKING:
    from dashboard.notify.summaries.models import SpanRow


class AssetLinks:
    """What lines of lists have in common: the addresses of the asset of their row."""

    row: SpanRow

    @property
    def url(self) -> str:
        """The address of the asset's page."""
        return asset_path(self.row.scenario, self.row.asset)

    @property
    def events(self) -> str:
        """The address of the changes of the asset."""
        query = {"scenario": self.row.scenario, "q": f'"{self.row.asset}"'}
        return f"{reverse('board:events')}?{urlencode(query)}"


# ---- alarms --------------------------------------------------------------------------------------
# Alarms, the times in which a worse state was pending: their filter, their list, their file.

FALSE, TRUE, PENDING = "false", "true", "pending"
OUTCOMES = {FALSE: "came to nothing", TRUE: "came true", PENDING: "still pending"}
MAX_ID = 2**63 - 1
MOST_EXPORTED = 100_000


class AlarmFilterForm(PeriodForm):
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
class AlarmRow(AssetLinks):
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


def line_of(row: Alarm) -> AlarmRow:
    """Return an alarm as the page shows it now."""
    until = now_ms() if row.end is None else row.end
    return AlarmRow(row, scenarios()[row.scenario], max(0, until - row.begin))


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
NEWEST = ListOrder("begin")
ALARMS = Listing(line_of, NEWEST)
ALARM_FILE = TableFile("alarms", FIELDS, plain, order=NEWEST, at_most=MOST_EXPORTED)


# ---- alarm views ---------------------------------------------------------------------------------
# The pages of alarms: their list, and the same as a file.


@require_safe
@never_cache
@role_required("read")
def alarm_list(request: HttpRequest) -> HttpResponse:
    """Return the page of alarms, the newest first."""
    form = AlarmFilterForm(request.GET)
    valid = form.is_valid()
    before = (form.cleaned_data["before"] or 0) if valid else 0
    context = {
        "now": now_ms(),
        "unobserved": _gap_note(form) if valid else "",
        "form": form,
        "table": ALARM_TABLE,
        **ALARMS.context(form.rows() if valid else None, before, form.query()),
    }
    return render(request, "summaries/alarms.html", context, status=200 if valid else 422)


def _gap_note(form: AlarmFilterForm) -> str:
    data = form.cleaned_data
    begin, end = unix_ms(data["start"]), unix_ms(data["end"])
    return gap_note(data["scenario"] or list(scenarios()), begin, end, now_ms())


@require_safe
@never_cache
@role_required("read")
def alarm_file(request: HttpRequest, form: str) -> HttpResponseBase:
    """Return the newest alarms that pass the filter as CSV or NDJSON."""
    filter_form = AlarmFilterForm(request.GET)
    return export(request, ALARM_FILE, form, filter_form, filter_form.rows)


# ---- span views ----------------------------------------------------------------------------------
# The list of the spans of history that a figure of a summary is made of.

BAD, UNCONFIRMED = "bad", "unconfirmed"
KINDS = {BAD: "In bad states", UNCONFIRMED: "Unconfirmed"}


class SpanFilterForm(PeriodForm):
    """The filter of spans in the address. Times in UTC."""

    kind = forms.ChoiceField(required=False)
    scenario = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)
    asset = forms.CharField(required=False, max_length=MAX_NAME, label="Whole name")
    before = forms.IntegerField(
        required=False, min_value=0, max_value=MAX_ID, widget=forms.HiddenInput
    )

    PLACES = ("before",)
    field_order = ("kind", "scenario", "asset", "start", "end")

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self.offer("kind", list(KINDS.items()))
        self.offer("scenario", scenario_choices())

    @property
    def chosen_kind(self) -> str:
        """Which spans are listed, of a valid form."""
        return self.cleaned_data["kind"] or BAD

    def span(self) -> tuple[int, int | None]:
        """Return the time of a valid form, Unix ms; no end where none is given."""
        return unix_ms(self.cleaned_data["start"]) or 0, unix_ms(self.cleaned_data["end"])

    def troubles(self) -> QuerySet[TroubleSpan]:
        """Return the times that were bad, or unconfirmed, of a valid form."""
        begin, end = self.span()
        rows = TroubleSpan.objects.filter(
            self._of_assets(),
            Q(end=None) | Q(end__gt=begin),
            unconfirmed=self.chosen_kind == UNCONFIRMED,
        )
        return rows if end is None else rows.filter(begin__lt=end)

    def _of_assets(self) -> Q:
        data = self.cleaned_data
        condition = Q(scenario__in=data["scenario"] or list(scenarios()))
        return condition & Q(asset=data["asset"]) if data["asset"] else condition


@dataclass(frozen=True)
class ListedSpan(AssetLinks):
    """A span as the page shows it. within: how much of it lies in the filter's time, ms."""

    row: TroubleSpan
    scenario: Scenario
    state: str
    within: int

    @property
    def lasted(self) -> str:
        """How long it lasted within the time, in words."""
        return duration(self.within)


TABLE = Table(
    "",
    "Asset",
    "Scenario",
    "State",
    "Began",
    "Ended",
    Column("In the time", "how much of it lies between From and Until", numeric=True),
)


@require_safe
@never_cache
@role_required("read")
def span_list(request: HttpRequest) -> HttpResponse:
    """Return the page of the spans that a figure is made of, the newest first."""
    form = SpanFilterForm(request.GET)
    valid, now = form.is_valid(), now_ms()
    before = (form.cleaned_data["before"] or 0) if valid else 0
    context = {
        "now": now,
        "form": form,
        "table": TABLE,
        "kind": KINDS[form.chosen_kind] if valid else "History",
        "unobserved": _span_view_gap_note(form, now) if valid else "",
        **_listed(form, valid, before, now),
    }
    return render(request, "summaries/spans.html", context, status=200 if valid else 422)


def _span_view_gap_note(form: SpanFilterForm, now: int) -> str:
    begin, end = form.span()
    return gap_note(form.cleaned_data["scenario"] or list(scenarios()), begin or None, end, now)


def _listed(form: SpanFilterForm, valid: bool, before: int, now: int) -> dict[str, Any]:
    """Return what the page of a list is rendered with."""
    listing: Listing[TroubleSpan, ListedSpan] = Listing(
        lambda row: _line(row, *form.span(), now), ListOrder("begin")
    )
    return listing.context(form.troubles() if valid else None, before, form.query())


def _line(row: TroubleSpan, begin: int, end: int | None, now: int) -> ListedSpan:
    until = min(now if row.end is None else row.end, now if end is None else end)
    return ListedSpan(
        row, scenarios()[row.scenario], row.state, max(0, until - max(begin, row.begin))
    )
