"""Readings of the state store. Times in Unix ms."""

from __future__ import annotations

from django.db import models
from django.db.models import Index, UniqueConstraint

from dashboard.core.models import ScenarioRow
from dashboard.core.retention import Retention
from dashboard.core.times import DAY_MS
from dashboard.job.models import RequestDetail


class Reading(ScenarioRow, RequestDetail):
    """A requested reading, and, once it is complete, of which committed batch it came.

    id: of the request; partition, asset: None and empty where all are meant; after: names after
    this one; buckets: their clocks, offsets and rules, as JSON; cut: there are more assets.
    """

    partition = models.IntegerField(null=True)
    asset = models.CharField(max_length=255, blank=True)
    after = models.CharField(max_length=255, blank=True)
    complete = models.BooleanField(default=False)
    received_at = models.BigIntegerField(null=True)
    engine = models.CharField(max_length=20, blank=True)
    epoch = models.IntegerField(default=0)
    batch = models.BigIntegerField(default=0)
    committed_at = models.BigIntegerField(default=0)
    cut = models.BooleanField(default=False)
    buckets = models.TextField(default="[]")


class StoredRow(models.Model):
    """An asset as the state store has it, and how the database stood to it when it came.

    verdict: of `comparing.VERDICTS`; fields: in which they differ; record: StoredAsset as JSON,
    empty where the store has none; board: the database's record then, empty where it had none.
    """

    reading = models.ForeignKey(Reading, on_delete=models.CASCADE, related_name="rows")
    asset = models.CharField(max_length=255)
    partition = models.IntegerField()
    state = models.CharField(max_length=64, blank=True)
    verdict = models.CharField(max_length=20)
    fields = models.CharField(max_length=200, blank=True)
    version = models.CharField(max_length=60, blank=True)
    since = models.BigIntegerField(null=True)
    votes = models.IntegerField(default=0)
    due = models.BigIntegerField(null=True)
    board_state = models.CharField(max_length=64, blank=True)
    board_version = models.CharField(max_length=60, blank=True)
    record = models.TextField(blank=True)
    board = models.TextField(blank=True)

    class Meta:
        constraints = (UniqueConstraint(fields=["reading", "asset"], name="one_row_per_reading"),)
        indexes = (Index(fields=["reading", "verdict", "asset"], name="rows_by_verdict"),)

    def __str__(self) -> str:
        return f"{self.asset}: {self.verdict}"


KEPT_MS = 3 * DAY_MS
MOST_READINGS = 5

KEPT = (Retention("readings of the state store", Reading, "asked_at", KEPT_MS, MOST_READINGS),)
