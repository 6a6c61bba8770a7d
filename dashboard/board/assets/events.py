"""What has happened on all boards, newest first: the page, and the same as a file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from django import forms
from django.db.models import Q, QuerySet
from django.utils.http import urlencode

from dashboard.core.common.forms import ListForm, scenario_choices
from dashboard.core.common.lists import ListPage
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.tables import ListOrder, Table
from dashboard.core.common.times import now_ms
from dashboard.core.states.board_rows import asset_path, cause_in_words
from dashboard.core.states.filter_forms import FilterText
from dashboard.core.states.filter_parser import MAX_TEXT, FilterError, state_of
from dashboard.core.states.models import CHANGE, CONFIRMED, UNCONFIRMED, Transition
from dashboard.watch.filters.completion import placeholder
from dashboard.watch.filters.query import condition_of
from domain.names import MAX_STATE
from domain.scenario import Scenario
from domain.version import Version
from wire.sink import cause_value

# ---- events --------------------------------------------------------------------------------------
# What has happened on all boards, newest first: changes of states, purges, reminders.

EVERY = "*"
"""In place of a scenario's name: all of them."""


@dataclass(frozen=True)
class BoardEvent:
    """One of them. state: empty after a purge; at: Unix ms."""

    pk: int
    scenario: Scenario
    asset: str
    kind: str
    previous: str
    state: str
    at: int
    version: str
    cause: str
    partition: int
    offset: int

    @property
    def mark(self) -> str:
        """The mark that alone changed, in words; empty of what changed more, or nothing."""
        return self.kind if self.kind in (UNCONFIRMED, CONFIRMED) else ""

    @property
    def url(self) -> str:
        """Where the asset's page is."""
        return asset_path(self.scenario.name, self.asset)


EVENT_TABLE = Table("", "Asset", "When", "Scenario", "What", "Cause", "Version")


# ---- event views ---------------------------------------------------------------------------------
# The page of what happens on all boards, and the same as a file.

ALL_QUERY = urlencode({"scenario": EVERY})
"""The address's filter that lets the events of all boards pass."""


class EventFilterForm(ListForm):
    """The filter in the address. all: records after which the state stayed too."""

    scenario = forms.ChoiceField(required=False)
    state = forms.CharField(required=False, max_length=MAX_STATE, label="To state")
    q = forms.CharField(required=False, max_length=MAX_TEXT, label="Filter", widget=FilterText)
    all = forms.BooleanField(required=False, label="Include reminders and ended pins")

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        groups = [("", "Boards with severity"), (EVERY, "All boards")]
        self.offer("scenario", [*groups, *scenario_choices()])
        shown = scenarios().get(self.data.get("scenario", "")) or next(iter(scenarios().values()))
        self.fields["q"].widget.attrs["placeholder"] = placeholder(shown)
        self.fields["state"].widget.attrs = {"list": "states-known", "autocomplete": "off"}

    def clean(self) -> dict[str, Any]:
        """Return the cleaned data; add an error if the text is not a filter of events."""
        if not self.errors:
            try:
                self._text_condition()
            except FilterError as error:
                self.add_error("q", str(error))
        return self.cleaned_data

    def rows(self) -> QuerySet[Transition]:
        """Return the events that pass."""
        rows = Transition.objects.filter(scenario__in=[known.name for known in self._known()])
        if state := self.cleaned_data["state"]:
            rows = rows.filter(self._entered(state))
        if self.cleaned_data["q"]:
            rows = rows.filter(self._text_condition())
        return rows if self.cleaned_data["all"] else rows.filter(kind=CHANGE)

    def _known(self) -> list[Scenario]:
        """Return the selected scenarios; by default those with severity."""
        every = list(scenarios().values())
        chosen = self.cleaned_data["scenario"]
        if chosen == EVERY:
            return every
        if chosen:
            return [scenarios()[chosen]]
        return [known for known in every if not known.life_cycle] or every

    def _entered(self, state: str) -> Q:
        """Return a condition for the state, which each scenario may know by a label."""
        each = ((known.name, state_of(state, known)) for known in self._known())
        conditions = (Q(scenario=name, state=own) for name, own in each if own)
        return reduce(or_, conditions, Q(state=state))

    def _text_condition(self) -> Q:
        """Return a condition for what the text finds. Raises FilterError."""
        return condition_of(self.cleaned_data["q"], self._known(), now_ms())


class EventList(ListPage):
    """The list of events, newest first."""

    name = "events"
    form_class = EventFilterForm
    template = "board/events"
    table = EVENT_TABLE
    order = ListOrder("at")
    fields = (
        "scenario", "asset", "kind", "previous", "state", "at", "version", "cause", "partition",
        "offset",
    )  # fmt: skip
    at_most = 100_000

    def entry(self, row: Transition) -> BoardEvent:
        """Return an event as the page shows it."""
        cause = cause_value(row.cause)
        return BoardEvent(
            pk=row.pk,
            scenario=scenarios()[row.scenario],
            asset=row.asset,
            kind=row.kind,
            previous=row.previous,
            state=row.state,
            at=row.at,
            version=str(Version.parse(row.version)),
            cause=cause_in_words(scenarios()[row.scenario], row.state, cause),
            partition=cause.partition,
            offset=cause.offset,
        )

    def plain(self, row: Transition) -> dict[str, Any]:
        """Return an event as an object of NDJSON, or a row of CSV."""
        event = self.entry(row)
        named = {name: getattr(event, name) for name in self.fields}
        return named | {"scenario": event.scenario.name}

    def context(self) -> dict[str, Any]:
        """Return the address of all boards' events, and the words of the states."""
        return {
            "narrowed": self.form.query() not in ("", ALL_QUERY),
            "all_query": ALL_QUERY,
            "states": {spec.name: spec.label for s in scenarios().values() for spec in s.states},
        }
