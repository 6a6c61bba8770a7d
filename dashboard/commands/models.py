"""Commands that were sent here: who, when, why, and what became of them. Times in Unix ms."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class Command(models.Model):
    """A command. status: sending, sent (it is in the log), unsent (it is not), answered.

    partition and offset: its place in the source topic; version: of the state record that answered
    it, sortable. form: what its form held besides, as JSON, should it be shown again.
    """

    id = models.UUIDField(primary_key=True)
    scenario = models.CharField(max_length=40)
    asset = models.CharField(max_length=255)
    kind = models.CharField(max_length=10)
    state = models.CharField(max_length=64, blank=True)
    until = models.BigIntegerField(null=True, blank=True)
    reason = models.CharField(max_length=500, blank=True)
    if_version = models.CharField(max_length=64, blank=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="commands"
    )
    username = models.CharField(max_length=150)
    source = models.CharField(max_length=10)
    created_at = models.BigIntegerField()
    status = models.CharField(max_length=10, default="sending")
    partition = models.IntegerField(null=True, blank=True)
    offset = models.BigIntegerField(null=True, blank=True)
    outcome = models.CharField(max_length=300, blank=True)
    version = models.CharField(max_length=40, blank=True)
    answered_at = models.BigIntegerField(null=True, blank=True)
    form = models.TextField(blank=True, default="")

    class Meta:
        indexes = (
            models.Index(fields=["scenario", "asset", "-created_at"], name="commands_of_asset"),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.scenario}/{self.asset} by {self.username}"
