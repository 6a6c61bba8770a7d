"""Labels as the database keeps them. Times in Unix ms."""

from __future__ import annotations

from django.conf import settings
from django.db import models

MAX_KEY = 32
"""Longest key of a label, characters."""
MAX_VALUE = 100
"""Longest value of a label, characters."""

PERSON, AGENT = "person", "agent"
"""Who a label may come from; a person's is shown rather than an agent's."""


class Label(models.Model):
    """What people, or an asset's agents, say of it under one key.

    source: `person` or `agent`; name: of that user or agent; shown: false only where a person's
    label of the same key stands before it.
    """

    scenario = models.CharField(max_length=40)
    asset = models.CharField(max_length=255)
    key = models.CharField(max_length=MAX_KEY)
    value = models.CharField(max_length=MAX_VALUE)
    source = models.CharField(max_length=10)
    name = models.CharField(max_length=255)
    at = models.BigIntegerField()
    shown = models.BooleanField(default=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["scenario", "asset", "key", "source"], name="one_label_per_source"
            ),
        )
        indexes = (
            models.Index(
                fields=["scenario", "key", "value", "asset"],
                condition=models.Q(shown=True),
                name="labels_found",
            ),
            models.Index(
                fields=["scenario", "asset"],
                condition=models.Q(source="agent"),
                name="labels_of_agents",
            ),
        )

    def __str__(self) -> str:
        return f"{self.scenario}/{self.asset}: {self.key}={self.value}"


class LabelChange(models.Model):
    """How often a scenario's labels have changed: who keeps some of them looks at it.

    chips: the keys that the board shows, in their order, parted by commas.
    """

    scenario = models.CharField(max_length=40, unique=True)
    n = models.BigIntegerField(default=0)
    chips = models.CharField(max_length=3 * MAX_KEY + 2, blank=True)

    def __str__(self) -> str:
        return f"{self.scenario}: {self.n}"


class LabelUpload(models.Model):
    """A table of labels that somebody has sent and not applied yet; a user's newest alone is kept.

    wanted: by asset and key the value, or null, as JSON; refused: lines of the file and why not.
    """

    id = models.UUIDField(primary_key=True)
    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE)
    scenario = models.CharField(max_length=40)
    at = models.BigIntegerField()
    wanted = models.TextField()
    refused = models.TextField()

    def __str__(self) -> str:
        return f"{self.scenario}: {self.id}"
