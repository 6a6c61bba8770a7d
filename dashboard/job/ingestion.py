"""The job's reports in `job.progress`, into the database; in the materialiser's transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
from django.db.models import F, Q

from dashboard.core.models import named_fields
from dashboard.core.retention import delete_surplus
from dashboard.job.models import BucketStatus, JobProgress, JobRequest
from dashboard.job.requests import settle
from wire.job import AHEAD_MS, Answer, Progress

PROGRESS_KEPT = 20_000
"""Most records of a query: more than the worker leaves when it thins them out."""
AS_REPORTED = (
    "query", "at", "status", "epoch", "message", "restarts", "since", "trigger", "error",
    "standby",
)  # fmt: skip
"""What is kept of a record as it is."""


def take_in(records: Sequence[Progress]) -> None:
    """Store how the queries fare, and settle the requests that are answered."""
    progress = [record for record in records if record.answer is None and record.carried is None]
    JobProgress.objects.bulk_create(_row(record) for record in progress)
    for query in {record.query for record in progress}:
        newest = JobProgress.objects.filter(query=query).order_by("-id")
        delete_surplus(newest, PROGRESS_KEPT)
    for record in records:
        if record.answer is not None:
            settle_answer(record.answer, record.at)


def note_ahead(buckets: Collection[str]) -> None:
    """Store since when the clocks of these buckets are ahead of the job's own by too much."""
    ahead = Q(log_time__gt=F("at") + AHEAD_MS)
    rows = BucketStatus.objects.filter(bucket__in=buckets)
    rows.filter(ahead, ahead_since=None).update(ahead_since=F("at"))
    rows.exclude(ahead).exclude(ahead_since=None).update(ahead_since=None)


def _row(record: Progress) -> JobProgress:
    checkpoint, stopped = record.checkpoint, record.stopped
    return JobProgress(
        **named_fields(record, AS_REPORTED),
        batch=msgspec.json.encode(record.batch).decode() if record.batch else "",
        checkpoint_batch=checkpoint.batch if checkpoint else None,
        checkpoint_at=checkpoint.at if checkpoint else None,
        checkpoint_size=checkpoint.size if checkpoint else None,
        stopped_by=stopped.user if stopped else "",
        stopped_reason=stopped.reason if stopped else "",
        clocks_behind=_dump_clocks(record),
    )


def _dump_clocks(record: Progress) -> str:
    return msgspec.json.encode(record.clocks_behind).decode() if record.clocks_behind else ""


def settle_answer(answer: Answer, at: int) -> None:
    """Settle the request that was answered at `at`, Unix ms."""
    step = answer.step
    more = {"step_done": step.done, "step_of": step.of, "step_what": step.what} if step else {}
    settle(JobRequest.objects.filter(action=answer.action), answer, at, **more)
