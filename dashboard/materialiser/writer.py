"""A batch into the database: one transaction, states only upwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import structlog
from django.db import connection, transaction

from dashboard.board.models import Answer, AssetState, Transition
from dashboard.commands.models import Command
from dashboard.job.models import BucketStatus, JobProgress
from dashboard.materialiser.batch import Batch, Place
from dashboard.materialiser.models import Divergence, SinkOffset
from dashboard.materialiser.rows import COLUMNS, columns_of, content_of
from dashboard.metrics import DIVERGENCES
from domain.records import StateRecord, Tombstone
from domain.scenario import Scenario
from wire.job import Heartbeat, Progress

log = structlog.get_logger(__name__)

CHUNK = 400
"""Assets asked for in one query: SQLite takes a limited number of parameters."""

PROGRESS_KEPT = 500
"""How many records of the job's progress are kept per query."""

Known = dict[Place, "Stored"]


class Stored(NamedTuple):
    """What the database has of an asset."""

    version: str
    state: str
    record: str


_NOTHING = Stored("", "", "")


class Changes(NamedTuple):
    """What the states of a batch come to, against what the database has."""

    rows: list[dict[str, Any]]
    transitions: list[Transition]
    divergences: list[Divergence]


def write(batch: Batch, scenarios: dict[str, Scenario], now: int) -> None:
    """Write the batch and the offsets it reaches to, or nothing. `now`: Unix ms."""
    with transaction.atomic():
        changes = compare(batch, scenarios, stored(batch.states), now)
        _upsert(changes.rows)
        Transition.objects.bulk_create(changes.transitions, ignore_conflicts=True)
        Divergence.objects.bulk_create(changes.divergences)
        _answer(batch)
        _beat(batch.beats.values(), now)
        _progress(batch.progress)
        _advance(batch.offsets)


def stored(places: Iterable[Place]) -> Known:
    """What the database has of these assets."""
    by_scenario: dict[str, list[str]] = {}
    for scenario, asset in places:
        by_scenario.setdefault(scenario, []).append(asset)
    known: Known = {}
    for scenario, assets in by_scenario.items():
        for chunk in chunks(assets, CHUNK):
            found = AssetState.objects.filter(scenario=scenario, asset__in=chunk)
            for asset, *fields in found.values_list("asset", "version", "state", "record"):
                known[scenario, asset] = Stored(*fields)
    return known


def compare(batch: Batch, scenarios: dict[str, Scenario], known: Known, now: int) -> Changes:
    """Follow each asset's records upwards from what is known; older versions are dropped."""
    changes = Changes([], [], [])
    for place, records in batch.states.items():
        if place[0] not in scenarios:
            log.warning("states of a scenario that is not configured", scenario=place[0])
            continue
        newest = None
        current = known.get(place, _NOTHING)
        for record in records:
            version = record.version.sortable()
            if version == current.version:
                _check(changes, place[0], current, record, now)
            elif version > current.version:
                state = record.state if isinstance(record, StateRecord) else ""
                if state != current.state:
                    changes.transitions.append(_transition(place, record, current.state, state))
                current = Stored(version, state, content_of(record))
                newest = record
        if newest is not None:
            changes.rows.append(columns_of(scenarios[place[0]], newest))
    return changes


def _check(
    changes: Changes, scenario: str, current: Stored, record: StateRecord | Tombstone, now: int
) -> None:
    content = content_of(record)
    if content == current.record:
        return
    DIVERGENCES.labels(scenario).inc()
    log.error(
        "divergence: one version, two contents",
        scenario=scenario,
        asset=record.asset,
        version=str(record.version),
    )
    changes.divergences.append(
        Divergence(
            scenario=scenario,
            asset=record.asset,
            version=current.version,
            kept=current.record,
            other=content,
            found_at=now,
        )
    )


def _transition(
    place: Place, record: StateRecord | Tombstone, previous: str, state: str
) -> Transition:
    return Transition(
        scenario=place[0],
        asset=place[1],
        version=record.version.sortable(),
        at=record.cause.time,
        previous=previous,
        state=state,
        cause_type=record.cause.type,
        cause=msgspec.json.encode(record.cause).decode(),
    )


def _upsert(rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows, or raise those that are there to a higher version; never lower one."""
    if not rows:
        return
    names = ", ".join(f'"{name}"' for name in COLUMNS)
    values = ", ".join(["%s"] * len(COLUMNS))
    changes = ", ".join(f'"{name}" = excluded."{name}"' for name in COLUMNS[2:])
    sql = (
        f"INSERT INTO board_assetstate ({names}) VALUES ({values}) "  # noqa: S608 - our own names
        f"ON CONFLICT (scenario, asset) DO UPDATE SET {changes} "
        "WHERE excluded.version > board_assetstate.version"
    )
    with connection.cursor() as cursor:
        cursor.executemany(sql, [tuple(row[name] for name in COLUMNS) for row in rows])


def _answer(batch: Batch) -> None:
    answers = [
        Answer(
            command=record.answer.command,
            scenario=scenario,
            asset=asset,
            outcome=record.answer.outcome,
            version=record.version.sortable(),
            at=record.cause.time,
        )
        for (scenario, asset), records in batch.states.items()
        for record in records
        if record.answer is not None
    ]
    Answer.objects.bulk_create(answers, ignore_conflicts=True)
    for answer in answers:
        open_ones = Command.objects.filter(pk=UUID(answer.command)).exclude(status="answered")
        open_ones.update(
            status="answered",
            outcome=answer.outcome,
            version=answer.version,
            answered_at=answer.at,
        )


def _beat(beats: Iterable[Heartbeat], now: int) -> None:
    rows = [BucketStatus(**msgspec.structs.asdict(beat), received_at=now) for beat in beats]
    BucketStatus.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["bucket"],
        update_fields=[*Heartbeat.__struct_fields__[1:], "received_at"],
    )


def _progress(records: Sequence[Progress]) -> None:
    JobProgress.objects.bulk_create(_progress_row(record) for record in records)
    for query in {record.query for record in records}:
        kept = JobProgress.objects.filter(query=query).order_by("-id")
        oldest = kept.values_list("id", flat=True)[PROGRESS_KEPT : PROGRESS_KEPT + 1]
        for first in oldest:
            JobProgress.objects.filter(query=query, id__lte=first).delete()


def _progress_row(record: Progress) -> JobProgress:
    batch = msgspec.json.encode(record.batch).decode() if record.batch else ""
    return JobProgress(
        query=record.query,
        at=record.at,
        status=record.status,
        epoch=record.epoch,
        message=record.message,
        restarts=record.restarts,
        batch=batch,
    )


def _advance(offsets: dict[tuple[str, int], int]) -> None:
    rows = [
        SinkOffset(topic=topic, partition=partition, next_offset=offset)
        for (topic, partition), offset in offsets.items()
    ]
    SinkOffset.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["topic", "partition"],
        update_fields=["next_offset"],
    )


def chunks(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of at most `size` items."""
    remaining = iter(items)
    while chunk := list(islice(remaining, size)):
        yield chunk
