"""Labels as the database keeps them. Times in Unix ms."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Index, Q, UniqueConstraint

from dashboard.core.models import AssetRow, ScenarioRow

MAX_KEY = 32
"""Longest key of a label, characters."""
MAX_VALUE = 100
"""Longest value of a label, characters."""

PERSON, AGENT = "person", "agent"
"""Who a label may come from; a person's is shown rather than an agent's."""


class Label(AssetRow):
    """A label that people, or an asset's agents, give it under one key.

    source: `person` or `agent`; name: of that user or agent; shown: false only where a person's
    label of the same key stands before it.
    """

    key = models.CharField(max_length=MAX_KEY)
    value = models.CharField(max_length=MAX_VALUE)
    source = models.CharField(max_length=10)
    name = models.CharField(max_length=255)
    at = models.BigIntegerField()
    shown = models.BooleanField(default=True)

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["scenario", "asset", "key", "source"], name="one_label_per_source"
            ),
        )
        indexes = (
            Index(
                fields=["scenario", "key", "value", "asset"],
                condition=Q(shown=True),
                name="labels_found",
            ),
            Index(
                fields=["scenario", "asset"], condition=Q(source="agent"), name="labels_of_agents"
            ),
        )


class LabelChange(models.Model):
    """The number of changes of a scenario's labels: who keeps some of them looks at it.

    chips: the keys that the board shows, in their order, parted by commas.
    """

    scenario = models.CharField(max_length=40, unique=True)
    n = models.BigIntegerField(default=0)
    chips = models.CharField(max_length=3 * MAX_KEY + 2, blank=True)

    def __str__(self) -> str:
        return f"{self.scenario}: {self.n}"


READING, COMPARING, REVIEW, APPLYING = "reading", "comparing", "review", "applying"
DONE, CANCELLED, UNREADABLE = "done", "cancelled", "unreadable"
STOPPED = "stopped"
"""Who had it applied may not any more; whoever takes it over has the rest applied."""
STATUSES = {
    READING: "Reading the file",
    COMPARING: "Comparing it with the present labels",
    REVIEW: "To be confirmed",
    APPLYING: "Applying",
    STOPPED: "Stopped",
    DONE: "Done",
    CANCELLED: "Cancelled",
    UNREADABLE: "Not a table",
}
"""Of a table that somebody has sent."""
OPEN = (READING, COMPARING, APPLYING)
"""There is something to do."""
BEGUN = (APPLYING, STOPPED, DONE, CANCELLED)
"""It has been applied, or a part of it."""


class LabelUpload(ScenarioRow):
    """A label file that somebody has sent: read, compared, looked at, applied.

    name: of its file; data: the file until it is read; labels and assets: how many it is about;
    read: what its lines came to (`ImportCounts`, as JSON); portion: the next one to be compared or
    applied; done: labels that have been; found: what that came to; trouble: what holds it up, why
    it is no table, or why it is stopped; actor: who had it applied, in whose name it goes on;
    moved_at: when a portion was done last.
    """

    id = models.UUIDField(primary_key=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="label_uploads")
    name = models.CharField(max_length=255)
    status = models.CharField(max_length=10, default=READING)
    labels = models.IntegerField(default=0)
    assets = models.IntegerField(default=0)
    portion = models.IntegerField(default=0)
    done = models.IntegerField(default=0)
    actor = models.JSONField(default=dict)
    sent_at = models.BigIntegerField()
    started_at = models.BigIntegerField()
    moved_at = models.BigIntegerField()
    ended_at = models.BigIntegerField(null=True)
    trouble = models.CharField(max_length=300, blank=True)
    read = models.TextField(default="{}")
    found = models.TextField(default="{}")
    data = models.BinaryField(null=True)

    class Meta:
        indexes = (
            Index(fields=["sent_at"], condition=Q(status__in=OPEN), name="label_uploads_open"),
        )


class LabelPortion(models.Model):
    """A part of a table, of which each asset is in one: applied whole or not at all.

    wanted: by asset and key the value, or null, and the line, as JSON; labels: how many.
    """

    upload = models.ForeignKey(LabelUpload, models.CASCADE, related_name="portions")
    number = models.IntegerField()
    labels = models.IntegerField()
    wanted = models.TextField()

    class Meta:
        constraints = (UniqueConstraint(fields=["upload", "number"], name="one_label_portion"),)

    def __str__(self) -> str:
        return f"{self.upload_id}/{self.number}"
