"""The database's progress in the logs, the faults found, and snapshots of the fold. Times in ms."""

from __future__ import annotations

from django.db import models
from django.db.models import UniqueConstraint

from dashboard.core.models import AssetRow, ScenarioRow


class SinkOffset(models.Model):
    """The next offset to read of a sink partition, written with what was read before it."""

    topic = models.CharField(max_length=249)
    partition = models.IntegerField()
    next_offset = models.BigIntegerField()

    class Meta:
        constraints = (
            UniqueConstraint(fields=["topic", "partition"], name="one_offset_per_partition"),
        )

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}: {self.next_offset}"


class Counted(models.Model):
    """The number of times something has happened in the materialiser, written with what it happened
    to.

    Stored here, as that process serves no metrics: a web process reports them, and they go on
    through restarts. topic: the one that they concern, or empty.
    """

    name = models.CharField(max_length=40)
    topic = models.CharField(max_length=249, blank=True)
    n = models.BigIntegerField()

    class Meta:
        constraints = (
            UniqueConstraint(fields=["name", "topic"], name="one_count_per_name_and_topic"),
        )

    def __str__(self) -> str:
        return f"{self.name} {self.topic}: {self.n}"


class LogBound(models.Model):
    """The bounds on append times with which the job folds a bucket's log: see domain/bounds.py.

    pairs: as JSON; epoch: the newest one that reported them; asides: first and last offsets of what
    was set aside, as JSON: see domain/quarantine.py.
    """

    bucket = models.CharField(max_length=60, primary_key=True)
    epoch = models.IntegerField()
    pairs = models.TextField()
    asides = models.TextField(default="[]", db_default="[]")

    def __str__(self) -> str:
        return f"{self.bucket}: {self.pairs}"


class FoldSnapshot(ScenarioRow):
    """The plain-Python fold of a bucket up to `next_offset`, its rule included, as a file.

    bounds: those on append times with which it was folded, as JSON; asides: what it left out.
    """

    partition = models.IntegerField()
    next_offset = models.BigIntegerField()
    clock = models.BigIntegerField()
    taken_at = models.BigIntegerField()
    file = models.CharField(max_length=255)
    assets = models.BigIntegerField()
    digest = models.CharField(max_length=64)
    bounds = models.TextField(default="[]", db_default="[]")
    asides = models.TextField(default="[]", db_default="[]")

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["scenario", "partition", "next_offset"], name="one_snapshot_per_offset"
            ),
        )


class Divergence(AssetRow):
    """Two records of the same version with other content: must not happen."""

    version = models.CharField(max_length=40)
    kept = models.TextField()
    other = models.TextField()
    found_at = models.BigIntegerField()

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["scenario", "asset", "version"], name="one_divergence_per_version"
            ),
        )
