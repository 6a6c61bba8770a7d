"""What the job has told of itself. Times in Unix ms."""

from __future__ import annotations

from django.db import models


class BucketStatus(models.Model):
    """The newest heartbeat of one bucket; received_at: when it reached the database."""

    bucket = models.CharField(max_length=60, primary_key=True)
    scenario = models.CharField(max_length=40)
    partition = models.IntegerField()
    epoch = models.IntegerField()
    executor = models.CharField(max_length=200)
    host = models.CharField(max_length=255)
    log_time = models.BigIntegerField()
    offset = models.BigIntegerField()
    assets = models.BigIntegerField()
    dues = models.BigIntegerField()
    records = models.BigIntegerField()
    dead_letters = models.BigIntegerField()
    stale = models.BigIntegerField()
    engine = models.CharField(max_length=20)
    at = models.BigIntegerField()
    received_at = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.bucket} at {self.offset}"


class JobProgress(models.Model):
    """What the job said of a query, newest last; batch: Spark's own progress as JSON, or empty."""

    query = models.CharField(max_length=100)
    at = models.BigIntegerField()
    status = models.CharField(max_length=20)
    epoch = models.IntegerField()
    message = models.TextField(blank=True)
    restarts = models.IntegerField(default=0)
    batch = models.TextField(blank=True)

    class Meta:
        indexes = (models.Index(fields=["query", "-at"], name="progress_of_query"),)

    def __str__(self) -> str:
        return f"{self.query}: {self.status}"
