"""The lists of alarms and of spans behind the figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.db.models import Exists, OuterRef, Q, QuerySet

from dashboard.core.common.forms import ListForm, PeriodForm, scenario_choices
from dashboard.core.common.lists import ListPage
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.tables import Column, ListOrder, Page, Table
from dashboard.core.common.times import unix_ms
from dashboard.notify.summaries.forms import HOURS, SERVICE
from dashboard.notify.summaries.models import (
    ALL_SLOTS,
    FALSE,
    OUTCOMES,
    PENDING,
    TRUE,
    Alarm,
    ImpairedSpan,
    Presence,
    ReportingZone,
    SpanQuerySet,
    Target,
    raw_edge,
)
from dashboard.notify.summaries.phrases import gap_note
from dashboard.notify.summaries.raw_history import gaps_between
from dashboard.notify.summaries.times import measure
from dashboard.watch.annotations.models import MAX_KEY, MAX_VALUE, Label
from dashboard.watch.incidents.models import Window
from domain.history.periods import Span
from domain.history.runs import merged, without
from domain.history.sums import Spans
from domain.names import MAX_NAME


class LabelField(forms.CharField):
    """An optional label, `customer:Acme`; an empty value matches assets without the key."""

    def __init__(self) -> None:
        hint = {"placeholder": "customer:Acme", "autocomplete": "off"}
        super().__init__(
            required=False,
            max_length=MAX_KEY + 1 + MAX_VALUE,
            label="Label",
            widget=forms.TextInput(attrs=hint),
        )

    def clean(self, value: Any) -> tuple[str, str] | None:
        """Return the key and value, or None if nothing was entered. Raises ValidationError."""
        text = super().clean(value)
        key, colon, of_key = text.partition(":")
        if not text:
            return None
        if not key or not colon:
            raise forms.ValidationError("Expected a key and a value, such as customer:Acme.")
        return key, of_key


class FigureForm(ListForm, PeriodForm):
    """The filter of a list behind a figure, from the address. Times in the reporting zone."""

    scenario = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)
    asset = forms.CharField(required=False, max_length=MAX_NAME, label="Whole name")
    label = LabelField()

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self.offer("scenario", scenario_choices())

    @cached_property
    def time_zone(self) -> ZoneInfo:
        """The zone of its times: the reporting zone unless the URL names another."""
        return super().time_zone if self.data.get("zone") else ReportingZone.objects.current()

    @property
    def names(self) -> list[str]:
        """The scenarios of the list. The form must be valid."""
        return self.cleaned_data["scenario"] or list(scenarios())

    @property
    def span(self) -> tuple[int, int | None]:
        """Begin and end of the list's time, Unix ms; without an end up to now."""
        data = self.cleaned_data
        return unix_ms(data["start"]) or 0, unix_ms(data["end"])

    def of_assets(self) -> Q:
        """Return the condition for rows of the chosen assets."""
        data = self.cleaned_data
        condition = Q(scenario__in=self.names)
        if data["asset"]:
            condition &= Q(asset=data["asset"])
        if data["label"]:
            key, value = data["label"]
            place = {"scenario": OuterRef("scenario"), "asset": OuterRef("asset")}
            own = Label.objects.filter(**place, key=key, shown=True)
            condition &= Q(Exists(own.filter(value=value)) if value else ~Exists(own))
        return condition


# ---- alarms --------------------------------------------------------------------------------------
# Alarms, which are the times in which a worse state was pending: filter, list and file.


class AlarmFilterForm(FigureForm):
    """The filter of alarms, from the address."""

    outcome = forms.ChoiceField(required=False)

    field_order = ("outcome", "scenario", "asset", "label", "start", "end")

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        words = ((name, text.capitalize()) for name, text in OUTCOMES.items())
        self.offer("outcome", [("", "all"), *words])

    def rows(self) -> QuerySet[Alarm]:
        """Return the alarms that match: those that ended in the form's time, and those that are
        still pending and began before its end. The form must be valid."""
        begin, end = self.span
        ended, going_on = Q(end__gte=begin), Q(end=None)
        if end is not None:
            ended &= Q(end__lt=end)
            going_on &= Q(begin__lt=end)
        known = {
            FALSE: ended & Q(came_true=False),
            TRUE: ended & Q(came_true=True),
            PENDING: going_on,
        }
        outcome = known.get(self.cleaned_data["outcome"], ended | going_on)
        return Alarm.objects.filter(outcome, self.of_assets())


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
        """Return how many there are, and how much of the time was not observed, in words."""
        number = self.form.rows().count() if self.form.is_valid() else None
        return {"number": number, "unobserved": unobserved_note(self.form, self.now)}


def unobserved_note(form: FigureForm, now: int) -> str:
    """Return how much of the filter's time was not observed, in words. now: Unix ms.

    Empty if the filter is invalid, or if there is nothing to say.
    """
    if not form.is_valid():
        return ""
    begin, end = form.span
    return gap_note(form.names, begin or None, end, now)


# ---- spans ---------------------------------------------------------------------------------------
# The list of the spans behind a figure of a summary: of each the part that the figure counts.

BAD, UNCONFIRMED, MAINTENANCE = "bad", "unconfirmed", "maintenance"
KINDS = {BAD: "In bad states", UNCONFIRMED: "Unconfirmed", MAINTENANCE: "Maintenance"}
SUMMED = 50_000
"""Most rows that a page adds up; the file adds up all."""


class SpanFilterForm(FigureForm):
    """The filter of spans, from the address."""

    kind = forms.ChoiceField(required=False)
    hours = forms.ChoiceField(required=False)

    field_order = ("kind", "hours", "scenario", "asset", "label", "start", "end")

    def __init__(self, data: Any) -> None:
        super().__init__(data)
        self.offer("kind", list(KINDS.items()))
        self.offer("hours", list(HOURS.items()))

    @property
    def chosen_kind(self) -> str:
        """The kind of spans that are listed. The form must be valid."""
        return self.cleaned_data["kind"] or BAD

    def rows(self) -> SpanQuerySet:
        """Return the bad, or the unconfirmed, times that match. The form must be valid."""
        unconfirmed = self.chosen_kind == UNCONFIRMED
        return ImpairedSpan.objects.filter(self.of_assets(), unconfirmed=unconfirmed).during(
            *self.span
        )

    def present(self, scenario: str, span: Span) -> dict[str, Spans]:
        """Return when the chosen assets of a scenario were on the board in a time."""
        there = Presence.objects.filter(self.of_assets(), scenario=scenario, begin__lt=span.end)
        times: dict[str, list[tuple[int, int]]] = {}
        rows = there.filter(Q(end=None) | Q(end__gt=span.begin)).order_by("begin")
        for asset, begin, end in rows.values_list("asset", "begin", "end"):
            until = span.end if end is None else min(end, span.end)
            times.setdefault(asset, []).append((max(begin, span.begin), until))
        return dict(times)

    def counted(self, now: int) -> dict[str, CountedTime]:
        """Return what counts of the list's time up to `now` (Unix ms), by scenario."""
        begin, end = self.span
        begin = begin or raw_edge(now)
        span = Span(begin, max(begin, now if end is None else min(end, now)))
        service = self.cleaned_data["hours"] == SERVICE
        return {name: CountedTime.of(name, span, service=service) for name in self.names}


@dataclass(frozen=True)
class CountedTime:
    """What a scenario's figures count of a time. everywhere, by_asset: maintenance in it."""

    scenario: str
    span: Span
    slots: frozenset[int]
    everywhere: Spans
    by_asset: Mapping[str, Spans]

    @classmethod
    def of(cls, scenario: str, span: Span, *, service: bool) -> CountedTime:
        """Return it for a scenario and a time. service: whether service hours alone count."""
        slots = Target.objects.slots(scenario) if service else ALL_SLOTS
        return cls(scenario, span, slots, *Window.objects.excluded(scenario, *span))

    @cached_property
    def _ms(self) -> Any:
        gaps, zone = gaps_between(self.scenario, *self.span), ReportingZone.objects.current()
        return measure(self.span, gaps, self.slots, zone)

    def windows(self, asset: str) -> Spans:
        """Return when an asset was in maintenance, in order."""
        return merged([*self.everywhere, *self.by_asset.get(asset, ())])

    def impaired(self, asset: str, begin: int, end: int | None) -> int:
        """Return how much of a bad or unconfirmed time counts, ms."""
        low = max(begin, self.span.begin)
        high = self.span.end if end is None else min(end, self.span.end)
        parts = without((low, high), self.windows(asset))[0] if low < high else ()
        return sum(self._ms(*part) for part in parts)

    def maintenance(self, present: Mapping[str, Spans]) -> Iterator[ImpairedSpan]:
        """Yield each time of maintenance of these assets, as an unsaved row without a state.

        present: when they were on the board.
        """
        for asset in present if self.everywhere else present.keys() & self.by_asset.keys():
            windows = self.windows(asset)
            for there in merged(present[asset]):
                for begin, end in without(there, windows)[1]:
                    row = ImpairedSpan(
                        scenario=self.scenario, asset=asset, begin=begin, end=end, state=""
                    )
                    row.counted = self._ms(begin, end)
                    yield row


TABLE = Table(
    "",
    "Asset",
    "Scenario",
    "State",
    "Began",
    "Ended",
    Column("Counted", "how much of it is in the figure: see below", numeric=True),
)


class SpanList(ListPage):
    """The list of the spans behind a figure, newest first, and their sum."""

    name = "history"
    form: SpanFilterForm
    form_class = SpanFilterForm
    template = "summaries/spans"
    table = TABLE
    order = ListOrder("begin")
    renews = False
    fields = ("scenario", "asset", "state", "began_at", "ended_at", "counted_ms")

    @cached_property
    def counted(self) -> dict[str, CountedTime]:
        """What counts of the list's time, by scenario."""
        return self.form.counted(self.now)

    @cached_property
    def maintenance(self) -> list[ImpairedSpan] | None:
        """The times of maintenance, newest first; None if the list is of another kind."""
        if self.form.chosen_kind != MAINTENANCE:
            return None
        of_scenarios = (
            each.maintenance(self.form.present(name, each.span))
            for name, each in self.counted.items()
        )
        rows = [row for rows in of_scenarios for row in rows]
        return sorted(rows, key=lambda row: (row.begin, row.scenario, row.asset), reverse=True)

    def paginate(self, rows: QuerySet[Any], before: Any) -> Page[Any]:
        """Return the first rows, or those that follow; of maintenance by how many came before."""
        if self.maintenance is None:
            return super().paginate(rows, before)
        since, until = before or 0, (before or 0) + self.page_size
        more = len(self.maintenance) > until
        return Page(self.maintenance[since:until], until if more else None)

    def portions(self) -> Iterable[Iterable[Any]]:
        """Yield the rows of the file in portions."""
        own = self.maintenance
        yield from super().portions() if own is None else [own]

    def file_rows(self) -> Iterator[Iterable[dict[str, Any]]]:
        """Yield the lines of the file in portions, and at last their sum."""
        number = total = 0
        for portion in self.portions():
            rows = list(portion)
            self.complete(rows)
            number, total = number + len(rows), total + sum(row.counted for row in rows)
            yield map(self.plain, rows)
        last: dict[str, Any] = dict.fromkeys(self.fields, "")
        yield [last | {"state": "sum", "counted_ms": total, "rows": number}]

    def complete(self, rows: list[ImpairedSpan]) -> None:
        """Give rows the part of them that counts, ms."""
        for row in rows if self.maintenance is None else ():
            row.counted = self.counted[row.scenario].impaired(row.asset, row.begin, row.end)

    def answer(self, rows: QuerySet[Any], limit: int, before: int | None) -> dict[str, Any]:
        """Return times as the API lists them, with how many there are and their sum."""
        if self.maintenance is None:
            listed = super().answer(rows, limit, before)
        else:
            self.page_size = limit
            page = self.paginate(rows, before)
            listed = {"items": [self.plain(row) for row in page.rows], "next": page.following}
        return listed | {"number": self._number, "sum_ms": self._sum()}

    def plain(self, row: ImpairedSpan) -> dict[str, Any]:
        """Return a time as an object for NDJSON or the API, or a line of CSV."""
        values = (row.scenario, row.asset, row.state, row.begin, row.end, row.counted)
        return dict(zip(self.fields, values, strict=True))

    def context(self) -> dict[str, Any]:
        """Return the kind of the spans, their sum, and how much of the time was not observed."""
        valid = self.form.is_valid()
        return {
            "kind": KINDS[self.form.chosen_kind] if valid else "History",
            "zone": self.form.time_zone,
            "sum": self._sum() if valid else None,
            "number": self._number if valid else 0,
            "unobserved": unobserved_note(self.form, self.now),
        }

    @cached_property
    def _number(self) -> int:
        return self.form.rows().count() if self.maintenance is None else len(self.maintenance)

    def _sum(self) -> int | None:
        """Return how much counts of all rows together, ms; None if they are too many."""
        if self.maintenance is not None:
            return sum(row.counted for row in self.maintenance)
        if self._number > SUMMED:
            return None
        rows = self.form.rows().only("scenario", "asset", "begin", "end").iterator()
        return sum(
            self.counted[row.scenario].impaired(row.asset, row.begin, row.end) for row in rows
        )
