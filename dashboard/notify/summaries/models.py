"""What summaries rest on, their sums, and subscriptions to digests. Times in Unix ms."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models, transaction
from django.db.models import Index, Q, QuerySet, UniqueConstraint
from django.db.models.functions import Coalesce, Greatest, Least
from django.urls import reverse
from django.utils.crypto import constant_time_compare
from django.utils.http import urlencode

from dashboard.core.common.models import AssetRow, ScenarioRow, length_class, length_index
from dashboard.core.common.retention import Retention, Thinning, delete_in_portions
from dashboard.core.common.sql import execute_many
from dashboard.core.common.times import DAY_MS, duration, now_ms, utc_datetime
from dashboard.core.states.board_rows import asset_path
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

    @property
    def lasted(self) -> str:
        """Return how long it lasted, or has lasted until now, in words."""
        return duration(max(0, (now_ms() if self.end is None else self.end) - self.begin))

    @property
    def asset_url(self) -> str:
        """Return the address of the asset's page."""
        return asset_path(self.scenario, self.asset)

    @property
    def events_url(self) -> str:
        """Return the address of the changes of the asset."""
        query = {"scenario": self.scenario, "q": f'"{self.asset}"'}
        return f"{reverse('board:events')}?{urlencode(query)}"


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


class SpanQuerySet(models.QuerySet["ImpairedSpan"]):
    """Times that were bad or unconfirmed."""

    def during(self, begin: int, end: int | None) -> SpanQuerySet:
        """Return those of which a part lies between two times (Unix ms), or up to now, with how
        much of each does (`within`, ms)."""
        now = now_ms()
        rows = self.filter(Q(end=None) | Q(end__gt=begin))
        if end is not None:
            rows = rows.filter(begin__lt=end)
        until = Least(Coalesce("end", now), now if end is None else end)
        return rows.annotate(within=Greatest(0, until - Greatest("begin", begin)))


class ImpairedSpan(SpanRow):
    """A time in one state that is not good, or that is unconfirmed, whichever it is.

    Whether a state is good is decided by the rule of the time at which the span began.
    """

    state = models.CharField(max_length=MAX_STATE)
    unconfirmed = models.BooleanField()
    length_class = length_class("begin", "end")

    objects = SpanQuerySet.as_manager()

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


FALSE, TRUE, PENDING = "false", "true", "pending"
OUTCOMES = {FALSE: "came to nothing", TRUE: "came true", PENDING: "still pending"}
"""What may come of an alarm."""


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

    @property
    def outcome(self) -> str:
        """Return what came of it, of OUTCOMES."""
        if self.end is None:
            return PENDING
        return TRUE if self.came_true else FALSE

    @property
    def outcome_text(self) -> str:
        """Return what came of it, in words."""
        return OUTCOMES[self.outcome]


class Gap(ScenarioRow):
    """A time in which the database heard nothing of the job about a scenario: from the last
    heartbeat before it to the first after it."""

    begin = models.BigIntegerField()
    end = models.BigIntegerField()

    class Meta:
        constraints = (UniqueConstraint(fields=["scenario", "begin"], name="one_gap_per_begin"),)
        indexes = (Index(fields=["end"], name="summary_gap_age"),)


# ---- sums ---------------------------------------------------------------------------------------


MARK = """\
INSERT INTO summaries_progress (scenario, dirty_since, turn) VALUES (%s, %s, 0)
ON CONFLICT (scenario) DO UPDATE SET dirty_since =
CASE WHEN summaries_progress.dirty_since < excluded.dirty_since
THEN summaries_progress.dirty_since ELSE excluded.dirty_since END"""


class ProgressQuerySet(models.QuerySet["Progress"]):
    """How far scenarios are summed up."""

    def mark(self, dirty: Mapping[str, int]) -> None:
        """Have scenarios summed up again from a time (Unix ms) on. Within the transaction that
        changed what is summed up, and last: other writers of a scenario wait from here on."""
        execute_many(MARK, sorted(dirty.items()))

    def mark_all(self, since: int) -> None:
        """Have these, those that are summed up at all, summed up again from a time (Unix ms) on."""
        self.mark(dict.fromkeys(self.values_list("scenario", flat=True), since))


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

    objects = ProgressQuerySet.as_manager()

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


class KeptSumQuerySet(models.QuerySet["KeptSum"]):
    """Kept sums."""

    def forget(self, scenario: str, since: int) -> None:
        """Delete those of a scenario in which anything from a time (Unix ms) on is."""
        self.filter(scenarios__contains=f",{scenario},", end__gt=since).delete()


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

    objects = KeptSumQuerySet.as_manager()

    class Meta:
        indexes = (Index(fields=["computed_at"], name="kept_sum_age"),)

    def __str__(self) -> str:
        return self.key


# ---- what is measured by ------------------------------------------------------------------------


UTC = "UTC"
SINCE_EVER = 0
HOURS = range(24)
ALL_SLOTS = frozenset(range(7 * 24))
"""The hours of a week: 24 times the weekday, Monday 0, plus the hour."""


class TargetQuerySet(models.QuerySet["Target"]):
    """Targets."""

    def by_scenario(self) -> dict[str, Target]:
        """Return them by scenario."""
        return {row.scenario: row for row in self}

    def slots(self, scenario: str) -> frozenset[int]:
        """Return the slots of the week that are service hours of a scenario."""
        target = self.filter(scenario=scenario).first()
        return target.slots if target else ALL_SLOTS

    @transaction.atomic
    def choose(
        self, scenario: str, percent: float | None, hours: Collection[Collection[int]] = ()
    ) -> None:
        """Measure a scenario by an availability in percent (None: by none), and by service hours:
        for each weekday, Monday first, the hours from 0 to 23; () for all. Raises ValueError."""
        if percent is not None and not 0 < percent <= 100:
            raise ValueError(f"expected more than 0 and at most 100 percent, got {percent}")
        if hours and (len(hours) != 7 or any(hour not in HOURS for day in hours for hour in day)):
            raise ValueError("expected the hours (0 to 23) of seven weekdays, or none at all")
        plain = [sorted(set(day)) for day in hours]
        before = self.filter(scenario=scenario).first()
        self.update_or_create(scenario=scenario, defaults={"percent": percent, "hours": plain})
        if plain != (before.hours if before else []):
            Progress.objects.mark({scenario: SINCE_EVER})


class Target(ScenarioRow):
    """What a scenario's availability should be. percent: empty for none; hours: for each weekday,
    Monday first, the hours (0 to 23 of the reporting zone) in which it matters; [] for all."""

    percent = models.FloatField(null=True)
    hours = models.JSONField(default=list)

    objects = TargetQuerySet.as_manager()

    class Meta:
        constraints = (UniqueConstraint(fields=["scenario"], name="one_target_per_scenario"),)

    @property
    def slots(self) -> frozenset[int]:
        """Return the slots of the week that are service hours; all of them without a choice."""
        if not self.hours:
            return ALL_SLOTS
        return frozenset(24 * n + hour for n, day in enumerate(self.hours) for hour in day)


class ReportingZoneQuerySet(models.QuerySet["ReportingZone"]):
    """The reporting zone."""

    def current(self) -> ZoneInfo:
        """Return the zone whose days and hours are counted."""
        row = self.first()
        return ZoneInfo(row.name if row else UTC)

    @transaction.atomic
    def choose(self, name: str) -> None:
        """Count the days and hours of another zone, of the IANA database. Raises KeyError for none.

        What raw history still tells is summed up again; older sums keep the days that they were of.
        """
        ZoneInfo(name)
        self.all().delete()
        self.create(name=name)
        Progress.objects.mark_all(SINCE_EVER)


class ReportingZone(models.Model):
    """The zone whose days, weeks and hours are counted: one row, or none for UTC.

    name: of the IANA database."""

    name = models.CharField(max_length=64)

    objects = ReportingZoneQuerySet.as_manager()

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


SUMS_KEPT = (
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


# A subscription's number and its token. Older mails have a signature instead, which ends none.
_LINK = re.compile(r"([0-9]{1,18})\.([A-Za-z0-9_-]+)")


class SubscriptionQuerySet(models.QuerySet["Subscription"]):
    """Subscriptions to digests."""

    @transaction.atomic
    def subscribe(self, user: User, scenario: str, plan: dict[str, Any], now: int) -> Subscription:
        """Subscribe a user to a scenario's digest, or change when it comes. Returns the
        subscription.

        A change from days to weeks, or back, begins anew: nothing that was due before comes.
        """
        known = self.filter(user=user, scenario=scenario).first()
        since = known.since if known and known.every == plan["every"] else now
        row, _ = self.update_or_create(
            user=user, scenario=scenario, defaults={**plan, "since": since}
        )
        return row

    def unsubscribe(self, user: User, scenario: str) -> bool:
        """End a user's subscription to a scenario. Returns whether there was one."""
        return bool(self.filter(user=user, scenario=scenario).delete()[0])

    def of_link(self, token: str) -> Subscription | None:
        """Return the subscription of a link's token; None where no subscription has it, or not any
        more."""
        link = _LINK.fullmatch(token)
        if link is None:
            return None
        row = self.filter(pk=int(link[1])).select_related("user").first()
        return row if row and constant_time_compare(row.token, link[2]) else None


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

    objects = SubscriptionQuerySet.as_manager()

    class Meta:
        constraints = (
            UniqueConstraint(fields=["user", "scenario"], name="one_digest_per_scenario"),
        )

    @property
    def current_issues(self) -> QuerySet[Issue]:
        """Return the digests of its present rhythm that were sent."""
        return self.issues.filter(every=self.every)

    @property
    def newest_issue(self) -> Issue | None:
        """Return the digest that was sent last."""
        return self.issues.order_by("-at").first()

    # ---- links that end it without a login ----
    # Who has the mail may end it, and do nothing else. RFC 8058: a mail program ends it by a POST
    # that no form of ours has sent.

    @property
    def link_token(self) -> str:
        """Return its name that nobody guesses."""
        return f"{self.pk}.{self.token}"

    @property
    def unsubscribe_url(self) -> str:
        """Return the address at which it ends."""
        path = reverse("digests:unsubscribe", args=[self.link_token])
        return f"{settings.TALLYBOARD.own_url}{path}"

    @property
    def mail_headers(self) -> dict[str, str]:
        """Return the headers by which a mail program offers to end it."""
        return {
            "List-Unsubscribe": f"<{self.unsubscribe_url}>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        }


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

KEPT = (*SUMS_KEPT, Retention("digests that were sent", Issue, "at", DIGESTS_KEPT_MS))
