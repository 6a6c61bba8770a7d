"""Replays that were requested, and what reconcile found at their end. Times in Unix ms."""

from __future__ import annotations

from django.db import models

from dashboard.core.retention import Retention
from dashboard.core.times import DAY_MS
from dashboard.job.models import RequestDetail
from wire.job import MAX_REASON

WAITING, RUNNING, DONE, FAILED = "", "running", "done", "failed"
"""How far the reconcile at a replay's end has come."""


class Replay(RequestDetail):
    """A reset or rebuild of a query; its progress is that of the request with the same id.

    scenario: the one that it was for, empty: all; start: where it was to begin, in words; whole:
    whether it comes to the same states as the whole log; epoch: the query's before; plan: its
    buckets as JSON. reconcile and what follows: the comparison at its end; `trouble`: why it could
    not judge, or the first differences.
    """

    scenario = models.CharField(max_length=40, blank=True)
    start = models.CharField(max_length=200)
    reason = models.CharField(max_length=MAX_REASON)
    whole = models.BooleanField()
    epoch = models.IntegerField()
    plan = models.TextField()
    reconcile = models.CharField(max_length=10, blank=True, default=WAITING)
    started_at = models.BigIntegerField(null=True)
    ended_at = models.BigIntegerField(null=True)
    records = models.BigIntegerField(null=True)
    compared = models.BigIntegerField(null=True)
    unjudged = models.BigIntegerField(null=True)
    differences = models.BigIntegerField(null=True)
    trouble = models.TextField(blank=True, default="")

    def __str__(self) -> str:
        return f"{self.query} from {self.start}"


KEPT_MS = 90 * DAY_MS

KEPT = (Retention("replays", Replay, "asked_at", KEPT_MS),)
