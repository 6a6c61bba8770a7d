"""Reports of pipelines in `job.pipelines`, into the database; in the materialiser's transaction."""

from __future__ import annotations

from collections.abc import Sequence

from dashboard.job.ingestion import settle_answer
from dashboard.pipelines.models import PipelineStatus
from wire.pipeline import PipelineProgress, encode_pipeline

MOST_PIPELINES = 200
"""At most so many are kept; reports of others are passed over."""


def take_in(records: Sequence[PipelineProgress]) -> None:
    """Store each pipeline's newest report, and settle the requests that are answered."""
    newest = {record.name: record for record in records if record.answer is None}
    if newest:
        known = set(PipelineStatus.objects.values_list("name", flat=True))
        room = MOST_PIPELINES - len(known)
        fresh = [name for name in newest if name not in known][: max(0, room)]
        PipelineStatus.objects.bulk_create(
            [_row(newest[name]) for name in newest if name in known or name in fresh],
            update_conflicts=True,
            unique_fields=["name"],
            update_fields=["at", "status", "record"],
        )
    for record in records:
        if record.answer is not None:
            settle_answer(record.answer, record.at)


def _row(record: PipelineProgress) -> PipelineStatus:
    text = encode_pipeline(record).decode()
    return PipelineStatus(name=record.name, at=record.at, status=record.status, record=text)
