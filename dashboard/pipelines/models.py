"""The pipelines' reports of themselves. Times in Unix ms."""

from __future__ import annotations

from django.db import models


class PipelineStatus(models.Model):
    """The last report of one pipeline. record: a `wire.pipeline.PipelineProgress`, as JSON."""

    name = models.CharField(max_length=60, primary_key=True)
    at = models.BigIntegerField()
    status = models.CharField(max_length=20)
    record = models.TextField()

    def __str__(self) -> str:
        return f"{self.name}: {self.status}"
