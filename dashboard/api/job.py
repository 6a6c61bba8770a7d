"""How the job's queries fare, as they told it last."""

from __future__ import annotations

import json
from typing import Any

from django.db.models import QuerySet

from dashboard.job.models import BucketStatus, JobProgress


def queries() -> list[dict[str, Any]]:
    """Each query that has told anything, by name, as the API gives it. A query is one engine's."""
    names = JobProgress.objects.order_by("query").values_list("query", flat=True).distinct()
    return [_query(name) for name in names]


def _query(name: str) -> dict[str, Any]:
    told = JobProgress.objects.filter(query=name).order_by("-id")
    last = told[0]
    words = told.filter(batch="").first()
    batch = told.exclude(batch="").first()
    heard = BucketStatus.objects.filter(engine=name).order_by("-received_at").first()
    return {
        "query": name,
        "engine": name,
        "status": last.status,
        "epoch": last.epoch,
        "since": last.since or _since(told, last),
        "told_at": last.at,
        "heard_at": heard.received_at if heard else None,
        "restarts": last.restarts,
        "message": words.message if words and words.status == last.status else "",
        "batch": {"told_at": batch.at, **json.loads(batch.batch)} if batch else None,
    }


def _since(told: QuerySet[JobProgress], last: JobProgress) -> int:
    """When the status began, as far back as records are kept (Unix ms)."""
    before = told.exclude(status=last.status).first()
    same = told.filter(id__gt=before.pk) if before else told
    first = same.last()
    return first.at if first else last.at
