"""Windows as pages and programs read them: their list, what one covers, what happened meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce
from django.urls import reverse

from dashboard.core.listing import Listing
from dashboard.core.scenarios import scenarios
from dashboard.core.tables import Column, Table
from dashboard.core.times import duration, now_ms
from dashboard.filter_language.addresses import board_url
from dashboard.incidents.models import real
from dashboard.incidents.queries import Entry as IncidentEntry
from dashboard.incidents.queries import entry_of as incident_entry
from dashboard.maintenance.models import (
    ALL,
    CANCELLED,
    ENDED,
    FILTER,
    LISTED,
    PLANNED,
    RUNNING,
    Window,
    WindowAsset,
)
from dashboard.maintenance.selection import covered_by_filter
from dashboard.states.board_rows import asset_path
from dashboard.states.models import AssetState
from domain.scenario import Scenario

FARTHEST = 2**62
"""Later than any time."""
SHOWN = 100
"""Most assets, and most incidents, that a window's page lists."""


def of_status(status: str, now: int) -> Q:
    """Return the condition of the windows that have a status at `now` (Unix ms)."""
    if status == CANCELLED:
        return Q(cancelled_at__isnull=False)
    times = {
        PLANNED: Q(begin__gt=now),
        RUNNING: Q(begin__lte=now, end__gt=now),
        ENDED: Q(end__lte=now),
    }
    return times[status] & Q(cancelled_at=None)


class Wanted(NamedTuple):
    """A filter of windows. q: a part of the name; status: of `models.STATUSES`."""

    scenario: str = ""
    q: str = ""
    status: str = ""

    def rows(self) -> QuerySet[Window]:
        """Return the windows that pass."""
        rows = Window.objects.filter(scenario__in=["", *scenarios()])
        if self.scenario:
            rows = rows.filter(scenario__in=["", self.scenario])
        if self.q:
            rows = rows.filter(name__icontains=self.q)
        return rows.filter(of_status(self.status, now_ms())) if self.status else rows


class Entry(NamedTuple):
    """A window as pages show it at a time, Unix ms."""

    row: Window
    now: int

    @property
    def status(self) -> str:
        """Its status."""
        return self.row.status(self.now)

    @property
    def about(self) -> str:
        """The title of its scenario."""
        known = scenarios().get(self.row.scenario)
        return known.title if known else self.row.scenario or "all scenarios"

    @property
    def covers(self) -> str:
        """What it covers, in words."""
        if self.row.covers == FILTER:
            return self.row.filter
        return "all assets" if self.row.covers == ALL else "assets of a list"

    @property
    def url(self) -> str:
        """The address of its page."""
        return reverse("maintenance:window", args=[self.row.pk])

    @property
    def lasts(self) -> str:
        """How long it lasts, in words."""
        return duration(self.row.end - self.row.begin)

    @property
    def afterwards(self) -> bool:
        """Whether it had begun when it was written down."""
        return self.row.created_at > self.row.begin

    @property
    def ended_early(self) -> bool:
        """Whether somebody ended it before its planned end."""
        return bool(self.row.ended_by)


def entry_of(row: Window) -> Entry:
    """Return a window as pages show it now."""
    return Entry(row, now_ms())


class Covered(NamedTuple):
    """An asset that a window covers."""

    scenario: Scenario
    asset: str
    state: str

    @property
    def url(self) -> str:
        """The address of its page."""
        return asset_path(self.scenario.name, self.asset)


class Coverage(NamedTuple):
    """What a window covers. rows: the first of them; total: all; address: the board with them."""

    rows: list[Covered]
    total: int
    address: str


def coverage_of(window: Window, now: int) -> Coverage:
    """Return which assets a window covers at `now` (Unix ms), or covered last."""
    rows: list[Covered] = []
    total = 0
    for scenario in _scenarios(window):
        found = _visible(window, scenario, now)
        total += found.count()
        first = found.order_by("asset").values_list("asset", "state")[: SHOWN - len(rows)]
        rows += [Covered(scenario, asset, state) for asset, state in first]
    address = ""
    if window.covers == FILTER and window.scenario:
        address = board_url(window.scenario, window.filter)
    return Coverage(rows, total, address)


def _visible(window: Window, scenario: Scenario, now: int) -> QuerySet[AssetState]:
    if window.covers == FILTER and window.begun_at is None:
        return covered_by_filter(window, scenario, now)
    rows = AssetState.objects.filter(scenario=scenario.name, purged=False)
    if window.covers == ALL:
        return rows
    stored = window.assets.filter(scenario=scenario.name, end=None, asset=OuterRef("asset"))
    return rows.filter(Exists(stored))


def incidents_of(window: Window, now: int) -> list[IncidentEntry]:
    """Return the newest incidents that assets of a window had while it covered them."""
    rows = real().filter(began_at__lt=min(window.end, now), scenario__in=scenarios())
    rows = rows.filter(Q(ended_at=None) | Q(ended_at__gt=window.begin))
    if window.scenario:
        rows = rows.filter(scenario=window.scenario)
    if window.covers != ALL:
        rows = rows.filter(Exists(_stored_during(window)))
    return [incident_entry(row, now) for row in rows.order_by("-began_at")[:SHOWN]]


def _stored_during(window: Window) -> QuerySet[WindowAsset]:
    """Return the stored assets of a window, of the outer query's incident, while covered."""
    rows = window.assets.filter(scenario=OuterRef("scenario"), asset=OuterRef("asset"))
    over = Q(begin__gte=Coalesce(OuterRef("ended_at"), FARTHEST))
    return rows.exclude(over).filter(Q(end=None) | Q(end__gt=OuterRef("began_at")))


def _scenarios(window: Window) -> Iterator[Scenario]:
    known = scenarios()
    return iter([s for name, s in known.items() if window.scenario in ("", name)])


FIELDS = (
    "id", "name", "why", "scenario", "covers", "filter", "begin", "end", "planned_end", "excluded",
    "held", "username", "created_at", "ended_by", "cancelled_at", "cancelled_by",
)  # fmt: skip


def plain(row: Window) -> dict[str, Any]:
    """Return a window as programs get it."""
    named = {name: getattr(row, name) for name in FIELDS}
    stored = row.assets.order_by("asset").values_list("asset", flat=True)
    names = list(stored) if row.covers == LISTED else []
    return named | {"status": row.status(now_ms()), "assets": names}


WINDOW_TABLE = Table(
    "",
    "Name",
    "Status",
    "Scenario",
    "Covers",
    "From",
    "Until",
    Column("Availability", "whether availability leaves this time out"),
    Column("Notifications", "whether they are held back while it runs"),
    "By",
)
COVERED_TABLE = Table("window-assets", "Asset", "Scenario", "State")
INCIDENT_TABLE = Table(
    "window-incidents", "Asset", Column.time("Began"), Column.time("Lasted"), "Worst"
)
WINDOWS = Listing(entry_of)
