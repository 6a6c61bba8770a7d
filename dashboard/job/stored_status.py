"""The database's knowledge of the job, for a process that has heard nothing yet."""

from __future__ import annotations

from django.db.models import Max, QuerySet

from dashboard.job.freshness import Pause
from dashboard.job.liveness import Signs
from dashboard.job.models import BucketStatus, JobProgress


def recall(signs: Signs) -> None:
    """Record the heartbeats that the database holds, and stops: the job may be silent since."""
    for row in BucketStatus.objects.all():
        signs.remember(row.bucket, row.at, row.log_time, row.engine, row.ahead_since)
    for last in last_told():
        by, since = last.stopped_by, last.since
        signs.pause(last.query, Pause(by, since, last.stopped_reason) if by else None)


def stopped() -> list[JobProgress]:
    """Return the job's last report of each query that was stopped on purpose."""
    return list(last_told().exclude(stopped_by="").order_by("query"))


def last_told() -> QuerySet[JobProgress]:
    """Return the job's last report of each query."""
    newest = JobProgress.objects.values("query").annotate(last=Max("id"))
    return JobProgress.objects.filter(pk__in=newest.values("last"))
