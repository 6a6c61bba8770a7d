"""Scheduled tasks as the newest records of their assets tell of them. Times in Unix ms."""

from __future__ import annotations

from django.db import models
from django.db.models import Index, Q, UniqueConstraint

from dashboard.core.models import AssetRow
from domain.names import MAX_STATE

DONE, CANCELLED, PURGED, LEFT = "done", "cancelled", "purged", "left"
ENDINGS = {
    DONE: "ran for the last time",
    CANCELLED: "cancelled",
    PURGED: "its asset was purged",
    LEFT: "ended",
}
"""How a task ends; it is `left` where the asset left the state that it was for."""


class ScheduledTask(AssetRow):
    """A task of an asset.

    task: its id; do: one of the fold's actions; state: what it sets; condition: the state in which
    the asset must be then; next_at: of the next run, empty once it is over; every: ms; times: runs
    left; owner: in whose name it runs; outcome, ran_at: of the last run; aside: why it does not run
    under the rule in force; ended_at, ending: when it was over, and how, of ENDINGS.
    """

    task = models.UUIDField()
    do = models.CharField(max_length=10)
    state = models.CharField(max_length=MAX_STATE, blank=True)
    condition = models.CharField(max_length=MAX_STATE, blank=True)
    next_at = models.BigIntegerField(null=True)
    every = models.BigIntegerField(null=True)
    until = models.BigIntegerField(null=True)
    times = models.BigIntegerField(null=True)
    owner = models.CharField(max_length=255)
    reason = models.CharField(max_length=500, blank=True)
    outcome = models.CharField(max_length=40, blank=True)
    ran_at = models.BigIntegerField(null=True)
    aside = models.CharField(max_length=200, blank=True)
    ended_at = models.BigIntegerField(null=True)
    ending = models.CharField(max_length=10, blank=True)

    class Meta:
        constraints = (
            UniqueConstraint(fields=["scenario", "asset", "task"], name="one_row_per_task"),
        )
        indexes = (
            Index(fields=["scenario", "asset"], condition=Q(ended_at=None), name="schedules_open"),
            Index(fields=["next_at"], condition=Q(ended_at=None), name="schedules_by_next"),
            Index(fields=["ended_at"], name="schedules_by_end"),
        )
