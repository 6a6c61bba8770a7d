"""The reports of the job and of the pipelines, and what was requested of them."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import reduce
from typing import Any

from django.conf import settings
from django.db import models, transaction
from django.db.models import Count, F, Index, Max, Min, Sum, UniqueConstraint

from dashboard.core.common.models import ScenarioRow
from dashboard.core.common.retention import PORTION, Retention, Thinning
from dashboard.core.common.sql import chunks
from dashboard.core.common.times import DAY_MS, HOUR_MS, MINUTE_MS
from domain.scenario import Scenario
from wire.job import MAX_ID, MAX_REASON, MAX_USER, Heartbeat, engine_of, job_of, query_of

# ---- job -----------------------------------------------------------------------------------------
# The job's reports of itself, and what was requested of it. Times in Unix ms.

_ELSEWHERE = ("mutes", "agents", "due")
FIGURES = tuple(name for name in Heartbeat.__struct_fields__ if name not in _ELSEWHERE)
"""What BucketStatus keeps of a heartbeat as it is; mutes and agents are the agents' page's, and
when a timer is due is the job's own affair."""


class BucketStatusQuerySet(models.QuerySet["BucketStatus"]):
    """Buckets by what carries them."""

    def carried_by(self, *queries: str) -> BucketStatusQuerySet:
        """Return the buckets that these queries carry."""
        each = (models.Q(job=job_of(query), engine=engine_of(query)) for query in queries)
        return self.filter(reduce(operator.or_, each, models.Q(pk__in=())))

    def least_log_time(self, scenario: Scenario) -> int:
        """Return up to when all buckets of a scenario have read its log, Unix ms; 0 where one was
        never heard of."""
        partitions = range(scenario.partitions)
        rows = self.filter(scenario=scenario.name, partition__in=partitions)
        known = rows.aggregate(n=Count("pk"), least=Min("log_time"))
        return known["least"] if known["n"] == scenario.partitions else 0


class BucketStatus(ScenarioRow):
    """The newest heartbeat of one bucket; received_at: when it reached the database.

    mutes: those in force there, as JSON; empty where there are none; ahead_since: since when, by
    the job's own clock, the bucket's is ahead of it by too much; None where it is not; job: the one
    that carries it, empty for the main one; log: the id of its source topic, "" where unknown.
    """

    bucket = models.CharField(max_length=60, primary_key=True)
    partition = models.IntegerField()
    epoch = models.IntegerField()
    executor = models.CharField(max_length=200)
    host = models.CharField(max_length=255)
    log_time = models.BigIntegerField()
    offset = models.BigIntegerField()
    assets = models.BigIntegerField()
    timers = models.BigIntegerField()
    records = models.BigIntegerField()
    dead_letters = models.BigIntegerField()
    stale = models.BigIntegerField()
    engine = models.CharField(max_length=20)
    at = models.BigIntegerField()
    received_at = models.BigIntegerField()
    mutes = models.TextField(blank=True, default="", db_default="")
    late = models.BigIntegerField(default=0, db_default=0)
    silent = models.BigIntegerField(default=0, db_default=0)
    ahead_since = models.BigIntegerField(null=True)
    job = models.CharField(max_length=30, blank=True, default="", db_default="")
    log = models.CharField(max_length=40, blank=True, default="", db_default="")

    objects = BucketStatusQuerySet.as_manager()

    @property
    def query(self) -> str:
        """The query that carries the bucket."""
        return query_of(self.job, self.engine)


class JobProgress(models.Model):
    """A report of the job on a query, newest last; batch: Spark's own progress as JSON, or empty.

    since: when the status began, 0 where it was not reported; error: the whole text of what ended
    the query; stopped_by, stopped_reason: where it was requested to stop; standby: since when
    another process was ready to take over, 0 where none was; clocks_behind: by bucket, as JSON,
    where the broker's clock is behind the job's own; empty where it is nowhere; replaced: the
    scenarios whose source topic was deleted and created again, with blanks between.
    """

    query = models.CharField(max_length=100)
    at = models.BigIntegerField()
    status = models.CharField(max_length=20)
    epoch = models.IntegerField()
    message = models.TextField(blank=True)
    restarts = models.IntegerField(default=0)
    batch = models.TextField(blank=True)
    since = models.BigIntegerField(default=0)
    trigger = models.CharField(max_length=20, blank=True)
    error = models.TextField(blank=True)
    checkpoint_batch = models.BigIntegerField(null=True)
    checkpoint_at = models.BigIntegerField(null=True)
    checkpoint_size = models.BigIntegerField(null=True)
    stopped_by = models.CharField(max_length=MAX_USER, blank=True)
    stopped_reason = models.CharField(max_length=MAX_REASON, blank=True)
    standby = models.BigIntegerField(default=0, db_default=0)
    clocks_behind = models.TextField(blank=True, default="", db_default="")
    replaced = models.TextField(blank=True, default="", db_default="")

    class Meta:
        indexes = (Index(fields=["query", "-at"], name="progress_of_query"),)

    def __str__(self) -> str:
        return f"{self.query}: {self.status}"


class JobSampleQuerySet(models.QuerySet["JobSample"]):
    """Samples for the job's charts."""

    def merged(self, width: int, *by: str) -> list[dict[str, Any]]:
        """Return one sample, `at` its begin, for each `width` ms and each of what it is put
        together by; parts: of how many."""
        sums: dict[str, Any] = {name: Sum(name) for name in ("updates", "waited", "letters")}
        most = {name: Max(name) for name in ("longest", "behind")}
        slots = self.annotate(at=F("slot") - F("slot") % width).values(*by, "at")
        merged = slots.annotate(**sums, **most, parts=Count("pk")).order_by("at", *by)
        return [dict(row) for row in merged]


class JobSample(ScenarioRow):
    """The figures of a scenario in one stretch of time, which begins at `slot`.

    updates: newest records of assets that a report or a command brought about; waited, longest: ms
    from its append in the source log until the database had the record, all together and the
    longest; behind: how far a bucket's clock was behind now at most, ms; letters: refused records.
    """

    slot = models.BigIntegerField()
    updates = models.BigIntegerField(default=0)
    waited = models.BigIntegerField(default=0)
    longest = models.BigIntegerField(default=0)
    behind = models.BigIntegerField(default=0)
    letters = models.BigIntegerField(default=0)

    objects = JobSampleQuerySet.as_manager()

    class Meta:
        constraints = (UniqueConstraint(fields=["slot", "scenario"], name="one_sample_per_slot"),)


SETTLED = ("done", "refused", "failed", "expired")
"""Statuses after which nothing more comes of a request."""


class TrackedRequest(models.Model):
    """A request of somebody to the job, with its status.

    status: sending, sent or unsent, then as the job answers: accepted, done, refused, failed or
    expired; outcome: why.
    """

    id = models.UUIDField(primary_key=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    username = models.CharField(max_length=MAX_USER)
    reason = models.CharField(max_length=MAX_REASON)
    asked_at = models.BigIntegerField()
    status = models.CharField(max_length=10)
    outcome = models.CharField(max_length=MAX_REASON, blank=True)
    answered_at = models.BigIntegerField(null=True)

    class Meta:
        abstract = True


class RequestDetail(models.Model):
    """What a page keeps of a request of its own, under the request's id and saved with it."""

    id = models.UUIDField(primary_key=True)
    query = models.CharField(max_length=MAX_ID)
    username = models.CharField(max_length=MAX_USER)
    asked_at = models.BigIntegerField(db_index=True)

    class Meta:
        abstract = True


class JobRequest(TrackedRequest):
    """An action requested of a query. parameters: the action's own, as JSON; step_*: its progress.

    A page that needs to know more of a request keeps that in a row of its own with the same id.
    """

    query = models.CharField(max_length=MAX_ID)
    action = models.CharField(max_length=20)
    asked_at = models.BigIntegerField(db_index=True)
    parameters = models.TextField(blank=True, default="")
    step_done = models.BigIntegerField(null=True)
    step_of = models.BigIntegerField(null=True)
    step_what = models.CharField(max_length=MAX_REASON, blank=True, default="")

    def __str__(self) -> str:
        return f"{self.action} {self.query}: {self.status}"


# ---- job -----------------------------------------------------------------------------------------
# Retention of the job's progress and samples: all for an hour, then ever less. Times in ms.

KEPT_MS = 30 * DAY_MS
# Most records without figures of a batch, for each query: one restart gives two.
WORDS_KEPT = 2_000
# Of batches older than the one, the last in each of the other is kept.
STEPS = ((DAY_MS, HOUR_MS), (HOUR_MS, MINUTE_MS))


def thin(now: int) -> int:
    """Delete what is not kept any more, but for the last report on each query. Returns how many."""
    newest = JobProgress.objects.values("query").annotate(last=Max("id"))
    old = JobProgress.objects.filter(at__lt=now - KEPT_MS)
    gone = old.exclude(pk__in=list(newest.values_list("last", flat=True))).delete()[0]
    names = JobProgress.objects.order_by("query").values_list("query", flat=True).distinct()
    return gone + sum(_thin(name, now) for name in names)


def _thin(query: str, now: int) -> int:
    progress = JobProgress.objects.filter(query=query).order_by("-id")
    batches = progress.exclude(batch="").filter(at__lt=now - HOUR_MS)
    ids = surplus(batches.values_list("id", "at").iterator(), now)
    words = progress.filter(batch="").values_list("id", flat=True)
    ids += words[WORDS_KEPT : WORDS_KEPT + 100_000]
    for portion in chunks(ids, PORTION):
        JobProgress.objects.filter(pk__in=portion).delete()
    return len(ids)


def surplus(batches: Iterable[tuple[int, int]], now: int) -> list[int]:
    """Return the ids of batches, newest first as (id, at), that are more than are kept."""
    ids: list[int] = []
    last: tuple[int, int] | None = None
    for id_, at in batches:
        width = next((width for age, width in STEPS if now - at > age), 0)
        slot = (width, at // width) if width else None
        if slot is not None and slot == last:
            ids.append(id_)
        last = slot
    return ids


def thin_samples(now: int) -> int:
    """Put samples together, the older the more, and delete those past their time.

    Returns how many fewer there are.
    """
    gone = JobSample.objects.filter(slot__lt=now - KEPT_MS).delete()[0]
    return gone + sum(_put_together(now - age, width) for age, width in reversed(STEPS))


@transaction.atomic
def _put_together(before: int, width: int) -> int:
    """Put together the samples of each `width` ms before this. Returns how many fewer there are."""
    old = JobSample.objects.filter(slot__lt=before - before % width)
    fewer = 0
    for merged in old.merged(width, "scenario"):
        at, parts = merged.pop("at"), merged.pop("parts")
        if parts == 1:
            continue
        old.filter(scenario=merged["scenario"], slot__gte=at, slot__lt=at + width).delete()
        JobSample.objects.create(slot=at, **merged)
        fewer += parts - 1
    return fewer


KEPT = (
    Thinning("progress of the job", thin, KEPT_MS),
    Retention("requests to the job", JobRequest, "asked_at", 90 * DAY_MS),
    Thinning("samples for the job's charts", thin_samples, KEPT_MS),
)


# ---- pipelines -----------------------------------------------------------------------------------
# The pipelines' reports of themselves. Times in Unix ms.


class PipelineStatus(models.Model):
    """The last report of one pipeline. record: a `wire.pipeline.PipelineProgress`, as JSON."""

    name = models.CharField(max_length=60, primary_key=True)
    at = models.BigIntegerField()
    status = models.CharField(max_length=20)
    record = models.TextField()

    def __str__(self) -> str:
        return f"{self.name}: {self.status}"
