"""Retention of the job's progress: all of it for an hour, then ever less of it. Times in ms."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Max

from dashboard.core.chunks import chunks
from dashboard.core.retention import PORTION, Retention, Thinning
from dashboard.core.times import DAY_MS, HOUR_MS, MINUTE_MS
from dashboard.job.models import JobProgress, JobRequest

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


KEPT = (
    Thinning("progress of the job", thin, KEPT_MS),
    Retention("requests to the job", JobRequest, "asked_at", 90 * DAY_MS),
)
