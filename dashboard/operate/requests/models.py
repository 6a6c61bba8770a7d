"""Requests that read the log: trials, state store readings, replays. Times in Unix ms."""

from __future__ import annotations

import msgspec
from django.db import models
from django.db.models import Count, Index, Q, UniqueConstraint
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.http import urlencode

from dashboard.core.common.models import ScenarioRow
from dashboard.core.common.retention import Retention
from dashboard.core.common.times import DAY_MS
from dashboard.core.job.models import JobRequest, RequestDetail
from wire.batch_query import Difference, StoredAsset, StoredBucket, Totals
from wire.job import MAX_REASON

# ---- what if -------------------------------------------------------------------------------------
# Rules tried on the log, and the histories they would have produced. Times in Unix ms.


class Trial(ScenarioRow, RequestDetail):
    """A rule being tried. id: the request's; keys: its changes, as TOML; totals: JSON."""

    since = models.BigIntegerField()
    keys = models.TextField()
    reason = models.CharField(max_length=MAX_REASON, blank=True)
    complete = models.BooleanField(default=False)
    totals = models.TextField(blank=True)

    @property
    def decoded_totals(self) -> Totals | None:
        """Return the trial's totals, or None while it is running."""
        return msgspec.json.decode(self.totals, type=Totals) if self.totals else None

    @property
    def propose_url(self) -> str:
        """Return the URL of the form that proposes the tried rule, with its keys filled in."""
        return f"{reverse('rules:change', args=[self.scenario])}?{urlencode({'rule': self.keys})}"

    @property
    def again_url(self) -> str:
        """Return the URL of the form for another trial, with this one's rule filled in."""
        query = urlencode({"scenario": self.scenario, "rule": self.keys})
        return f"{reverse('what_if:trials')}?{query}"


class TrialResult(models.Model):
    """An asset whose history would differ. place: most different first; record: JSON."""

    trial = models.ForeignKey(Trial, on_delete=models.CASCADE, related_name="results")
    place = models.IntegerField()
    asset = models.CharField(max_length=255)
    gained = models.IntegerField()
    lost = models.IntegerField()
    earlier = models.IntegerField()
    later = models.IntegerField()
    shift = models.BigIntegerField()
    record = models.TextField()

    class Meta:
        constraints = (UniqueConstraint(fields=["trial", "asset"], name="one_row_per_trial"),)
        indexes = (Index(fields=["trial", "place"], name="trial_results_in_order"),)

    def __str__(self) -> str:
        return f"{self.asset}: {self.gained} gained, {self.lost} lost"

    @cached_property
    def difference(self) -> Difference:
        """The asset's histories under both rules."""
        return msgspec.json.decode(self.record, type=Difference)


TRIALS_KEPT = Retention("trials of a rule", Trial, "asked_at", 14 * DAY_MS, at_most=30)


# ---- state store ---------------------------------------------------------------------------------
# Readings of the state store. Times in Unix ms.


class Reading(ScenarioRow, RequestDetail):
    """A requested reading of the state store and, once complete, the committed batch it came from.

    id: the request's; partition, asset: None and empty for all; after: only names after this one;
    buckets: their clocks, offsets and rules, as JSON; cut: there are more assets.
    """

    partition = models.IntegerField(null=True)
    asset = models.CharField(max_length=255, blank=True)
    after = models.CharField(max_length=255, blank=True)
    complete = models.BooleanField(default=False)
    received_at = models.BigIntegerField(null=True)
    engine = models.CharField(max_length=20, blank=True)
    epoch = models.IntegerField(default=0)
    batch = models.BigIntegerField(default=0)
    committed_at = models.BigIntegerField(default=0)
    cut = models.BooleanField(default=False)
    buckets = models.TextField(default="[]")

    @property
    def decoded_buckets(self) -> list[StoredBucket]:
        """Return the buckets that were read."""
        return msgspec.json.decode(self.buckets, type=list[StoredBucket])

    def verdict_counts(self) -> dict[str, int]:
        """Return the number of rows by verdict."""
        counted = self.rows.values_list("verdict").annotate(n=Count("pk"))
        return dict(counted.order_by())


class StoredRow(models.Model):
    """An asset in the state store, and how it compared with the database when it arrived.

    verdict: one of `comparing.VERDICTS`; fields: those that differ; record: StoredAsset as JSON,
    empty if the store has none; board: the database's record at that time, empty if it had none.
    """

    reading = models.ForeignKey(Reading, on_delete=models.CASCADE, related_name="rows")
    asset = models.CharField(max_length=255)
    partition = models.IntegerField()
    state = models.CharField(max_length=64, blank=True)
    verdict = models.CharField(max_length=20)
    fields = models.CharField(max_length=200, blank=True)
    version = models.CharField(max_length=60, blank=True)
    since = models.BigIntegerField(null=True)
    votes = models.IntegerField(default=0)
    due = models.BigIntegerField(null=True)
    board_state = models.CharField(max_length=64, blank=True)
    board_version = models.CharField(max_length=60, blank=True)
    record = models.TextField(blank=True)
    board = models.TextField(blank=True)

    class Meta:
        constraints = (UniqueConstraint(fields=["reading", "asset"], name="one_row_per_reading"),)
        indexes = (Index(fields=["reading", "verdict", "asset"], name="rows_by_verdict"),)

    def __str__(self) -> str:
        return f"{self.asset}: {self.verdict}"

    @property
    def stored(self) -> StoredAsset | None:
        """Return the asset from the store, or None if the store does not have it."""
        return msgspec.json.decode(self.record, type=StoredAsset) if self.record else None


READINGS_KEPT = Retention("readings of the state store", Reading, "asked_at", 3 * DAY_MS, at_most=5)


# ---- replays -------------------------------------------------------------------------------------
# Requested replays, and what reconcile found when they ended. Times in Unix ms.

WAITING, RUNNING, DONE, FAILED = "", "running", "done", "failed"
"""Progress of the reconcile that runs when a replay ends."""
GIVEN_UP_MS = 3_600_000
"""A comparison that has not ended after this long was cut short; it is run again."""
MOST_COMPARED = 3
"""How many of the newest replays are checked for comparison; older ones are never compared."""


class ReplayQuerySet(models.QuerySet["Replay"]):
    def newest(self) -> ReplayQuerySet:
        """Return the replays, newest first."""
        return self.order_by("-asked_at", "-pk")

    def to_compare(self, now: int) -> list[Replay]:
        """Return the newest replays that the job has ended and that still need comparing."""
        rows = list(self.newest()[:MOST_COMPARED])
        ended = JobRequest.objects.filter(pk__in=[row.pk for row in rows], status="done")
        done = set(ended.values_list("pk", flat=True))
        return [row for row in rows if row.pk in done and row.is_to_compare(now)]


class Replay(RequestDetail):
    """A reset or rebuild of a query; the request with the same id holds its progress.

    scenario: the one it was requested for, empty for all; start: where it was to begin, in words;
    whole: whether it reaches the same states as the whole log; epoch: the query's epoch before it;
    plan: its buckets as JSON. reconcile and the fields after it: the comparison when it ended;
    `problem`: why the comparison failed, or the first differences.
    """

    scenario = models.CharField(max_length=40, blank=True)
    start = models.CharField(max_length=200)
    reason = models.CharField(max_length=MAX_REASON)
    whole = models.BooleanField()
    epoch = models.IntegerField()
    plan = models.TextField()
    reconcile = models.CharField(max_length=10, blank=True, default=WAITING)
    started_at = models.BigIntegerField(null=True)
    ended_at = models.BigIntegerField(null=True)
    records = models.BigIntegerField(null=True)
    compared = models.BigIntegerField(null=True)
    unjudged = models.BigIntegerField(null=True)
    differences = models.BigIntegerField(null=True)
    problem = models.TextField(blank=True, default="")

    objects = ReplayQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.query} from {self.start}"

    def is_to_compare(self, now: int) -> bool:
        """Return whether it needs comparing at `now` (Unix ms).

        It does if nobody has begun, or if the comparison was cut short.
        """
        cut_short = self.reconcile == RUNNING and now - (self.started_at or 0) > GIVEN_UP_MS
        return self.reconcile == WAITING or cut_short

    def claim_comparison(self, now: int) -> bool:
        """Claim the comparison. Returns whether that succeeded; then nobody else compares it."""
        free = Q(reconcile=WAITING) | Q(reconcile=RUNNING, started_at__lt=now - GIVEN_UP_MS)
        rows = Replay.objects.filter(free, pk=self.pk)
        return bool(rows.update(reconcile=RUNNING, started_at=now, ended_at=None))


REPLAYS_KEPT_MS = 90 * DAY_MS

KEPT = (
    TRIALS_KEPT,
    READINGS_KEPT,
    Retention("replays", Replay, "asked_at", REPLAYS_KEPT_MS),
)
