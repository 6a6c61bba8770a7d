"""Recounts that somebody asked for, and the hours they counted. Times in Unix ms."""

from __future__ import annotations

from django.db import models
from django.db.models import UniqueConstraint

from dashboard.core.models import ScenarioRow
from dashboard.core.retention import Retention
from dashboard.core.times import DAY_MS
from dashboard.job.models import RequestDetail


class Recount(ScenarioRow, RequestDetail):
    """A recount of a scenario's hours. id: of the request; totals: JSON, empty while under way."""

    since = models.BigIntegerField()
    until = models.BigIntegerField()
    zone = models.CharField(max_length=64)
    complete = models.BooleanField(default=False)
    totals = models.TextField(blank=True)


class CountedHour(models.Model):
    """What a recount makes of an hour: ms added up over assets, and incidents begun in it."""

    recount = models.ForeignKey(Recount, on_delete=models.CASCADE, related_name="hours")
    begin = models.BigIntegerField()
    good = models.BigIntegerField()
    bad = models.BigIntegerField()
    unconfirmed = models.BigIntegerField()
    maintenance = models.BigIntegerField()
    incidents = models.IntegerField()

    class Meta:
        constraints = (UniqueConstraint(fields=["recount", "begin"], name="one_count_per_hour"),)

    def __str__(self) -> str:
        return f"hour of {self.begin}"


KEPT_MS = 14 * DAY_MS
MOST_RECOUNTS = 30

KEPT = (Retention("recounts of summaries", Recount, "asked_at", KEPT_MS, MOST_RECOUNTS),)
