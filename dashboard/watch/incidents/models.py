"""Incidents and maintenance windows as the database has them. Times in Unix ms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from django.db import models
from django.db.models import F, Index, Q, QuerySet, UniqueConstraint

from dashboard.core.common.extension_point import Provider
from dashboard.core.common.models import AssetRow, AuthoredRow, length_class, length_index
from dashboard.core.common.retention import Retention, delete_in_portions, delete_rows
from dashboard.core.common.times import DAY_MS, MINUTE_MS
from dashboard.core.states.filter_parser import MAX_TEXT
from dashboard.core.states.models import PLACE
from dashboard.watch.annotations.models import MAX_WORK
from domain.names import MAX_STATE

# ---- incidents -----------------------------------------------------------------------------------
# Incidents as the database has them. Times in Unix ms of the broker's clock.

FLAP_MS = 15 * MINUTE_MS
"""An incident that begins sooner than this after the one before it of its asset is flapping."""


class Incident(AssetRow):
    """An asset's unbroken time outside its good states.

    place: of the change that began it, so that a rebuild finds its own incidents again; state: the
    newest of its states that is not good; worst: the most severe of them; changes: how many changes
    of a state it has, its beginning included; ended_at: empty while it goes on; acknowledged_*: of
    the first acknowledgement during it.
    """

    place = models.CharField(max_length=PLACE)
    began_at = models.BigIntegerField()
    ended_at = models.BigIntegerField(null=True)
    state = models.CharField(max_length=MAX_STATE)
    worst = models.CharField(max_length=MAX_STATE)
    changes = models.IntegerField(default=1)
    acknowledged_at = models.BigIntegerField(null=True)
    acknowledged_by = models.CharField(max_length=150, blank=True)
    length_class = length_class("began_at", "ended_at")

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["scenario", "asset", "place"], name="one_incident_per_place"
            ),
        )
        indexes = (
            models.Index(
                fields=["scenario", "asset"],
                condition=Q(ended_at=None),
                name="incidents_open",
            ),
            models.Index(fields=["scenario", "began_at"], name="incidents_by_begin"),
            models.Index(fields=["began_at", "id"], name="incidents_newest"),
            models.Index(fields=["scenario", "ended_at"], name="incidents_by_end"),
            length_index("began_at", "ended_at", "incidents_by_length"),
        )

    @property
    def duration_ms(self) -> int | None:
        """How long it lasted, ms; None while it goes on."""
        return None if self.ended_at is None else self.ended_at - self.began_at


def real() -> QuerySet[Incident]:
    """Return the incidents that lasted; those that a rebuild did not find again have no length."""
    return Incident.objects.exclude(ended_at=F("began_at"))


# ---- incidents -----------------------------------------------------------------------------------
# Retention of incidents: they are kept longer than the changes that they are made of.

INCIDENTS_KEPT_MS = 730 * DAY_MS

LEAST_MS = 90 * DAY_MS
"""The sums of a summary are counted from incidents as long as raw history is kept."""

INCIDENTS_KEPT = (
    Retention(
        "incidents", Incident, "ended_at", INCIDENTS_KEPT_MS, by_scenario=True, least_ms=LEAST_MS
    ),
)


# ---- incidents -----------------------------------------------------------------------------------
# Messages about an incident, which a higher package offers.


class Notified(NamedTuple):
    """A message about an incident. at: when it was written, Unix ms; status, why: in words; url: of
    its page."""

    at: int
    subject: str
    recipient: str
    status: str
    why: str
    url: str


def _nothing(incident: Incident) -> Sequence[Notified]:  # noqa: ARG001 - as those who register have it
    return ()


messages_about = Provider(_nothing)
"""Returns the messages about an incident, the newest first."""


# ---- maintenance ---------------------------------------------------------------------------------
# Maintenance windows as the database has them. Times in Unix ms.

MAX_WHY = 500
"""Longest reason, characters."""

ALL, FILTER, LISTED = "all", "filter", "assets"
COVERS = {ALL: "all assets", FILTER: "the assets of a filter", LISTED: "these assets"}
"""What a window may cover."""

PLANNED, RUNNING, ENDED, CANCELLED = "planned", "running", "ended", "cancelled"
STATUSES = (RUNNING, PLANNED, ENDED, CANCELLED)


class Window(AuthoredRow):
    """A time in which assets are worked on.

    scenario: empty for all of them; covers: of COVERS; filter: in the filter language, of names and
    labels alone; begin, end: from, to; planned_end: the end as it was before somebody ended the
    window early, who is `ended_by`; excluded: its time is left out of availability; held: no
    notification is sent while it runs; cancelled_at: it counts as if it had never been; begun_at:
    when its assets were stored, empty before; looked_at: when it was last looked which assets the
    filter finds; closed_at: when its end was noted; revision: rises with each change.
    """

    scenario = models.CharField(max_length=40, blank=True)
    name = models.CharField(max_length=MAX_WORK)
    why = models.CharField(max_length=MAX_WHY, blank=True)
    covers = models.CharField(max_length=8)
    filter = models.CharField(max_length=MAX_TEXT, blank=True)
    begin = models.BigIntegerField()
    end = models.BigIntegerField()
    planned_end = models.BigIntegerField()
    excluded = models.BooleanField(default=True)
    held = models.BooleanField(default=True)
    created_at = models.BigIntegerField()
    ended_by = models.CharField(max_length=150, blank=True)
    cancelled_at = models.BigIntegerField(null=True)
    cancelled_by = models.CharField(max_length=150, blank=True)
    begun_at = models.BigIntegerField(null=True)
    looked_at = models.BigIntegerField(null=True)
    closed_at = models.BigIntegerField(null=True)
    revision = models.IntegerField(default=1)

    class Meta:
        constraints = (
            models.CheckConstraint(condition=Q(begin__lt=F("end")), name="window_has_a_length"),
        )
        indexes = (
            Index(fields=["end"], name="windows_by_end"),
            Index(
                fields=["begin"],
                condition=Q(closed_at=None, cancelled_at=None),
                name="windows_to_come",
            ),
        )

    def __str__(self) -> str:
        return f"{self.name}: {self.begin} to {self.end}"

    def status(self, now: int) -> str:
        """Return which of STATUSES it has at `now` (Unix ms)."""
        if self.cancelled_at is not None:
            return CANCELLED
        if now < self.begin:
            return PLANNED
        return RUNNING if now < self.end else ENDED


class WindowAsset(AssetRow):
    """An asset that a window covers, from `begin` (0: the window's own) to `end` (empty: its own).

    Of a window that lists its assets they are there from the first. Of one with a filter they are
    stored when it begins, and followed while it runs; so labels that change later change no
    history.
    """

    window = models.ForeignKey(Window, models.CASCADE, related_name="assets")
    begin = models.BigIntegerField(default=0)
    end = models.BigIntegerField(null=True)

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["window", "scenario", "asset", "begin"], name="one_row_per_covering"
            ),
        )
        indexes = (Index(fields=["scenario", "asset"], name="windows_of_asset"),)


# ---- maintenance ---------------------------------------------------------------------------------
# Retention of maintenance windows: as long as the figures that they are left out of.

WINDOWS_KEPT_MS = 3650 * DAY_MS


def _delete(windows: QuerySet[Window]) -> int:
    """Delete windows, their assets a portion at a time before them. Returns how many windows."""
    for pk in list(windows.values_list("pk", flat=True)):
        delete_in_portions(WindowAsset.objects.filter(window=pk))
    return delete_rows(windows)


WINDOWS_KEPT = (Retention("maintenance windows", Window, "end", WINDOWS_KEPT_MS, delete=_delete),)

KEPT = (*INCIDENTS_KEPT, *WINDOWS_KEPT)
