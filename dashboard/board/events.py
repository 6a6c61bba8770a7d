"""What has happened on all boards, newest first: changes of states, purges, reminders."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from django.db.models import Q, QuerySet

from dashboard.core.listing import Listing, Order, TableFile
from dashboard.core.scenarios import scenarios
from dashboard.core.tables import Table
from dashboard.filter_language.parser import state_of
from dashboard.filters.event_filter import condition_of
from dashboard.states.board_rows import asset_path, cause_text
from dashboard.states.models import CHANGE, CONFIRMED, UNCONFIRMED, Transition
from domain.scenario import Scenario
from domain.version import Version
from wire.sink import cause_value

MOST_EXPORTED = 100_000
"""Most events of one file, the newest."""


EVERY = "*"
"""In place of a scenario's name: all of them."""


class Wanted(NamedTuple):
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


class Event(NamedTuple):
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


def _event(row: Transition) -> Event:
    cause = cause_value(row.cause)
    return Event(
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
NEWEST = Order("at")
EVENTS = Listing(_event, NEWEST)
EVENT_FILE = TableFile("events", FIELDS, plain, order=NEWEST, at_most=MOST_EXPORTED)
