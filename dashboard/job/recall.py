"""What the database has of the job, for a process that has heard nothing yet."""

from __future__ import annotations

from dashboard.job.models import BucketStatus
from dashboard.job.signs import Signs


def recall(signs: Signs) -> None:
    """Tell of the heartbeats that the database holds: the job may be silent since."""
    for row in BucketStatus.objects.all():
        signs.remember(row.bucket, row.at, row.log_time)
