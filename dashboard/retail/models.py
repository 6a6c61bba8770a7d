"""Sums of invoices, and the records counted in them. Times in Unix ms, money in cents."""

from __future__ import annotations

from django.db import models
from django.db.models import Index, UniqueConstraint

from dashboard.core.common.retention import Retention
from dashboard.core.common.times import DAY_MS
from wire.invoice import MAX_NAME, MAX_TITLE

KEPT_MS = 2 * DAY_MS
"""How long sums and the records in them are kept, since the page shows today. Older records are not
counted when they are read again."""


class CountedRecord(models.Model):
    """A record counted in the sums: a line of an invoice, or its points. at: when it was sold."""

    key = models.CharField(max_length=MAX_NAME + 12, primary_key=True)
    at = models.BigIntegerField()

    class Meta:
        indexes = (Index(fields=["at"], name="counted_records_by_age"),)

    def __str__(self) -> str:
        return self.key


class StoreHour(models.Model):
    """What a store sold in an hour. prime, delivered, returns: how many invoices are of PRIME
    customers, are delivered, and take goods back; revenue: net of refunds; returned: the refunds.
    """

    begin = models.BigIntegerField()
    store = models.CharField(max_length=MAX_NAME)
    invoices = models.IntegerField()
    lines = models.IntegerField()
    revenue = models.BigIntegerField()
    prime = models.IntegerField()
    delivered = models.IntegerField()
    returns = models.IntegerField(default=0)
    returned = models.BigIntegerField(default=0)

    class Meta:
        constraints = (UniqueConstraint(fields=["begin", "store"], name="one_hour_per_store"),)

    def __str__(self) -> str:
        return f"{self.store} at {self.begin}"


class ProductDay(models.Model):
    """What was sold of a product in a day; product: empty for products beyond the most kept."""

    begin = models.BigIntegerField()
    product = models.CharField(max_length=MAX_NAME, blank=True)
    title = models.CharField(max_length=MAX_TITLE, blank=True)
    pieces = models.BigIntegerField()
    revenue = models.BigIntegerField()

    class Meta:
        constraints = (UniqueConstraint(fields=["begin", "product"], name="one_day_per_product"),)

    def __str__(self) -> str:
        return f"{self.product} at {self.begin}"


class PointsHour(models.Model):
    """The points earned with the invoices of an hour, less those that returns took back."""

    begin = models.BigIntegerField(primary_key=True)
    points = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.points} at {self.begin}"


KEPT = (
    Retention("invoices that are in the sums", CountedRecord, "at", KEPT_MS),
    Retention("sales of stores by the hour", StoreHour, "begin", KEPT_MS),
    Retention("sales of products by the day", ProductDay, "begin", KEPT_MS),
    Retention("points earned by the hour", PointsHour, "begin", KEPT_MS),
)
