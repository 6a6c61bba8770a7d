"""Filters that people keep. Times in Unix ms."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Index, Q, UniqueConstraint

from dashboard.core.models import ScenarioRow
from dashboard.filter_language.parser import MAX_TEXT

MAX_TITLE = 60
"""Longest name of a filter, characters."""


class SavedFilter(ScenarioRow):
    """A filter under a name, of one user and one scenario.

    text: in the filter language, the states of the board's buttons included; shared: everybody
    sees it, with its owner's name; default: its owner's board begins with it.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="filters")
    title = models.CharField(max_length=MAX_TITLE)
    text = models.CharField(max_length=MAX_TEXT)
    shared = models.BooleanField(default=False)
    default = models.BooleanField(default=False)
    at = models.BigIntegerField()

    class Meta:
        constraints = (
            UniqueConstraint(fields=["user", "scenario", "title"], name="one_filter_per_title"),
            UniqueConstraint(
                fields=["user", "scenario"], condition=Q(default=True), name="one_default_filter"
            ),
        )
        indexes = (
            Index(fields=["scenario", "title"], condition=Q(shared=True), name="shared_filters"),
        )
