"""Reports of the job and of the pipelines, into the database."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec
from django.db.models import F, Q

from dashboard.core.common.models import named_fields
from dashboard.core.common.retention import delete_surplus
from dashboard.core.common.sql import insert_many, on_conflict
from dashboard.core.job.models import FIGURES, BucketStatus, JobProgress, JobRequest, PipelineStatus
from dashboard.core.job.requests import settle
from domain.records import Mute
from wire.job import AHEAD_MS, Heartbeat, JobAnswer, QueryReport
from wire.pipeline import PipelineProgress, encode_pipeline

# ---- job -----------------------------------------------------------------------------------------
# The job's reports in `job.progress`, into the database; in the materialiser's transaction.

PROGRESS_KEPT = 20_000
"""Most records of a query: more than the worker leaves when it thins them out."""
AS_REPORTED = (
    "query", "at", "status", "epoch", "message", "restarts", "since", "trigger", "error",
    "standby",
)  # fmt: skip
"""What is kept of a record as it is."""


BEAT = (*FIGURES, "mutes", "received_at")
REPLACE_BEAT = on_conflict("job_bucketstatus", BEAT, ("bucket",), ("epoch", "offset", "at"))


def ingest_progress(records: Sequence[QueryReport]) -> None:
    """Store how the queries fare, and settle the requests that are answered."""
    progress = [record for record in records if record.answer is None and record.carried is None]
    JobProgress.objects.bulk_create(_row(record) for record in progress)
    for query in {record.query for record in progress}:
        newest = JobProgress.objects.filter(query=query).order_by("-id")
        delete_surplus(newest, PROGRESS_KEPT)
    for record in records:
        if record.answer is not None:
            settle_answer(record.answer, record.at)


def replaced_logs(beats: Iterable[Heartbeat]) -> list[Heartbeat]:
    """Return the heartbeats of buckets that read another log than the one that is kept."""
    logs = {beat.bucket: beat for beat in beats if beat.log}
    kept = BucketStatus.objects.filter(bucket__in=logs).exclude(log="")
    known = kept.values_list("bucket", "log", "epoch")
    return [
        logs[bucket]
        for bucket, log, epoch in known
        if logs[bucket].log != log and logs[bucket].epoch > epoch
    ]


def ingest_heartbeats(beats: Iterable[Heartbeat], now: int) -> None:
    """Store each bucket's heartbeat, unless what is kept is of a later moment."""
    rows = [
        (*(getattr(beat, name) for name in FIGURES), dump_mutes(beat.mutes), now) for beat in beats
    ]
    insert_many("job_bucketstatus", BEAT, rows, REPLACE_BEAT)
    record_ahead({row[0] for row in rows})


def dump_mutes(held: tuple[Mute, ...]) -> str:
    """Return a heartbeat's mutes as they are kept; empty where there are none."""
    return msgspec.json.encode(held).decode().replace("\\u0000", "\ufffd") if held else ""


def record_ahead(buckets: Collection[str]) -> None:
    """Store since when the clocks of these buckets are ahead of the job's own by too much."""
    ahead = Q(log_time__gt=F("at") + AHEAD_MS)
    rows = BucketStatus.objects.filter(bucket__in=buckets)
    rows.filter(ahead, ahead_since=None).update(ahead_since=F("at"))
    rows.exclude(ahead).exclude(ahead_since=None).update(ahead_since=None)


def _row(record: QueryReport) -> JobProgress:
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
        replaced=" ".join(record.replaced),
    )


def _dump_clocks(record: QueryReport) -> str:
    return msgspec.json.encode(record.clocks_behind).decode() if record.clocks_behind else ""


def settle_answer(answer: JobAnswer, at: int) -> None:
    """Settle the request that was answered at `at`, Unix ms."""
    step = answer.step
    more = {"step_done": step.done, "step_of": step.of, "step_what": step.what} if step else {}
    settle(JobRequest.objects.filter(action=answer.action), answer, at, **more)


# ---- pipelines -----------------------------------------------------------------------------------
# Reports of pipelines in `job.pipelines`, into the database; in the materialiser's transaction.

MOST_PIPELINES = 200
"""At most so many are kept; reports of others are passed over."""


def ingest_pipeline_progress(records: Sequence[PipelineProgress]) -> None:
    """Store each pipeline's newest report, and settle the requests that are answered."""
    newest = {record.name: record for record in records if record.answer is None}
    if newest:
        known = set(PipelineStatus.objects.values_list("name", flat=True))
        room = MOST_PIPELINES - len(known)
        fresh = [name for name in newest if name not in known][: max(0, room)]
        PipelineStatus.objects.bulk_create(
            [_pipeline_row(newest[name]) for name in newest if name in known or name in fresh],
            update_conflicts=True,
            unique_fields=["name"],
            update_fields=["at", "status", "record"],
        )
    for record in records:
        if record.answer is not None:
            settle_answer(record.answer, record.at)


def _pipeline_row(record: PipelineProgress) -> PipelineStatus:
    text = encode_pipeline(record).decode()
    return PipelineStatus(name=record.name, at=record.at, status=record.status, record=text)
