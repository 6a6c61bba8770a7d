"""The entries of the audit. Nothing may change one; the database itself refuses."""

from __future__ import annotations

from django.db import models
from django.db.models import Index

from dashboard.core.common.extension_point import Provider
from dashboard.core.common.retention import Thinning
from dashboard.core.common.times import DAY_MS


class AuditEntry(models.Model):
    """An action and who carried it out. Numbers rise by one without gaps; each entry holds the
    digest of the one before, so that a change or a gap is detected.

    at: Unix ms. user_id, name, role: as they were at the time; the user may be gone by now. source:
    page, token (`token` is its prefix), system, or command line. facts: a JSON object. previous,
    digest: SHA-256 of the previous entry, and of this one including `previous`.
    """

    number = models.BigIntegerField(primary_key=True)
    at = models.BigIntegerField(db_index=True)
    user_id = models.BigIntegerField(null=True)
    name = models.CharField(max_length=150)
    role = models.CharField(max_length=20, blank=True)
    source = models.CharField(max_length=20)
    token = models.CharField(max_length=8, blank=True)
    address = models.CharField(max_length=45, blank=True)
    action = models.CharField(max_length=40)
    scenario = models.CharField(max_length=40, blank=True)
    target = models.CharField(max_length=255, blank=True)
    outcome = models.CharField(max_length=100)
    facts = models.TextField(default="{}")
    previous = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)

    class Meta:
        indexes = [
            Index(fields=["name", "number"], name="audit_by_name"),
            Index(fields=["action", "number"], name="audit_by_action"),
            Index(fields=["target", "number"], name="audit_by_target"),
        ]

    def __str__(self) -> str:
        return f"{self.number}: {self.action} by {self.name}"


KEPT_DAYS = 400
"""Entries older than this, by the database's clock, may be deleted; nothing else may."""
KEPT_MS = KEPT_DAYS * DAY_MS

pruning: Provider[[int], int] = Provider(lambda _now: 0)
"""Deletes the entries past their time (now: Unix ms), records that, and returns how many."""

KEPT = (Thinning("audit", pruning, KEPT_MS),)
