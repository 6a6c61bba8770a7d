"""Maintenance windows as the database has them. Times in Unix ms."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Index, Q, UniqueConstraint

from dashboard.annotations.models import MAX_WORK
from dashboard.core.models import AssetRow, AuthoredRow
from dashboard.filter_language.parser import MAX_TEXT

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
