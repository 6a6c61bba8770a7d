"""The data of summaries, their sums, and subscriptions to digests. Times in Unix ms."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from functools import reduce
from operator import or_
from typing import Any
from zoneinfo import ZoneInfo

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models, transaction
from django.db.models import F, Index, Q, QuerySet, UniqueConstraint
from django.db.models.functions import Coalesce, Greatest, Least
from django.urls import reverse
from django.utils.crypto import constant_time_compare, salted_hmac
from django.utils.http import urlencode

from dashboard.core.common.models import (
    AssetRow,
    AuthoredRow,
    ScenarioRow,
    length_class,
    length_index,
)
from dashboard.core.common.retention import Retention, Thinning, delete_in_portions
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.sql import execute_many
from dashboard.core.common.times import DAY_MS, duration, now_ms, unix_ms, utc, utc_datetime
from dashboard.core.states.board_rows import asset_path
from dashboard.core.states.models import HISTORY_KEPT_MS, PLACE, AssetState
from dashboard.notify.notifications.models import new_token
from dashboard.watch.annotations.models import PERSON, Label
from dashboard.watch.incidents.models import Incident
from domain.history.periods import DAY, WEEK, Span
from domain.names import MAX_STATE
from domain.scenario import Scenario

# ---- summaries -----------------------------------------------------------------------------------
# The data of summaries: spans of raw history, their sums, and what they are measured by.
#
# Times in Unix ms, durations in ms, days as proleptic ordinals (1 January of year 1 is day 1).

# ---- raw history --------------------------------------------------------------------------------


def seal_of(*values: Any, secret: str | bytes | None = None) -> str:
    """Return the seal of a row that the changes of states cannot give again: an HMAC of its values.

    secret: the program's own by default.
    """
    text = json.dumps(values, separators=(",", ":"))
    return salted_hmac("summaries.seal", text, secret, algorithm="sha256").hexdigest()[:32]


def seals_of(*values: Any) -> set[str]:
    """Return the seals that a row may have, as the secret may have been changed."""
    secrets = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return {seal_of(*values, secret=secret) for secret in secrets}


class SpanRow(AssetRow):
    """An unbroken time of an asset. place, end_place: of the log records that began and ended it,
    so that a rebuild finds its own spans again; end: null while it goes on."""

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
        """Return the address of the list of the asset's changes."""
        query = {"scenario": self.scenario, "q": f'"{self.asset}"'}
        return f"{reverse('board:events')}?{urlencode(query)}"


class Presence(SpanRow):
    """The time from an asset's first state to its purge."""

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
        """Return the spans with a part between two times (Unix ms), or up to now, annotated with
        the length of that part (`within`, ms)."""
        now = now_ms()
        rows = self.filter(Q(end=None) | Q(end__gt=begin))
        if end is not None:
            rows = rows.filter(begin__lt=end)
        until = Least(Coalesce("end", now), now if end is None else end)
        return rows.annotate(within=Greatest(0, until - Greatest("begin", begin)))


class ImpairedSpan(SpanRow):
    """A time in one state that is not good, or that is unconfirmed.

    Whether a state is good is decided by the rule at the time when the span began.
    """

    state = models.CharField(max_length=MAX_STATE)
    unconfirmed = models.BooleanField()
    counted = 0
    """How much of it a figure counts, ms; lists set it."""
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


class AlarmQuerySet(models.QuerySet["Alarm"]):
    """Alarms."""

    def false(self, scenarios: Collection[str], span: Span) -> QuerySet[Alarm, tuple[str, str]]:
        """Return scenario and asset of each alarm that ended in a time and came to nothing."""
        ended = {"end__gte": span.begin, "end__lt": span.end}
        rows = self.filter(scenario__in=scenarios, came_true=False, **ended)
        return rows.values_list("scenario", "asset")


FALSE, TRUE, PENDING = "false", "true", "pending"
OUTCOMES = {FALSE: "came to nothing", TRUE: "came true", PENDING: "still pending"}
"""The outcomes of alarms."""


class Alarm(SpanRow):
    """A time in which a worse state was pending. state: the last one that was; came_true: whether
    the asset was in that state, or in one as severe, when it ended; null while it goes on; seal: as
    the changes do not have what was pending."""

    state = models.CharField(max_length=MAX_STATE)
    came_true = models.BooleanField(null=True)
    seal = models.CharField(max_length=32, blank=True)

    objects = AlarmQuerySet.as_manager()

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
    def is_sealed(self) -> bool:
        """Return whether the row is as the materialiser wrote it."""
        span = (self.scenario, self.asset, self.place, self.begin, self.end, self.end_place)
        return self.seal in seals_of(*span, self.state, self.came_true)

    @property
    def outcome(self) -> str:
        """Return the outcome, from OUTCOMES."""
        if self.end is None:
            return PENDING
        return TRUE if self.came_true else FALSE

    @property
    def outcome_text(self) -> str:
        """Return the outcome in words."""
        return OUTCOMES[self.outcome]


class Gap(ScenarioRow):
    """A time in which the database received nothing from the job about a scenario: from the last
    heartbeat before it to the first one after it."""

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
        """Have scenarios summed up again from a time (Unix ms) on.

        Call it last in the transaction that changes the history: other writers of a scenario wait
        from then on.
        """
        execute_many(MARK, sorted(dirty.items()))

    def mark_all(self, since: int) -> None:
        """Have these scenarios summed up again from a time (Unix ms) on, if they are at all."""
        self.mark(dict.fromkeys(self.values_list("scenario", flat=True), since))


class Progress(ScenarioRow):
    """How far a scenario's history is summed up.

    summed_to: the hours before it are summed up; dirty_since: history from here on has changed
    since; taken_since: history from here on is being summed up again; turn: how often that has
    begun, so that a process that was overtaken writes nothing; answered_to: the slow answers are
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
    """The sums of an hour of the reporting zone. slot: 24 times the weekday (Monday is 0) plus the
    hour; present: assets on the board at its end; incidents: those that began in it; false_alarms:
    alarms that ended in it and did not come true."""

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
    """The sums of an asset and a day of the reporting zone, if it was not good all the time.
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
        """Delete the kept sums of a scenario that cover anything from a time (Unix ms) on."""
        self.filter(scenarios__contains=f",{scenario},", end__gt=since).delete()


class KeptSum(models.Model):
    """A slow sum of whole hours, kept until something in it changes.

    key: the question; scenarios: their names between commas; begin, end: of its time; data: JSON;
    seal: as it may be about a time of which only the sums are left.
    """

    key = models.CharField(max_length=400, unique=True)
    scenarios = models.CharField(max_length=1_000)
    begin = models.BigIntegerField()
    end = models.BigIntegerField()
    computed_at = models.BigIntegerField()
    data = models.TextField()
    seal = models.CharField(max_length=32, blank=True)

    objects = KeptSumQuerySet.as_manager()

    class Meta:
        indexes = (Index(fields=["computed_at"], name="kept_sum_age"),)

    def __str__(self) -> str:
        return self.key

    @property
    def sealed(self) -> tuple[Any, ...]:
        """The values that its seal covers."""
        return self.key, self.scenarios, self.begin, self.end, self.computed_at, self.data


# ---- history from before -------------------------------------------------------------------------


class ImportedQuerySet(models.QuerySet["ImportedHistory"]):
    """Histories that were brought in."""

    def within(self, scenarios: Collection[str], span: Span) -> ImportedQuerySet:
        """Return those that reach into a time, of these scenarios."""
        return self.filter(scenario__in=scenarios, begin__lt=span.end, end__gt=span.begin)


class ImportedHistory(ScenarioRow):
    """A history from before the product that was brought in. begin, end: of its time; at: when it
    was brought in, Unix ms."""

    begin = models.BigIntegerField()
    end = models.BigIntegerField()
    assets = models.IntegerField()
    changes = models.IntegerField()
    file = models.CharField(max_length=200)
    at = models.BigIntegerField()

    objects = ImportedQuerySet.as_manager()

    class Meta:
        indexes = (Index(fields=["end"], name="imported_history_age"),)


# ---- checks -------------------------------------------------------------------------------------

CHECK_HOUR = 3
"""The hour of the reporting zone at which all figures are checked."""
OLD_CHECK_MS = 2 * DAY_MS
"""The age from which the summary says how old the last check is."""
MOST_LINES = 50
"""Most differences, and most pages, that a check keeps."""


class FigureCheckQuerySet(models.QuerySet["FigureCheck"]):
    """Checks of all figures."""

    def newest_ended(self) -> FigureCheck | None:
        """Return the newest check that came to its end."""
        return self.exclude(ended_at=None).order_by("-begun_at", "-pk").first()

    def is_due(self, now: int) -> bool:
        """Return whether the check of the night is to begin at `now` (Unix ms).

        The first one waits for a night; one that a standstill prevented is made up for.
        """
        zone = ReportingZone.objects.current()
        local = utc_datetime(now).astimezone(zone)
        night = local.replace(hour=CHECK_HOUR, minute=0, second=0, microsecond=0)
        since = unix_ms(night if night <= local else night - timedelta(days=1))
        newest = self.order_by("-begun_at").values_list("begun_at", flat=True).first()
        if newest is None:
            return local.hour == CHECK_HOUR
        return bool(newest < since)


class FigureCheck(models.Model):
    """A check of all figures against the changes of states. Times in Unix ms.

    ended_at: None while it runs, or if it broke off; differences: how many; lines: the first of
    them in words; pages: addresses of summaries that showed them.
    """

    begun_at = models.BigIntegerField()
    ended_at = models.BigIntegerField(null=True)
    differences = models.IntegerField(default=0)
    lines = models.JSONField(default=list)
    pages = models.JSONField(default=list)

    objects = FigureCheckQuerySet.as_manager()

    class Meta:
        indexes = (Index(fields=["begun_at"], name="figure_check_age"),)

    def __str__(self) -> str:
        return f"{utc(self.begun_at)}: {self.differences}"

    def is_old(self, now: int) -> bool:
        """Return whether it is too long ago at `now` (Unix ms) to speak of today's figures."""
        return now - self.begun_at > OLD_CHECK_MS

    def end(self, number: int, lines: Sequence[str], pages: Collection[str], now: int) -> None:
        """Record how many differences there are, the first of them, and pages that showed them."""
        self.ended_at, self.differences = now, number
        self.lines, self.pages = list(lines[:MOST_LINES]), sorted(pages)[:MOST_LINES]
        self.save()


# ---- what is measured by ------------------------------------------------------------------------


UTC = "UTC"
SINCE_EVER = 0
HOURS = range(24)
ALL_SLOTS = frozenset(range(7 * 24))
"""The hours of a week: 24 times the weekday (Monday is 0) plus the hour."""


class TargetQuerySet(models.QuerySet["Target"]):
    """Targets."""

    def by_scenario(self) -> dict[str, Target]:
        """Return the targets by scenario."""
        return {row.scenario: row for row in self}

    def slots(self, scenario: str) -> frozenset[int]:
        """Return the slots of the week that are service hours of a scenario."""
        target = self.filter(scenario=scenario).first()
        return target.slots if target else ALL_SLOTS

    @transaction.atomic
    def choose(
        self, scenario: str, percent: float | None, hours: Collection[Collection[int]] = ()
    ) -> None:
        """Set a scenario's target and service hours. Raises ValueError.

        percent: the availability, None for no target; hours: for each weekday, Monday first, the
        service hours from 0 to 23; () for all hours.
        """
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
    """What a scenario's availability should be. percent: null for no target; hours: for each
    weekday, Monday first, the service hours (0 to 23 of the reporting zone); [] for all; burning:
    what rules know of its error budget: since when it burns too fast, and in which words."""

    percent = models.FloatField(null=True)
    hours = models.JSONField(default=list)
    burning = models.JSONField(default=dict)

    objects = TargetQuerySet.as_manager()

    class Meta:
        constraints = (UniqueConstraint(fields=["scenario"], name="one_target_per_scenario"),)

    @property
    def slots(self) -> frozenset[int]:
        """Return the slots of the week that are service hours; all if none were chosen."""
        if not self.hours:
            return ALL_SLOTS
        return frozenset(24 * n + hour for n, day in enumerate(self.hours) for hour in day)

    @property
    def facts(self) -> dict[str, Any]:
        """Return it as the audit has it."""
        words = "; ".join(in_words(day) or "none" for day in self.hours) or "all"
        return {"percent": self.percent, "hours": words}


def in_words(hours: Collection[int]) -> str:
    """Return hours of a day as the settings have them: `8-12, 13-17`."""
    parts: list[list[int]] = []
    for hour in sorted(hours):
        if parts and parts[-1][1] == hour:
            parts[-1][1] = hour + 1
        else:
            parts.append([hour, hour + 1])
    return ", ".join(f"{begin}-{end}" for begin, end in parts)


class ReportingZoneQuerySet(models.QuerySet["ReportingZone"]):
    """The reporting zone."""

    def current(self) -> ZoneInfo:
        """Return the zone in which days and hours are counted: the former one until a change is
        summed up."""
        row = self.first()
        return ZoneInfo(row.former or row.name if row else UTC)

    def chosen(self) -> ZoneInfo:
        """Return the zone that was chosen last, in which hours are summed up."""
        row = self.first()
        return ZoneInfo(row.name if row else UTC)

    def settle(self) -> None:
        """Count in the chosen zone, if no scenario is still being summed up in it."""
        known = Progress.objects.filter(scenario__in=list(scenarios()))
        summed = models.F("summed_to")
        if not known.filter(Q(dirty_since__lt=summed) | Q(taken_since__lt=summed)).exists():
            self.exclude(former="").update(former="")

    @transaction.atomic
    def choose(self, name: str) -> None:
        """Change the zone in which days and hours are counted. Raises KeyError for an unknown name,
        and ValueError while another change is being summed up.

        name: from the IANA database. What raw history still covers is summed up again; older sums
        keep the days of the former zone.
        """
        ZoneInfo(name)
        before = self.current().key
        if before != self.chosen().key:
            raise ValueError("expected no other change while one is being summed up")
        self.all().delete()
        summed = Progress.objects.filter(summed_to__isnull=False).exists()
        self.create(name=name, former=before if summed and before != name else "")
        Progress.objects.mark_all(SINCE_EVER)


class ReportingZone(models.Model):
    """The zone in which days, weeks and hours are counted: one row, or none for UTC.

    name: from the IANA database; former: the one that pages show until what there is is summed up
    in this one, then empty."""

    name = models.CharField(max_length=64)
    former = models.CharField(max_length=64, blank=True, default="")

    objects = ReportingZoneQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name


# ---- summaries -----------------------------------------------------------------------------------
# Retention: raw history of summaries is kept as long as the changes, sums are kept for years.

SUMS_KEPT_MS = 3_653 * DAY_MS
KEPT_SUMS_MS = 14 * DAY_MS
"""Kept sums are computed again on demand."""


def raw_edge(now: int) -> int:
    """Return the time since which raw history is complete, Unix ms, as of `now`."""
    return now - HISTORY_KEPT_MS


def delete_old_days(now: int) -> int:
    """Delete the sums of assets and days that are too old at `now` (Unix ms); return how many."""
    edge = utc_datetime(now - SUMS_KEPT_MS).date().toordinal()
    return delete_in_portions(AssetDay.objects.filter(day__lt=edge))


SUMS_KEPT = (
    Retention("spans of bad and unconfirmed time", ImpairedSpan, "end", HISTORY_KEPT_MS),
    Retention("spans of time on the board", Presence, "end", HISTORY_KEPT_MS),
    Retention("pending states that came true or not", Alarm, "end", HISTORY_KEPT_MS),
    Retention("sums by the hour", HourRow, "end", SUMS_KEPT_MS, by_scenario=True),
    Retention("times without heartbeats of the job", Gap, "end", SUMS_KEPT_MS),
    Thinning("sums by asset and day", delete_old_days, SUMS_KEPT_MS),
    Retention("kept answers of summaries", KeptSum, "computed_at", KEPT_SUMS_MS),
    Retention("checks of figures", FigureCheck, "begun_at", HISTORY_KEPT_MS),
    Retention("histories that were brought in", ImportedHistory, "end", SUMS_KEPT_MS),
)


# ---- digests -------------------------------------------------------------------------------------
# Subscriptions to digests, and the digests sent. Times in Unix ms, days in the reporting zone.

EVERY = {DAY: "every day", WEEK: "every week"}
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


# A subscription's number and token. Older mails have a signature instead, which no longer works.
_LINK = re.compile(r"([0-9]{1,18})\.([A-Za-z0-9_-]+)")


class SubscriptionQuerySet(models.QuerySet["Subscription"]):
    """Subscriptions to digests."""

    @transaction.atomic
    def subscribe(self, user: User, scenario: str, plan: dict[str, Any], now: int) -> Subscription:
        """Subscribe a user to a scenario's digest, or change its schedule; return the subscription.

        A change between days and weeks starts afresh: nothing that was due before is sent.
        """
        known = self.filter(user=user, scenario=scenario).first()
        since = known.since if known and known.every == plan["every"] else now
        row, _ = self.update_or_create(
            user=user, scenario=scenario, defaults={**plan, "since": since}
        )
        return row

    def unsubscribe(self, user: User, scenario: str) -> bool:
        """End a user's subscription to a scenario. Return whether there was one."""
        return bool(self.filter(user=user, scenario=scenario).delete()[0])

    def of_link(self, token: str) -> Subscription | None:
        """Return the subscription that a link's token belongs to; None if there is none (any
        more)."""
        link = _LINK.fullmatch(token)
        if link is None:
            return None
        row = self.filter(pk=int(link[1])).select_related("user").first()
        return row if row and constant_time_compare(row.token, link[2]) else None


class Subscription(ScenarioRow):
    """A user's subscription to the digest of a scenario.

    every: from EVERY; weekday: of a weekly one, 0 for Monday; hour: in the reporting zone; since:
    nothing that was due before it is sent; token: whoever knows it can end the subscription without
    a login.
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
        """Return the digests that were sent at its current interval."""
        return self.issues.filter(every=self.every)

    @property
    def newest_issue(self) -> Issue | None:
        """Return the digest that was sent last, or None."""
        return self.issues.order_by("-at", "-pk").first()

    # ---- links that end it without a login ----
    # Whoever has the mail can end the subscription, and do nothing else. RFC 8058: mail programs
    # end it by a POST without a form of ours.

    @property
    def link_token(self) -> str:
        """Return the token for links, which cannot be guessed."""
        return f"{self.pk}.{self.token}"

    @property
    def unsubscribe_url(self) -> str:
        """Return the address that ends the subscription."""
        path = reverse("digests:unsubscribe", args=[self.link_token])
        return f"{settings.TALLYBOARD.own_url}{path}"

    @property
    def mail_headers(self) -> dict[str, str]:
        """Return the headers with which mail programs offer to unsubscribe."""
        return {
            "List-Unsubscribe": f"<{self.unsubscribe_url}>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        }


class Issue(models.Model):
    """A digest that was sent. first: the first day of its day or week; late: how long after it was
    due, ms."""

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


# ---- status pages --------------------------------------------------------------------------------
# What customers may see without a login: a page is published by an admin, and lasts until deleted.

MAX_TITLE, MAX_INTRO, MAX_ADDRESS = 100, 500, 60
"""Longest title, introduction and name in the address, characters."""


class StatusPageQuerySet(models.QuerySet["StatusPage"]):
    def published(self, slug: str) -> StatusPage | None:
        """Return the page that everybody may read under this name; None if there is none."""
        return self.filter(slug=slug, published=True).first()


class StatusPage(AuthoredRow):
    """A page about some assets for customers, read without a login.

    slug: its name in the address; labels: an asset with any of these, as key and value, is on it,
    if people gave it that label: what agents report publishes nothing; words: by scenario and
    state, what the page calls the state; days: whose incidents it lists; changed_at: Unix ms.
    """

    slug = models.SlugField(max_length=MAX_ADDRESS, unique=True)
    title = models.CharField(max_length=MAX_TITLE)
    intro = models.CharField(max_length=MAX_INTRO, blank=True)
    scenarios = models.JSONField(default=list)
    labels = models.JSONField(default=list)
    words = models.JSONField(default=dict)
    days = models.SmallIntegerField(default=7)
    published = models.BooleanField(default=False)
    changed_at = models.BigIntegerField()

    objects = StatusPageQuerySet.as_manager()

    def __str__(self) -> str:
        return self.slug

    def get_absolute_url(self) -> str:
        """Return the address that customers open."""
        return reverse("status:page", args=[self.slug])

    @property
    def configured_scenarios(self) -> list[Scenario]:
        """Return its scenarios that are still configured."""
        return [each for name, each in scenarios().items() if name in self.scenarios]

    def assets(self, scenario: str) -> QuerySet[Label, str]:
        """Return the names of a scenario's assets that labels of people put on the page."""
        either = reduce(or_, (Q(key=key, value=value) for key, value in self.labels), Q(pk__in=()))
        labels = Label.objects.shown(scenario).filter(either, source=PERSON)
        return labels.values_list("asset", flat=True)

    def rows(self, scenario: str) -> QuerySet[AssetState]:
        """Return its assets of a scenario, the most severe first, and those in doubt before their
        equals."""
        rows = AssetState.objects.filter(scenario=scenario, purged=False)
        doubted = ("-unconfirmed", F("doubt").desc(nulls_last=True), "-overridden")
        return rows.filter(asset__in=self.assets(scenario)).order_by("rank", *doubted, "asset")

    def incidents(self, scenario: str, since: int) -> QuerySet[Incident]:
        """Return its assets' incidents that went on since a time (Unix ms), newest first."""
        rows = Incident.objects.shown().filter(scenario=scenario)
        rows = rows.filter(asset__in=self.assets(scenario))
        return rows.within(since, None).order_by("-began_at", "-pk")


DIGESTS_KEPT_MS = 400 * DAY_MS

KEPT = (*SUMS_KEPT, Retention("digests that were sent", Issue, "at", DIGESTS_KEPT_MS))
