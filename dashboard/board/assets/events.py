"""What has happened on all boards, newest first: the page, and the same as a file."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from django import forms
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.audit.log import export
from dashboard.core.common.access import role_required
from dashboard.core.common.forms import FilterForm, scenario_choices
from dashboard.core.common.navigation import render_page
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.tables import Listing, ListOrder, Table, TableFile
from dashboard.core.common.times import now_ms
from dashboard.core.states.board_rows import asset_path, cause_text
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

MOST_EXPORTED = 100_000
"""Most events of one file, the newest."""


EVERY = "*"
"""In place of a scenario's name: all of them."""


class BoardEventFilter(NamedTuple):
    """Which events: of a scenario (of EVERY; empty: of those with severity), to a state, that the
    filter `q` finds at `now` (Unix ms); all: records after which the state stayed too."""

    scenario: str = ""
    state: str = ""
    q: str = ""
    all: bool = False
    now: int = 0

    def known(self) -> list[Scenario]:
        """Return the scenarios that are asked for."""
        every = list(scenarios().values())
        if self.scenario == EVERY:
            return every
        if self.scenario:
            return [scenarios()[self.scenario]]
        return [known for known in every if not known.life_cycle] or every

    def _states(self) -> Q:
        """Return a condition for the state, which each scenario may know by a label."""
        each = ((known.name, state_of(self.state, known)) for known in self.known())
        found = (Q(scenario=name, state=state) for name, state in each if state)
        return reduce(or_, found, Q(state=self.state))

    def rows(self) -> QuerySet[Transition]:
        """Return the events that are wanted."""
        rows = Transition.objects.filter(scenario__in=[known.name for known in self.known()])
        if self.state:
            rows = rows.filter(self._states())
        if self.q:
            rows = rows.filter(condition_of(self.q, self.known(), self.now))
        return rows if self.all else rows.filter(kind=CHANGE)


class BoardEvent(NamedTuple):
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


def _event(row: Transition) -> BoardEvent:
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
        cause=cause_text(cause),
        partition=cause.partition,
        offset=cause.offset,
    )


FIELDS = (
    "scenario", "asset", "kind", "previous", "state", "at", "version", "cause", "partition",
    "offset",
)  # fmt: skip


def plain(row: Transition) -> dict[str, Any]:
    """Return an event as an object of NDJSON, or a row of CSV."""
    event = _event(row)
    return {name: getattr(event, name) for name in FIELDS} | {"scenario": event.scenario.name}


EVENT_TABLE = Table("", "Asset", "At", "Scenario", "What", "Cause", "Version")
NEWEST = ListOrder("at")
EVENTS = Listing(_event, NEWEST)
EVENT_FILE = TableFile("events", FIELDS, plain, order=NEWEST, at_most=MOST_EXPORTED)


# ---- event views ---------------------------------------------------------------------------------
# The page of what happens on all boards, and the same as a file.

MAX_ID = 2**63 - 1
ALL_QUERY = urlencode({"scenario": EVERY})
"""The address's filter that lets the events of all boards pass."""


class FilterText(forms.TextInput):
    """An input of a filter, with a list of what may be typed next."""

    input_type = "search"
    template_name = "forms/filter_text.html"

    def __init__(self) -> None:
        super().__init__(
            attrs={
                "autocomplete": "off",
                "spellcheck": "false",
                "role": "combobox",
                "aria-autocomplete": "list",
                "aria-expanded": "false",
                "aria-controls": "offers",
            }
        )


class EventFilterForm(FilterForm):
    """What the address asks for."""

    scenario = forms.ChoiceField(required=False)
    state = forms.CharField(required=False, max_length=MAX_STATE, label="To state")
    q = forms.CharField(required=False, max_length=MAX_TEXT, label="Filter", widget=FilterText)
    all = forms.BooleanField(required=False, label="Include reminders and ended pins")
    before = forms.IntegerField(
        required=False, min_value=0, max_value=MAX_ID, widget=forms.HiddenInput
    )

    PLACES = ("before",)

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
            wanted = self.wanted()
            try:
                condition_of(wanted.q, wanted.known(), wanted.now)
            except FilterError as error:
                self.add_error("q", str(error))
        return self.cleaned_data

    def wanted(self) -> BoardEventFilter:
        """Return the filter of a valid form."""
        given = self.cleaned_data
        return BoardEventFilter(
            given["scenario"], given["state"], given["q"], given["all"], now_ms()
        )


@require_safe
@never_cache
@role_required("read")
def event_list(request: HttpRequest) -> HttpResponse:
    """List events, newest first; for a script, the part of the page that refreshes itself."""
    form = EventFilterForm(request.GET)
    valid = form.is_valid()
    wanted = form.wanted() if valid else BoardEventFilter()
    before = (form.cleaned_data["before"] or 0) if valid else 0
    query = form.query() if valid else ""
    context = {
        "now": now_ms(),
        "form": form,
        "table": EVENT_TABLE,
        "narrowed": query not in ("", ALL_QUERY),
        "all_query": ALL_QUERY,
        "address": request.get_full_path(),
        **EVENTS.context(wanted.rows() if valid else None, before, query),
        "states": {spec.name: spec.label for s in scenarios().values() for spec in s.states},
    }
    return render_page(request, "board/events", context, status=200 if valid else 422)


@require_safe
@never_cache
@role_required("read")
def event_file(request: HttpRequest, form: str) -> HttpResponseBase:
    """Return the newest events that pass the filter as CSV or NDJSON."""
    filter_form = EventFilterForm(request.GET)
    return export(request, EVENT_FILE, form, filter_form, lambda: filter_form.wanted().rows())
