"""What summaries rest on, their sums, and subscriptions to digests. Times in Unix ms."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Index, Q, UniqueConstraint

from dashboard.core.common.models import AssetRow, ScenarioRow, length_class, length_index
from dashboard.core.common.retention import Retention, Thinning, delete_in_portions
from dashboard.core.common.times import DAY_MS, utc_datetime
from dashboard.core.states.models import HISTORY_KEPT_MS, PLACE
from dashboard.notify.notifications.models import new_token
from domain.history.periods import DAY, WEEK
from domain.names import MAX_STATE

# ---- summaries -----------------------------------------------------------------------------------
# What summaries rest on: spans of raw history, their sums, and what they are measured by.
#
# Times in Unix ms, durations in ms, days as their number from 1 January of year 1 on.

# ---- raw history --------------------------------------------------------------------------------


class SpanRow(AssetRow):
    """An unbroken time of an asset. place, end_place: of the records in the log that began and
    ended it, so that a rebuild finds its own spans again; end: empty while it goes on."""

    place = models.CharField(max_length=PLACE)
    begin = models.BigIntegerField()
    end = models.BigIntegerField(null=True)
    end_place = models.CharField(max_length=PLACE, blank=True)

    class Meta:
        abstract = True


class Presence(SpanRow):
    """A time from an asset's first state to its purge."""

    class Meta:
        constraints = (
            UniqueConstraint(fields=["scenario", "asset", "place"], name="one_presence_per_place"),
        )
        indexes = (
            Index(fields=["scenario", "begin"], name="presence_begin"),
            Index(fields=["scenario", "end"], name="presence_end"),
            Index(fields=["scenario", "asset"], condition=Q(end=None), name="presence_open"),
        )


class ImpairedSpan(SpanRow):
    """A time in one state that is not good, or that is unconfirmed, whichever it is.

    Whether a state is good is decided by the rule of the time at which the span began.
    """

    state = models.CharField(max_length=MAX_STATE)
    unconfirmed = models.BooleanField()
    length_class = length_class("begin", "end")

    class Meta:
        constraints = (
            UniqueConstraint(fields=["scenario", "asset", "place"], name="one_impaired_per_place"),
        )
        indexes = (
            Index(fields=["scenario", "begin"], name="impaired_begin"),
            Index(fields=["begin", "id"], name="impaired_newest"),
            length_index("begin", "end", "impaired_length"),
            Index(fields=["scenario", "end"], name="impaired_end"),
            Index(fields=["scenario", "asset"], condition=Q(end=None), name="impaired_open"),
        )


class Alarm(SpanRow):
    """A time in which a worse state was pending. state: the newest that was; came_true: whether the
    asset was in that state, or in one as severe, when it ended; empty while it goes on."""

    state = models.CharField(max_length=MAX_STATE)
    came_true = models.BooleanField(null=True)

    class Meta:
        constraints = (
            UniqueConstraint(fields=["scenario", "asset", "place"], name="one_alarm_per_place"),
        )
        indexes = (
            Index(fields=["scenario", "end"], name="alarm_end"),
            Index(fields=["begin", "id"], name="alarm_newest"),
            Index(fields=["scenario", "asset"], condition=Q(end=None), name="alarm_open"),
        )


class Gap(ScenarioRow):
    """A time in which the database heard nothing of the job about a scenario: from the last
    heartbeat before it to the first after it."""

    begin = models.BigIntegerField()
    end = models.BigIntegerField()

    class Meta:
        constraints = (UniqueConstraint(fields=["scenario", "begin"], name="one_gap_per_begin"),)
        indexes = (Index(fields=["end"], name="summary_gap_age"),)


# ---- sums ---------------------------------------------------------------------------------------


class Progress(ScenarioRow):
    """How far a scenario's history is summed up.

    summed_to: the hours before it are; dirty_since: from here on history is other than it was
    summed up; taken_since: from here on it is being summed up again; turn: how often that was
    begun, so that who was overtaken writes nothing; answered_to: the answers that take long are
    kept with the hours before it.
    """

    summed_to = models.BigIntegerField(null=True)
    dirty_since = models.BigIntegerField(null=True)
    taken_since = models.BigIntegerField(null=True)
    turn = models.BigIntegerField(default=0)
    answered_to = models.BigIntegerField(null=True)

    class Meta:
        constraints = (UniqueConstraint(fields=["scenario"], name="one_progress_per_scenario"),)


class HourRow(ScenarioRow):
    """The sums of an hour of the reporting zone. slot: 24 times the weekday (Monday 0) plus the
    hour; present: assets on the board when it ended; incidents: incidents that began in it;
    false_alarms: alarms that ended in it and did not come true."""

    begin = models.BigIntegerField()
    end = models.BigIntegerField()
    day = models.IntegerField()
    slot = models.SmallIntegerField()
    present = models.IntegerField()
    good = models.BigIntegerField()
    bad = models.BigIntegerField()
    unconfirmed = models.BigIntegerField()
    maintenance = models.BigIntegerField()
    incidents = models.IntegerField()
    false_alarms = models.IntegerField()

    class Meta:
        constraints = (UniqueConstraint(fields=["scenario", "begin"], name="one_row_per_hour"),)
        indexes = (Index(fields=["end"], name="summary_hour_age"),)


class AssetDay(AssetRow):
    """The sums of an asset and a day of the reporting zone, where it was not good all the time.
    service_*: of the hours that were service hours when it was summed up."""

    day = models.IntegerField()
    bad = models.BigIntegerField()
    unconfirmed = models.BigIntegerField()
    maintenance = models.BigIntegerField()
    service_bad = models.BigIntegerField()
    service_unconfirmed = models.BigIntegerField()
    service_maintenance = models.BigIntegerField()

    class Meta:
        constraints = (
            UniqueConstraint(fields=["scenario", "asset", "day"], name="one_row_per_asset_day"),
        )
        indexes = (
            Index(fields=["scenario", "day"], name="summary_days"),
            Index(fields=["day"], name="summary_day_age"),
        )


class KeptSum(models.Model):
    """A sum of whole hours that takes long, kept until something in it changes.

    key: what was asked; scenarios: their names between commas; begin, end: of its time; data: JSON.
    """

    key = models.CharField(max_length=400, unique=True)
    scenarios = models.CharField(max_length=1_000)
    begin = models.BigIntegerField()
    end = models.BigIntegerField()
    computed_at = models.BigIntegerField()
    data = models.TextField()

    class Meta:
        indexes = (Index(fields=["computed_at"], name="kept_sum_age"),)

    def __str__(self) -> str:
        return self.key


# ---- what is measured by ------------------------------------------------------------------------


class Target(ScenarioRow):
    """What a scenario's availability should be. percent: empty for none; hours: for each weekday,
    Monday first, the hours (0 to 23 of the reporting zone) in which it matters; [] for all."""

    percent = models.FloatField(null=True)
    hours = models.JSONField(default=list)

    class Meta:
        constraints = (UniqueConstraint(fields=["scenario"], name="one_target_per_scenario"),)


class ReportingZone(models.Model):
    """The zone whose days, weeks and hours are counted: one row, or none for UTC.

    name: of the IANA database."""

    name = models.CharField(max_length=64)

    def __str__(self) -> str:
        return self.name


# ---- summaries -----------------------------------------------------------------------------------
# Retention: raw history of summaries as long as the changes, their sums for years.

SUMS_KEPT_MS = 3_653 * DAY_MS
KEPT_SUMS_MS = 14 * DAY_MS
"""Kept sums are made again when they are asked for."""


def raw_edge(now: int) -> int:
    """Return the time from which on raw history is whole, Unix ms, as of `now`."""
    return now - HISTORY_KEPT_MS


def delete_old_days(now: int) -> int:
    """Delete the sums of assets and days that are too old at `now` (Unix ms). Returns how many."""
    edge = utc_datetime(now - SUMS_KEPT_MS).date().toordinal()
    return delete_in_portions(AssetDay.objects.filter(day__lt=edge))


KEPT = (
    Retention("spans of bad and unconfirmed time", ImpairedSpan, "end", HISTORY_KEPT_MS),
    Retention("spans of time on the board", Presence, "end", HISTORY_KEPT_MS),
    Retention("pending states that came true or not", Alarm, "end", HISTORY_KEPT_MS),
    Retention("sums by the hour", HourRow, "end", SUMS_KEPT_MS, by_scenario=True),
    Retention("times in which nothing was heard of the job", Gap, "end", SUMS_KEPT_MS),
    Thinning("sums by asset and day", delete_old_days, SUMS_KEPT_MS),
    Retention("kept answers of summaries", KeptSum, "computed_at", KEPT_SUMS_MS),
)


# ---- digests -------------------------------------------------------------------------------------
# Subscriptions to digests, and what was sent. Times in Unix ms, days of the reporting zone.

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


DIGESTS_KEPT_MS = 400 * DAY_MS

DIGESTS_KEPT = (Retention("digests that were sent", Issue, "at", DIGESTS_KEPT_MS),)
