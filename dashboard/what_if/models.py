"""Rules tried on the log, and what they would have made of it. Times in Unix ms."""

from __future__ import annotations

from django.db import models
from django.db.models import Index, UniqueConstraint

from dashboard.core.models import ScenarioRow
from dashboard.core.retention import Retention
from dashboard.core.times import DAY_MS
from dashboard.job.models import RequestDetail
from wire.job import MAX_REASON


class Trial(ScenarioRow, RequestDetail):
    """A rule that somebody tries. id: of the request; keys: its changes, as TOML; totals: JSON."""

    since = models.BigIntegerField()
    keys = models.TextField()
    reason = models.CharField(max_length=MAX_REASON, blank=True)
    complete = models.BooleanField(default=False)
    totals = models.TextField(blank=True)


class Fared(models.Model):
    """An asset that would have fared otherwise. place: most different first; record: as JSON."""

    trial = models.ForeignKey(Trial, on_delete=models.CASCADE, related_name="fared")
    place = models.IntegerField()
    asset = models.CharField(max_length=255)
    gained = models.IntegerField()
    lost = models.IntegerField()
    earlier = models.IntegerField()
    later = models.IntegerField()
    shift = models.BigIntegerField()
    record = models.TextField()

    class Meta:
        constraints = (UniqueConstraint(fields=["trial", "asset"], name="one_row_per_trial"),)
        indexes = (Index(fields=["trial", "place"], name="fared_in_order"),)

    def __str__(self) -> str:
        return f"{self.asset}: {self.gained} gained, {self.lost} lost"


KEPT_MS = 14 * DAY_MS
MOST_TRIALS = 30

KEPT = (Retention("trials of a rule", Trial, "asked_at", KEPT_MS, MOST_TRIALS),)
