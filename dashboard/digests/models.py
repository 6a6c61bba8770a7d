"""Subscriptions to digests, and what was sent. Times in Unix ms, days of the reporting zone."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Index, UniqueConstraint

from dashboard.core.models import ScenarioRow
from dashboard.core.retention import Retention
from dashboard.core.times import DAY_MS
from dashboard.notifications.models import new_token
from domain.history.periods import DAY, WEEK

EVERY = {DAY: "every day", WEEK: "every week"}
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class Subscription(ScenarioRow):
    """A user's subscription to the digest of a scenario.

    every: of EVERY; weekday: Monday 0, of a weekly one; hour: of the reporting zone; since: nothing
    that was due before it is sent; token: who knows it may end the subscription, without a login.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="digests")
    every = models.CharField(max_length=8)
    weekday = models.SmallIntegerField(default=0)
    hour = models.SmallIntegerField(default=7)
    since = models.BigIntegerField()
    token = models.CharField(max_length=32, default=new_token)

    class Meta:
        constraints = (
            UniqueConstraint(fields=["user", "scenario"], name="one_digest_per_scenario"),
        )


class Issue(models.Model):
    """A digest that was sent: of a day or week, which begins with `first`. late: how long after it
    was due, ms."""

    subscription = models.ForeignKey(Subscription, models.CASCADE, related_name="issues")
    every = models.CharField(max_length=8)
    first = models.DateField()
    at = models.BigIntegerField()
    late = models.BigIntegerField(default=0)

    class Meta:
        constraints = (
            UniqueConstraint(
                fields=["subscription", "every", "first"], name="one_issue_per_period"
            ),
        )
        indexes = (Index(fields=["at"], name="issues_by_age"),)

    def __str__(self) -> str:
        return f"{self.subscription_id}: {self.every} of {self.first}"


KEPT_MS = 400 * DAY_MS

KEPT = (Retention("digests that were sent", Issue, "at", KEPT_MS),)
