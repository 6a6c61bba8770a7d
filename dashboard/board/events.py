"""What has happened on all boards, newest first: changes of states, purges, reminders.

A filter may match little of very much: so many rows are looked at for one page, no more, and the
next page goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import msgspec
from django.db.models import Max, Q, QuerySet

from dashboard.core.scenarios import scenarios
from dashboard.filter_language.parser import state_of
from dashboard.filters.event_filter import condition_of
from dashboard.states.board_rows import asset_path, cause_text
from dashboard.states.models import CHANGE, Transition
from domain.scenario import Scenario
from domain.version import Version

PAGE = 100
"""Most events of a page."""
LOOKED_AT = 50_000
"""So many rows are looked at for a page of them."""
PORTION = 1_000
"""Rows of a file that are read at a time."""
MOST_EXPORTED = 100_000
"""Most events of one file, the newest."""


class Wanted(NamedTuple):
    """Which events: of a scenario, to a state, that the filter `q` finds at `now` (Unix ms); all:
    records after which the state stayed too."""

    scenario: str = ""
    state: str = ""
    q: str = ""
    all: bool = False
    now: int = 0

    def known(self) -> list[Scenario]:
        """The scenarios that it asks for."""
        every = scenarios()
        return [every[self.scenario]] if self.scenario else list(every.values())

    def _states(self) -> Q:
        """The state, which each scenario may know by a label."""
        each = ((known.name, state_of(self.state, known)) for known in self.known())
        found = (Q(scenario=name, state=state) for name, state in each if state)
        return reduce(or_, found, Q(state=self.state))

    def of(self, rows: QuerySet[Transition]) -> QuerySet[Transition]:
        """Those of `rows` that are wanted."""
        rows = rows.filter(scenario__in=[self.scenario] if self.scenario else list(scenarios()))
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
    def url(self) -> str:
        """Where the asset's page is."""
        return asset_path(self.scenario.name, self.asset)


class Page(NamedTuple):
    """Events, newest first. older: the token of the page that follows, 0 where none does;
    ended_early: so many rows were looked at that a part of them had to do."""

    events: list[Event]
    older: int
    ended_early: bool


def page(wanted: Wanted, before: int = 0) -> Page:
    """The newest events, or those before the token of a page."""
    start = before or _newest() + 1
    floor = max(start - LOOKED_AT, 0)
    rows = wanted.of(Transition.objects.filter(pk__lt=start, pk__gte=floor))
    found = [_event(row) for row in rows.order_by("-pk")[: PAGE + 1]]
    if len(found) > PAGE:
        return Page(found[:PAGE], found[PAGE - 1].pk, False)
    more = floor > 0 and Transition.objects.filter(pk__lt=floor).exists()
    return Page(found, floor if more else 0, more)


def _newest() -> int:
    return Transition.objects.aggregate(newest=Max("pk"))["newest"] or 0


def _event(row: Transition) -> Event:
    cause: dict[str, Any] = msgspec.json.decode(row.cause)
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
        partition=cause["partition"],
        offset=cause["offset"],
    )


# ---- as a file ----------------------------------------------------------------------------

FIELDS = (
    "scenario", "asset", "kind", "previous", "state", "at", "version", "cause", "partition",
    "offset",
)  # fmt: skip


def portions(wanted: Wanted) -> Iterator[list[Event]]:
    """The newest events that are wanted, up to MOST_EXPORTED, newest first."""
    start, left = _newest() + 1, MOST_EXPORTED
    while left > 0:
        rows = wanted.of(Transition.objects.filter(pk__lt=start)).order_by("-pk")
        found = [_event(row) for row in rows[: min(PORTION, left)]]
        if not found:
            return
        yield found
        start, left = found[-1].pk, left - len(found)


def plain(event: Event) -> dict[str, Any]:
    """An event as an object of NDJSON, or a line of CSV."""
    return {name: getattr(event, name) for name in FIELDS} | {"scenario": event.scenario.name}
