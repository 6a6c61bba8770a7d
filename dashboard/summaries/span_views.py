"""The list of the spans of history that a figure of a summary is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django import forms
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.access import role_required
from dashboard.core.fields import scenario_choices
from dashboard.core.filter_forms import PeriodForm
from dashboard.core.listing import Listing, Order
from dashboard.core.scenarios import scenarios
from dashboard.core.tables import Column, Table
from dashboard.core.times import duration, now_ms, unix_ms
from dashboard.summaries.asset_links import AssetLinks
from dashboard.summaries.models import TroubleSpan
from dashboard.summaries.phrases import gap_note
from domain.names import MAX_NAME
from domain.scenario import Scenario

BAD, UNCONFIRMED = "bad", "unconfirmed"
KINDS = {BAD: "In bad states", UNCONFIRMED: "Unconfirmed"}
MAX_ID = 2**63 - 1


class SpanFilter(PeriodForm):
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
class Line(AssetLinks):
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
    form = SpanFilter(request.GET)
    valid, now = form.is_valid(), now_ms()
    before = (form.cleaned_data["before"] or 0) if valid else 0
    context = {
        "now": now,
        "form": form,
        "table": TABLE,
        "kind": KINDS[form.chosen_kind] if valid else "History",
        "unobserved": _gap_note(form, now) if valid else "",
        **_listed(form, valid, before, now),
    }
    return render(request, "summaries/spans.html", context, status=200 if valid else 422)


def _gap_note(form: SpanFilter, now: int) -> str:
    begin, end = form.span()
    return gap_note(form.cleaned_data["scenario"] or list(scenarios()), begin or None, end, now)


def _listed(form: SpanFilter, valid: bool, before: int, now: int) -> dict[str, Any]:
    """Return what the page of a list is rendered with."""
    listing: Listing[TroubleSpan, Line] = Listing(
        lambda row: _line(row, *form.span(), now), Order("begin")
    )
    return listing.context(form.troubles() if valid else None, before, form.query())


def _line(row: TroubleSpan, begin: int, end: int | None, now: int) -> Line:
    until = min(now if row.end is None else row.end, now if end is None else end)
    return Line(row, scenarios()[row.scenario], row.state, max(0, until - max(begin, row.begin)))
