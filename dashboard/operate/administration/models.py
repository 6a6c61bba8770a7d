"""Scenarios' own retention periods, and what the last retention runs left."""

from __future__ import annotations

from django.db import models
from django.db.models import UniqueConstraint

from dashboard.core.common.models import AuthoredRow, ScenarioRow

MAX_KEY = 100


class PeriodQuerySet(models.QuerySet["Period"]):
    """Retention periods that scenarios have in place of the default."""

    def of_kind(self, key: str) -> PeriodQuerySet:
        """Return the periods for one kind of rows."""
        return self.filter(key=key)

    def by_scenario(self) -> dict[str, int]:
        """Return how long each scenario keeps its rows, ms."""
        return dict(self.values_list("scenario", "kept_ms"))


class Period(ScenarioRow, AuthoredRow):
    """How long a scenario keeps rows of a kind, instead of the default. key: of `Retention`."""

    key = models.CharField(max_length=MAX_KEY)
    kept_ms = models.BigIntegerField()
    at = models.BigIntegerField()

    objects = PeriodQuerySet.as_manager()

    class Meta:
        constraints = (UniqueConstraint(fields=["key", "scenario"], name="one_period_per_kind"),)


class Remainder(ScenarioRow):
    """What the last run left of a kind: for a scenario, or for all (empty).

    what: as declared; oldest: the time of the oldest row, Unix ms; deleted: by that run; fault: why
    the run could not delete, or empty.
    """

    what = models.CharField(max_length=MAX_KEY)
    rows = models.BigIntegerField(default=0)
    oldest = models.BigIntegerField(null=True)
    deleted = models.BigIntegerField(default=0)
    at = models.BigIntegerField()
    took_ms = models.IntegerField(default=0)
    fault = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints = (
            UniqueConstraint(fields=["what", "scenario"], name="one_remainder_per_kind"),
        )
