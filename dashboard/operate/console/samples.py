"""How long a report takes to the board, how far the job is behind, and what it refuses, over time.

The materialiser measures it in the transaction that writes what is measured. Times in Unix ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dashboard.core.common.sql import execute_many
from dashboard.core.common.tables import Column, Table
from dashboard.core.common.times import HOUR_MS, MINUTE_MS
from dashboard.core.job.models import BucketStatus, JobSample, JobSampleQuerySet
from dashboard.core.states.ingestion import BatchChanges
from dashboard.core.states.rows import ReadableRecord
from dashboard.operate.dead_letters.models import DeadLetter
from wire.job import Heartbeat

SLOT_MS = 10_000
"""How much time a sample tells of, until samples are put together."""
BY_RECORD = frozenset(("report", "command"))
"""Causes whose record somebody waits for; what time causes is due when it is due."""
MOST_MS = HOUR_MS
"""What took longer was read once more, after a rebuild or a long outage: nobody waited for it."""
LINES = 10
"""Minutes that the page lists."""
MINUTES = Table(
    "",
    "From",
    Column.number("Emitted", "assets whose newest record a report or a command brought about"),
    Column.number(
        "Took, on average", "from the append in the log until the board’s database had it"
    ),
    Column.number("Longest"),
    Column.number("Clock behind, at most", "the bucket that was farthest behind"),
    Column.number("Dead letters"),
    narrow=True,
)

_TABLE = JobSample._meta.db_table  # noqa: SLF001 - Django's documented API
_ADD = f"""\
INSERT INTO {_TABLE} (scenario, slot, updates, waited, longest, behind, letters)
VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (slot, scenario) DO UPDATE SET
  updates = {_TABLE}.updates + excluded.updates,
  waited = {_TABLE}.waited + excluded.waited,
  longest = CASE WHEN excluded.longest > {_TABLE}.longest THEN excluded.longest
    ELSE {_TABLE}.longest END,
  behind = CASE WHEN excluded.behind > {_TABLE}.behind THEN excluded.behind
    ELSE {_TABLE}.behind END,
  letters = {_TABLE}.letters + excluded.letters"""  # noqa: S608 - our own names


@dataclass(slots=True)
class _Sample:
    updates: int = 0
    waited: int = 0
    longest: int = 0
    behind: int = 0
    letters: int = 0


def ingest_changes(changes: BatchChanges) -> None:
    """Add what a batch tells of how long reports take."""
    batch = changes.batch
    add_sample(changes.fresh, batch.beats.values(), batch.letters, changes.now)


def add_sample(
    newest: Mapping[str, Iterable[ReadableRecord]],
    beats: Iterable[Heartbeat],
    letters: Iterable[DeadLetter],
    now: int,
) -> None:
    """Add what a batch measures to the current sample.

    newest: by scenario, the newest records of assets that are of no place in the log that the
    database had already; now: Unix ms.
    """
    samples: dict[str, _Sample] = {}
    for scenario, records in newest.items():
        waits = [wait for seen in records if (wait := _wait(seen, now)) is not None]
        if waits:
            sample = samples.setdefault(scenario, _Sample())
            sample.updates, sample.waited, sample.longest = len(waits), sum(waits), max(waits)
    for beat in beats:
        sample = samples.setdefault(beat.scenario, _Sample())
        sample.behind = max(sample.behind, now - beat.log_time)
    for letter in letters:
        samples.setdefault(letter.scenario, _Sample()).letters += 1
    _write(samples, now - now % SLOT_MS)


def _wait(seen: ReadableRecord, now: int) -> int | None:
    cause = seen.shape.cause
    wait = max(0, now - cause.time)
    return wait if cause.type in BY_RECORD and wait <= MOST_MS else None


def _write(samples: Mapping[str, _Sample], slot: int) -> None:
    rows = [
        (scenario, slot, each.updates, each.waited, each.longest, each.behind, each.letters)
        for scenario, each in sorted(samples.items())
    ]
    execute_many(_ADD, rows)


# ---- what pages are updates --------------------------------------------------------------------


def history(query: str, back: int, width: int, now: int) -> dict[str, list[Any]]:
    """Return the samples of a query's scenarios, oldest first, in stretches of `width` ms.

    There is a list for each figure, and `at` in s.
    """
    rows = _of(query).filter(slot__gte=now - back).merged(width)
    return {
        "at": [row["at"] / 1000 for row in rows],
        "mean": [_mean(row) for row in rows],
        "longest": [row["longest"] if row["updates"] else None for row in rows],
        "behind": [row["behind"] for row in rows],
        "letters": [row["letters"] for row in rows],
    }


def lines(query: str, now: int) -> list[dict[str, Any]]:
    """Return the last minutes of a query, newest first, as the page lists them."""
    rows = _of(query).filter(slot__gte=now - LINES * MINUTE_MS).merged(MINUTE_MS)
    return [{**row, "mean": _mean(row)} for row in reversed(rows)][:LINES]


def _of(query: str) -> JobSampleQuerySet:
    carried = BucketStatus.objects.carried_by(query).values("scenario").distinct()
    return JobSample.objects.filter(scenario__in=carried)


def _mean(row: Mapping[str, Any]) -> int | None:
    return round(row["waited"] / row["updates"]) if row["updates"] else None
