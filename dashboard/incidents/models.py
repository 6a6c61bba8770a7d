"""Incidents as the database has them. Times in Unix ms of the broker's clock."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q, QuerySet

from dashboard.core.models import AssetRow
from dashboard.core.overlap import length_class, length_index
from dashboard.states.models import PLACE
from domain.names import MAX_STATE


class Incident(AssetRow):
    """An asset's unbroken time outside its good states.

    place: of the change that began it, so that a rebuild finds its own incidents again; state: the
    newest of its states that is not good; worst: the most severe of them; changes: how many changes
    of a state it has, its beginning included; ended_at: empty while it goes on; acknowledged_*: of
    the first acknowledgement during it.
    """

    place = models.CharField(max_length=PLACE)
    began_at = models.BigIntegerField()
    ended_at = models.BigIntegerField(null=True)
    state = models.CharField(max_length=MAX_STATE)
    worst = models.CharField(max_length=MAX_STATE)
    changes = models.IntegerField(default=1)
    acknowledged_at = models.BigIntegerField(null=True)
    acknowledged_by = models.CharField(max_length=150, blank=True)
    length_class = length_class("began_at", "ended_at")

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["scenario", "asset", "place"], name="one_incident_per_place"
            ),
        )
        indexes = (
            models.Index(
                fields=["scenario", "asset"],
                condition=Q(ended_at=None),
                name="incidents_open",
            ),
            models.Index(fields=["scenario", "began_at"], name="incidents_by_begin"),
            models.Index(fields=["began_at", "id"], name="incidents_newest"),
            models.Index(fields=["scenario", "ended_at"], name="incidents_by_end"),
            length_index("began_at", "ended_at", "incidents_by_length"),
        )


def real() -> QuerySet[Incident]:
    """Return the incidents that lasted; those that a rebuild did not find again have no length."""
    return Incident.objects.exclude(ended_at=F("began_at"))
