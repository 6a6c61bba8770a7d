"""Scheduled tasks follow the records of their assets, in the transaction that writes these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from django.db.models import F
from django.db.models.functions import Coalesce

from dashboard.core.common.sql import STATEMENT, chunks
from dashboard.core.states.ingestion import BatchChanges
from dashboard.core.states.models import MAX_OUTCOME
from dashboard.core.states.rows import ReadableRecord
from dashboard.watch.commands.models import CANCELLED, DONE, LEFT, PURGED, Command, ScheduledTask
from wire.sink import StateValue, TaskValue

FACTS = (
    "do", "state", "condition", "next_at", "every", "until", "times", "owner", "reason", "outcome",
    "ran_at", "aside", "ended_at", "ending",
)  # fmt: skip

ByAsset = Mapping[str, ReadableRecord]


def ingest_changes(changes: BatchChanges) -> None:
    """Write the tasks that a batch tells of."""
    record(changes.tasks, changes.newest)


def record(records: Iterable[tuple[str, ReadableRecord]], newest: Mapping[str, ByAsset]) -> None:
    """Write the tasks that records contain, and end those that the newest no longer contains.

    records: those with tasks, in order for each asset; newest: by scenario and asset.
    """
    rows: dict[tuple[str, str, UUID], ScheduledTask] = {}
    for scenario, seen in records:
        for row in _rows(scenario, seen):
            rows[_key(row)] = row
    for scenario, assets in newest.items():
        known = [row for row in _open(scenario, assets) if _key(row) not in rows]
        for row in [*known, *_of(rows.values(), scenario)]:
            if row.ended_at is None and row.task not in _ids(assets[row.asset]):
                _end(row, assets[row.asset])
                rows[_key(row)] = row
    for row in rows.values():
        row.pk = None  # asset and task say which one it is: new ones and known ones alike
    ScheduledTask.objects.bulk_create(
        rows.values(),
        update_conflicts=True,
        unique_fields=["scenario", "asset", "task"],
        update_fields=FACTS,
    )


def _key(row: ScheduledTask) -> tuple[str, str, UUID]:
    return row.scenario, row.asset, row.task


def _of(rows: Iterable[ScheduledTask], scenario: str) -> list[ScheduledTask]:
    return [row for row in rows if row.scenario == scenario]


def _open(scenario: str, assets: ByAsset) -> list[ScheduledTask]:
    """Return the open tasks of assets; where a scenario has none, no asset is looked for."""
    open_ = ScheduledTask.objects.open()
    if not open_.filter(scenario=scenario).exists():
        return []
    portions = (open_.of_assets(scenario, part) for part in chunks(sorted(assets), STATEMENT))
    return [row for portion in portions for row in portion]


def _rows(scenario: str, seen: ReadableRecord) -> list[ScheduledTask]:
    if not isinstance(seen.shape, StateValue):
        return []
    at = seen.shape.cause.time
    return [_row(scenario, seen.asset, task, at) for task in seen.shape.tasks]


def _row(scenario: str, asset: str, task: TaskValue, at: int) -> ScheduledTask:
    over = task.due is None
    return ScheduledTask(
        scenario=scenario,
        asset=asset,
        task=UUID(task.id),
        do=task.do,
        state=task.state or "",
        condition=task.condition or "",
        next_at=task.due,
        every=task.every,
        until=task.until,
        times=task.times,
        owner=task.user,
        reason=task.reason,
        outcome=task.outcome or "",
        ran_at=task.ran,
        aside=task.aside or "",
        ended_at=at if over else None,
        ending=DONE if over else "",
    )


def _ids(seen: ReadableRecord) -> set[UUID]:
    shape = seen.shape
    return {UUID(task.id) for task in shape.tasks} if isinstance(shape, StateValue) else set()


def _end(row: ScheduledTask, seen: ReadableRecord) -> None:
    """End a task that the newest record of its asset does not contain."""
    cause = seen.shape.cause
    if not isinstance(seen.shape, StateValue):
        own = cause.type == "schedule" and cause.command == str(row.task)
        row.end(cause.time, DONE if own else PURGED)
    else:
        row.end(cause.time, CANCELLED if cause.type == "cancelled" else LEFT)


# ---- answers -------------------------------------------------------------------------------------


def ingest_answers(changes: BatchChanges) -> None:
    """Settle the commands that were given here by their first answers."""
    answers = [
        (UUID(seen.shape.answer.command), *each)
        for each in changes.batch.answers
        if (seen := each[1]).shape.answer is not None
    ]
    if not answers:
        return
    waiting = Command.objects.filter(pk__in={command for command, *_ in answers})
    ours = set(waiting.unanswered().values_list("pk", flat=True))
    for command, scenario, seen in answers:
        if command in ours:
            _settle(command, scenario, seen, changes.now)


def _settle(command: UUID, scenario: str, seen: ReadableRecord, now: int) -> None:
    """Record the first answer to a command that was given here, about the same asset."""
    answer, cause = seen.shape.answer, seen.shape.cause
    assert answer is not None
    row = Command.objects.filter(pk=command, scenario=scenario, asset=seen.asset)
    row.unanswered().update(
        status="answered",
        outcome=answer.outcome[:MAX_OUTCOME],
        version=seen.version,
        answered_at=now,
        partition=Coalesce(F("partition"), cause.partition),
        offset=Coalesce(F("offset"), cause.offset),
    )
