"""Store the results of trials and the rows read from the state store."""

from __future__ import annotations

from uuid import UUID

import msgspec

from dashboard.core.common.models import named_fields
from dashboard.core.common.sql import chunks
from dashboard.core.states.ingestion import BatchChanges
from dashboard.core.states.models import AssetState
from dashboard.operate.requests.models import Reading, StoredRow, Trial, TrialResult
from dashboard.operate.requests.state_store import Board, RecordComparison, judge, judge_missing
from domain.version import Version
from wire.batch_query import (
    MOST_DIFFERENT,
    MOST_ROWS,
    Difference,
    Stored,
    StoredAsset,
    WhatIfResult,
)

# ---- results -------------------------------------------------------------------------------------
# Results of batch queries, stored in the materialiser's transaction.


def ingest_changes(changes: BatchChanges) -> None:
    """Store the partial results of batch queries that were requested here."""
    for result in changes.batch.results:
        try:
            request = UUID(result.ask)
        except ValueError:
            continue  # requested by another program
        if isinstance(result, WhatIfResult):
            ingest_trial(request, result, changes.now)
        else:
            ingest_reading(request, result, changes.now)


# ---- what if -------------------------------------------------------------------------------------
# Results of trials, stored in the materialiser's transaction.

CHUNK = 500
"""Rows written per statement."""


def ingest_trial(request: UUID, result: WhatIfResult, _now: int) -> None:
    """Store part of a trial's result if the trial was requested here."""
    trial = Trial.objects.filter(pk=request, complete=False).first()
    if trial is None:
        return
    known = trial.results.count()
    rows = [_row(trial, known + at, row) for at, row in enumerate(result.rows)]
    room = max(0, MOST_DIFFERENT - known)
    TrialResult.objects.bulk_create(rows[:room], batch_size=CHUNK, ignore_conflicts=True)
    if result.last and result.totals is not None:
        trial.totals, trial.complete = msgspec.json.encode(result.totals).decode(), True
        trial.save(update_fields=["totals", "complete"])


def _row(trial: Trial, place: int, row: Difference) -> TrialResult:
    return TrialResult(
        trial=trial,
        place=place,
        **named_fields(row, ("asset", "gained", "lost", "earlier", "later", "shift")),
        record=msgspec.json.encode(row).decode(),
    )


# ---- state store ---------------------------------------------------------------------------------
# Rows of the state store, each stored with the board's record at that moment.

# Rows read or written per statement.


def ingest_reading(request: UUID, result: Stored, now: int) -> None:
    """Store part of a reading if the reading was requested here."""
    reading = Reading.objects.filter(pk=request, complete=False).first()
    if reading is None:
        return
    room = max(0, MOST_ROWS - reading.rows.count())
    for rows in chunks(result.rows[:room], CHUNK):
        names = [row.asset for row in rows]
        boards = _boards(reading.scenario, names)
        StoredRow.objects.bulk_create(
            (_state_store_row(reading, row, result.epoch, boards.get(row.asset)) for row in rows),
            ignore_conflicts=True,
        )
    if result.last:
        _complete(reading, result, now)


def _complete(reading: Reading, result: Stored, now: int) -> None:
    reading.complete, reading.received_at = True, now
    reading.engine, reading.epoch, reading.batch = result.engine, result.epoch, result.batch
    reading.committed_at, reading.cut = result.committed_at, result.cut
    reading.buckets = msgspec.json.encode(result.buckets).decode()
    reading.save()
    if not result.cut:
        _add_missing(reading, result)


def _add_missing(reading: Reading, result: Stored) -> None:
    """Add rows for the assets that the board shows but the store does not have."""
    reached = {bucket.partition: bucket.offset for bucket in result.buckets}
    shown = AssetState.objects.filter(scenario=reading.scenario, purged=False)
    shown = shown.filter(partition__in=list(reached), asset__gt=reading.after)
    if reading.asset:
        shown = shown.filter(asset=reading.asset)
    known = reading.rows.values("asset")
    missing = shown.exclude(asset__in=known).order_by("asset")[:MOST_ROWS]
    for rows in chunks(missing.iterator(CHUNK), CHUNK):
        StoredRow.objects.bulk_create(
            _missing_row(
                reading, row, judge_missing(result.epoch, reached[row.partition], _board(row))
            )
            for row in rows
        )


def _state_store_row(
    reading: Reading, row: StoredAsset, epoch: int, board: Board | None
) -> StoredRow:
    judged = judge(row, epoch, board)
    return StoredRow(
        reading=reading,
        asset=row.asset,
        partition=row.partition,
        state=row.state or "",
        verdict=judged.verdict,
        fields=", ".join(judged.fields),
        version=f"{epoch}.{row.offset}.{row.step}",
        since=row.since if row.state is not None else None,
        votes=len(row.votes),
        due=row.timers[0][0] if row.timers else None,
        board_state="" if board is None else _state(board),
        board_version="" if board is None else board.version,
        record=msgspec.json.encode(row).decode(),
        board="" if board is None else board.record,
    )


def _missing_row(reading: Reading, row: AssetState, judged: RecordComparison) -> StoredRow:
    board = _board(row)
    return StoredRow(
        reading=reading,
        asset=row.asset,
        partition=row.partition,
        verdict=judged.verdict,
        fields=", ".join(judged.fields),
        board_state=row.state,
        board_version=board.version,
        board=row.record,
    )


def _boards(scenario: str, assets: list[str]) -> dict[str, Board]:
    rows = AssetState.objects.filter(scenario=scenario, asset__in=assets)
    return {row.asset: _board(row) for row in rows}


def _board(row: AssetState) -> Board:
    epoch, offset, step = map(int, row.version.split("."))
    return Board(str(Version(epoch, offset, step)), row.changed_at, row.purged, row.record)


def _state(board: Board) -> str:
    return "" if board.purged else str(msgspec.json.decode(board.record)["state"])
