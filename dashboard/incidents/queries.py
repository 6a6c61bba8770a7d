"""The list of incidents: filtered, newest first, page by page, and as a file."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.urls import reverse

from dashboard.core.listing import Listing, Order, TableFile
from dashboard.core.scenarios import scenarios
from dashboard.core.tables import Column, Table
from dashboard.core.times import MINUTE_MS, duration, now_ms
from dashboard.incidents.models import Incident, real
from dashboard.labels.models import Label
from dashboard.states.board_rows import asset_path
from domain.scenario import Scenario

STATUSES = {
    "open": Q(ended_at=None),
    "unacknowledged": Q(ended_at=None, acknowledged_at=None),
    "acknowledged": Q(acknowledged_at__isnull=False),
    "ended": Q(ended_at__isnull=False),
}
FLAP_MS = 15 * MINUTE_MS
"""An incident that begins sooner than this after the one before it of its asset is flapping."""
ANY_TIME, BEGAN, ENDED = "", "began", "ended"
"""What of an incident lies in the time of a filter: any part of it, its beginning, its end."""
MOST_EXPORTED = 100_000
"""Most incidents of one file, the newest."""


class Wanted(NamedTuple):
    """A filter of incidents. scenarios: all by default; q: a part of the asset's name; worst: a
    state; status: of STATUSES; start, end: Unix ms; of_time: what of an incident lies between
    these; asset: a whole name; label: a key and a value, which is "" for assets without the key;
    flapping: only those that are."""

    scenarios: tuple[str, ...] = ()
    q: str = ""
    worst: str = ""
    status: str = ""
    start: int | None = None
    end: int | None = None
    of_time: str = ANY_TIME
    asset: str = ""
    label: tuple[str, str] | None = None
    flapping: bool = False

    def rows(self) -> QuerySet[Incident]:
        """Return the incidents that pass."""
        conditions = {
            "scenario__in": self.scenarios,
            "asset__icontains": self.q,
            "asset": self.asset,
            "worst": self.worst,
        }
        rows = real().filter(self.in_time(), scenario__in=scenarios())
        rows = rows.filter(**{name: value for name, value in conditions.items() if value})
        if self.label is not None:
            rows = rows.filter(labelled(*self.label))
        if self.flapping:
            rows = rows.filter(_flapping())
        return rows.filter(STATUSES[self.status]) if self.status else rows

    def in_time(self) -> Q:
        """Return the condition that the times of an incident have to meet."""
        edge = "ended_at" if self.of_time == ENDED else "began_at"
        condition = Q() if self.end is None else Q(**{f"{edge}__lt": self.end})
        if self.start is None:
            return condition
        if self.of_time == ANY_TIME:
            return condition & (Q(ended_at=None) | Q(ended_at__gt=self.start))
        return condition & Q(**{f"{edge}__gte": self.start})


def labelled(key: str, value: str) -> Q:
    """Return the condition that an incident's asset has a label; with no value, that it has none of
    this key."""
    labels = Label.objects.filter(
        scenario=OuterRef("scenario"), asset=OuterRef("asset"), key=key, shown=True
    )
    return Q(Exists(labels.filter(value=value))) if value else ~Q(Exists(labels))


def _flapping() -> Q:
    """Return the condition that an incident began soon after one of its asset had ended."""
    ended_before = real().filter(
        scenario=OuterRef("scenario"),
        asset=OuterRef("asset"),
        began_at__lt=OuterRef("began_at"),
        ended_at__lte=OuterRef("began_at"),
        ended_at__gt=OuterRef("began_at") - FLAP_MS,
    )
    return Q(Exists(ended_before))


class Count(NamedTuple):
    """How many incidents pass a filter, and of how many assets these are."""

    incidents: int
    assets: int


def count(rows: QuerySet[Incident]) -> Count:
    """Return how many incidents these are, and of how many assets."""
    return Count(rows.count(), rows.values("scenario", "asset").distinct().count())


class Entry(NamedTuple):
    """An incident as pages show it."""

    row: Incident
    scenario: Scenario
    until: int

    @property
    def ms(self) -> int:
        """How long it lasted, or has lasted until now, ms."""
        return self.until - self.row.began_at

    @property
    def lasted(self) -> str:
        """How long it lasted, in words."""
        return duration(self.ms)

    @property
    def answered(self) -> str:
        """How long nobody had acknowledged it, in words; empty while nobody has."""
        after = self.acknowledged_after
        return "" if after is None else duration(after)

    @property
    def url(self) -> str:
        """The address of its page."""
        return reverse("incidents:incident", args=[self.row.pk])

    @property
    def acknowledged_after(self) -> int | None:
        """How long nobody had acknowledged it, ms; None while nobody has."""
        at = self.row.acknowledged_at
        return None if at is None else at - self.row.began_at

    @property
    def asset_url(self) -> str:
        """The address of the asset's page."""
        return asset_path(self.row.scenario, self.row.asset)


def entry_of(row: Incident, now: int | None = None) -> Entry:
    """Return an incident as pages show it at a time, Unix ms; by default now."""
    until = row.ended_at if row.ended_at is not None else now or now_ms()
    return Entry(row, scenarios()[row.scenario], until)


FIELDS = (
    "scenario", "asset", "worst", "state", "began_at", "ended_at", "duration_ms", "changes",
    "acknowledged_at", "acknowledged_by",
)  # fmt: skip


def plain(row: Incident) -> dict[str, Any]:
    """Return an incident as an object of NDJSON, or a line of CSV."""
    own = {name: getattr(row, name) for name in FIELDS if name != "duration_ms"}
    ms = None if row.ended_at is None else row.ended_at - row.began_at
    return {name: own.get(name, ms) for name in FIELDS} | {"id": row.pk}


INCIDENT_TABLE = Table(
    "",
    "Asset",
    "Scenario",
    "Began",
    Column("Lasted", numeric=True),
    Column("Worst", "the most severe of its states"),
    Column("Last", "its state now, or the last before it ended"),
    Column("Acknowledged", "by whom first, and how long after it began"),
    Column("Changes", "changes of its state, the beginning included", numeric=True),
)
NEWEST = Order("began_at")
INCIDENTS = Listing(entry_of, NEWEST)
INCIDENT_FILE = TableFile("incidents", (*FIELDS, "id"), plain, order=NEWEST, at_most=MOST_EXPORTED)
