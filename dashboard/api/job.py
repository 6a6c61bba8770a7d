"""The state of the job's queries, as last reported."""

from __future__ import annotations

import json
from typing import Any

from django.db.models import QuerySet

from dashboard.core.times import now_ms
from dashboard.job.models import BucketStatus, JobProgress
from dashboard.job.restarts import restarts


def queries() -> list[dict[str, Any]]:
    """Return each query that has reported anything, by name, as the API gives it.

    A query is one engine's.
    """
    names = JobProgress.objects.order_by("query").values_list("query", flat=True).distinct()
    return [_query(name) for name in names]


def _query(name: str) -> dict[str, Any]:
    reports = JobProgress.objects.filter(query=name).order_by("-id")
    last = reports[0]
    words = reports.filter(batch="").first()
    batch = reports.exclude(batch="").first()
    heard = BucketStatus.objects.filter(engine=name).order_by("-received_at").first()
    return {
        "query": name,
        "engine": name,
        "status": last.status,
        "epoch": last.epoch,
        "since": last.since or _since(reports, last),
        "told_at": last.at,
        "heard_at": heard.received_at if heard else None,
        "restarts": restarts(name, now_ms()).n,
        "message": words.message if words and words.status == last.status else "",
        "batch": {"told_at": batch.at, **json.loads(batch.batch)} if batch else None,
    }


def _since(reports: QuerySet[JobProgress], last: JobProgress) -> int:
    """Return when the status began, as far back as records are kept (Unix ms)."""
    before = reports.exclude(status=last.status).first()
    same = reports.filter(id__gt=before.pk) if before else reports
    first = same.last()
    return first.at if first else last.at
