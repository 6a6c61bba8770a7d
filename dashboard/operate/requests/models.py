"""What was asked of the log: rules tried, readings of the state store, replays. Times in Unix ms."""

from __future__ import annotations

from django.db import models
from django.db.models import Index, UniqueConstraint

from dashboard.core.common.models import ScenarioRow
from dashboard.core.common.retention import Retention
from dashboard.core.common.times import DAY_MS
from dashboard.core.job.models import RequestDetail
from wire.job import MAX_REASON

# ---- what if -------------------------------------------------------------------------------------
# Rules tried on the log, and what they would have made of it. Times in Unix ms.


class Trial(ScenarioRow, RequestDetail):
    """A rule that somebody tries. id: of the request; keys: its changes, as TOML; totals: JSON."""

    since = models.BigIntegerField()
    keys = models.TextField()
    reason = models.CharField(max_length=MAX_REASON, blank=True)
    complete = models.BooleanField(default=False)
    totals = models.TextField(blank=True)


class Fared(models.Model):
    """An asset that would have fared otherwise. place: most different first; record: as JSON."""

    trial = models.ForeignKey(Trial, on_delete=models.CASCADE, related_name="fared")
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
        indexes = (Index(fields=["trial", "place"], name="fared_in_order"),)

    def __str__(self) -> str:
        return f"{self.asset}: {self.gained} gained, {self.lost} lost"


TRIALS_KEPT_MS = 14 * DAY_MS
MOST_TRIALS = 30

TRIALS_KEPT = (Retention("trials of a rule", Trial, "asked_at", TRIALS_KEPT_MS, MOST_TRIALS),)


# ---- state store ---------------------------------------------------------------------------------
# Readings of the state store. Times in Unix ms.


class Reading(ScenarioRow, RequestDetail):
    """A requested reading, and, once it is complete, of which committed batch it came.

    id: of the request; partition, asset: None and empty where all are meant; after: names after
    this one; buckets: their clocks, offsets and rules, as JSON; cut: there are more assets.
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


class StoredRow(models.Model):
    """An asset as the state store has it, and how the database stood to it when it came.

    verdict: of `comparing.VERDICTS`; fields: in which they differ; record: StoredAsset as JSON,
    empty where the store has none; board: the database's record then, empty where it had none.
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


READINGS_KEPT_MS = 3 * DAY_MS
MOST_READINGS = 5

READINGS_KEPT = (
    Retention("readings of the state store", Reading, "asked_at", READINGS_KEPT_MS, MOST_READINGS),
)


# ---- replays -------------------------------------------------------------------------------------
# Replays that were requested, and what reconcile found at their end. Times in Unix ms.

WAITING, RUNNING, DONE, FAILED = "", "running", "done", "failed"
"""How far the reconcile at a replay's end has come."""


class Replay(RequestDetail):
    """A reset or rebuild of a query; its progress is that of the request with the same id.

    scenario: the one that it was for, empty: all; start: where it was to begin, in words; whole:
    whether it comes to the same states as the whole log; epoch: the query's before; plan: its
    buckets as JSON. reconcile and what follows: the comparison at its end; `problem`: why it could
    not judge, or the first differences.
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

    def __str__(self) -> str:
        return f"{self.query} from {self.start}"


REPLAYS_KEPT_MS = 90 * DAY_MS

REPLAYS_KEPT = (Retention("replays", Replay, "asked_at", REPLAYS_KEPT_MS),)
