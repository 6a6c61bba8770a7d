"""What the database has of the job, for a process that has heard nothing yet."""

from __future__ import annotations

from django.db.models import Max, QuerySet

from dashboard.job.freshness import Pause
from dashboard.job.liveness import Signs
from dashboard.job.models import BucketStatus, JobProgress


def recall(signs: Signs) -> None:
    """Tell of the heartbeats that the database holds, and of stops: the job may be silent since."""
    for row in BucketStatus.objects.all():
        signs.remember(row.bucket, row.at, row.log_time, row.engine, row.ahead_since)
    for told in last_told():
        by, since = told.stopped_by, told.since
        signs.pause(told.query, Pause(by, since, told.stopped_reason) if by else None)


def stopped() -> list[JobProgress]:
    """What the job told last of each query that was stopped on purpose."""
    return list(last_told().exclude(stopped_by="").order_by("query"))


def last_told() -> QuerySet[JobProgress]:
    """What the job told last of each query."""
    newest = JobProgress.objects.values("query").annotate(last=Max("id"))
    return JobProgress.objects.filter(pk__in=newest.values("last"))
