"""Rules tried on the log, and what they would have made of it. Times in Unix ms."""

from __future__ import annotations

from django.db import models

from wire.job import MAX_ID, MAX_REASON, MAX_USER


class Trial(models.Model):
    """A rule that somebody tries. id: of the request; keys: its changes, as TOML; totals: JSON."""

    id = models.UUIDField(primary_key=True)
    scenario = models.CharField(max_length=40)
    query = models.CharField(max_length=MAX_ID)
    since = models.BigIntegerField()
    keys = models.TextField()
    reason = models.CharField(max_length=MAX_REASON, blank=True)
    username = models.CharField(max_length=MAX_USER)
    asked_at = models.BigIntegerField(db_index=True)
    complete = models.BooleanField(default=False)
    totals = models.TextField(blank=True)

    def __str__(self) -> str:
        return f"{self.scenario} since {self.since}"


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
        constraints = (
            models.UniqueConstraint(fields=["trial", "asset"], name="one_row_per_trial"),
        )
        indexes = (models.Index(fields=["trial", "place"], name="fared_in_order"),)

    def __str__(self) -> str:
        return f"{self.asset}: {self.gained} gained, {self.lost} lost"
