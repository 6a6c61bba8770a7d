"""Commands that were sent here: who, when, why, and what became of them. Times in Unix ms."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Index

from dashboard.core.models import AssetRow


class Command(AssetRow):
    """A command. status: sending, sent (it is in the log), unsent (it is not), answered.

    partition and offset: its place in the source topic; version: of the state record that answered
    it, sortable. form: what its form held besides, as JSON, should it be shown again; details: what
    a command about a task says of it, as JSON.
    """

    id = models.UUIDField(primary_key=True)
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
    details = models.TextField(blank=True, default="")

    class Meta:
        indexes = (Index(fields=["scenario", "asset", "-created_at"], name="commands_of_asset"),)
