"""Write a batch to the database in one transaction. States only move to higher versions.

Large numbers of rows are written in plain SQL that runs on both SQLite and PostgreSQL; that takes a
third of the time that model instances take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any
from uuid import UUID

import structlog
from django.db import connection, transaction
from django.utils.module_loading import import_string

from dashboard.core.common.sql import (
    STATEMENT,
    analyze_new_tables,
    chunks,
    execute_many,
    insert_many,
    lock_until_commit,
    on_conflict,
    use_indexes,
)
from dashboard.core.job import ingestion as job_ingestion
from dashboard.core.states import models, queries
from dashboard.core.states import rows as state_rows
from dashboard.core.states.caveats import DOUBTS, Doubts, doubts_of
from dashboard.core.states.ingestion import (
    AssetKey,
    BatchChanges,
    NewRecord,
    SinkBatch,
    StoredRecord,
)
from dashboard.core.states.models import (
    MAX_OUTCOME,
    Answer,
    AssetState,
    Divergence,
    advance_offsets,
    forget_log,
)
from dashboard.core.states.name_search import add_runs
from dashboard.core.states.rows import (
    COLUMNS,
    ReadableRecord,
    Shown,
    change_row,
    is_read_again,
    kind_of,
    place_of,
    record_row,
    same_content,
    same_epoch,
)
from domain.scenario import Scenario
from wire.sink import StateValue

log = structlog.get_logger(__name__)

REPLACE = on_conflict("states_assetstate", COLUMNS, COLUMNS[:2], ("version",))
REPLACE_TRANSITION = on_conflict(
    "states_transition", state_rows.CHANGE_COLUMNS, state_rows.CHANGE_COLUMNS[:3], ("version",)
)
_INDEXED = itemgetter(*map(COLUMNS.index, queries.INDEXED))
RENEWED = tuple(name for name in COLUMNS[2:] if name not in queries.INDEXED)
_RENEWED = itemgetter(*map(COLUMNS.index, RENEWED))
_VERSION, _PURGED = COLUMNS.index("version"), COLUMNS.index("purged")
_DOUBTED = itemgetter(*map(COLUMNS.index, DOUBTS))
RENEW = f"""\
UPDATE states_assetstate SET {", ".join(f'"{name}" = %s' for name in RENEWED)}
WHERE id = %s AND version < %s"""  # noqa: S608 - our own names
"""SQLite writes every index that has a named column, even if its value is unchanged."""
COUNT = """\
INSERT INTO states_statecount (scenario, state, n) VALUES (%s, %s, %s)
ON CONFLICT (scenario, state) DO UPDATE SET n = states_statecount.n + excluded.n"""
COUNT_DOUBT = """\
INSERT INTO states_doubtcount (scenario, doubt, n) VALUES (%s, %s, %s)
ON CONFLICT (scenario, doubt) DO UPDATE SET n = states_doubtcount.n + excluded.n"""

GROWING = (
    "states_assetstate",
    "states_transition",
    "incidents_incident",
    "notifications_incidentevent",
    "summaries_presence",
    "summaries_impairedspan",
)
"""Tables that get new rows with most batches."""


_NOTHING = StoredRecord()
Known = dict[AssetKey, StoredRecord]
Step = Callable[[BatchChanges], None]

STEPS = (
    "dashboard.watch.agents.reports.ingest_changes",
    "dashboard.serve.materialiser.writer.write_states",
    "dashboard.watch.annotations.acknowledgements.ingest_changes",
    "dashboard.watch.incidents.ingestion.ingest_changes",
    "dashboard.notify.summaries.ingestion.ingest_changes",
    "dashboard.watch.commands.ingestion.ingest_changes",
    "dashboard.notify.notifications.ingestion.ingest_changes",
    "dashboard.watch.annotations.labels.ingest_changes",
    "dashboard.serve.materialiser.writer.write_answers",
    "dashboard.watch.commands.ingestion.ingest_answers",
    "dashboard.serve.materialiser.writer.write_heartbeats",
    "dashboard.watch.agents.reports.ingest_lateness",
    "dashboard.serve.materialiser.writer.write_progress",
    "dashboard.core.rules.ingestion.ingest_changes",
    "dashboard.operate.dead_letters.ingestion.ingest_changes",
    "dashboard.operate.console.samples.ingest_changes",
    "dashboard.operate.requests.ingestion.ingest_changes",
)
"""The packages' functions that write a batch, in this order, in one transaction."""


@cache
def steps() -> tuple[Step, ...]:
    """Return the functions that STEPS names."""
    return tuple(map(import_string, STEPS))


def write(batch: SinkBatch, scenarios: dict[str, Scenario], now: int) -> None:
    """Write the batch and the offsets that it reaches, or nothing. now: Unix ms."""
    analyze_new_tables(GROWING)
    with transaction.atomic():
        use_indexes()
        _alone(batch.offsets)
        changes = compare(batch, scenarios, stored(batch.states), now)
        _check_repeated(changes)
        _count_dropped(batch, changes.dropped)
        for step in steps():
            step(changes)
        advance_offsets(batch.offsets)
        count(changes.counts)  # last, as the scenario's other writers wait from here on
        count_doubts(changes.doubts)
        for finish in changes.last:
            finish()
        models.add_counts(batch.counted)


# ---- states -------------------------------------------------------------------------------


def _alone(offsets: Iterable[tuple[str, int]]) -> None:
    """Lock these partitions for this transaction until it ends.

    Otherwise another writer could change a row between our read and our write, and it would be
    counted twice.
    """
    for topic, partition in sorted(offsets):
        lock_until_commit(topic, str(partition))


def stored(places: Iterable[AssetKey]) -> Known:
    """Return what the database has for these assets."""
    by_scenario: dict[str, list[str]] = {}
    for scenario, asset in places:
        by_scenario.setdefault(scenario, []).append(asset)
    known: Known = {}
    for scenario, assets in by_scenario.items():
        for asset, kept in queries.stored(scenario, assets).items():
            known[scenario, asset] = StoredRecord(
                kept.version,
                Shown(kept.state, "unconfirmed" in kept.doubts),
                kept.doubts,
                kept.waits,
                pk=kept.pk,
                indexed=kept.indexed,
            )
    return known


def compare(
    batch: SinkBatch, scenarios: dict[str, Scenario], known: Known, now: int
) -> BatchChanges:
    """Return the changes that the records make to what is known; older versions are dropped."""
    changes = BatchChanges(batch, scenarios, now)
    again = _shown_before_again(batch, known)
    for place, records in batch.states.items():
        scenario = scenarios[place[0]]
        before = current = known.get(place, _NOTHING)
        newest = None
        for seen in records:
            if seen.version > current.version:
                shown = again.get((*place, seen.version), current.shown)
                current = _record(changes, scenario, seen, current, shown)
                newest = seen
            elif seen.version == current.version:
                _repeat(changes, place[0], current, seen)
            elif not same_epoch(seen.version, current.version):
                changes.dropped[place[0]] += 1
        if newest is not None:
            _record_newest(changes, scenario, newest, before)
    return changes


def _record(
    changes: BatchChanges,
    scenario: Scenario,
    seen: ReadableRecord,
    current: StoredRecord,
    shown: Shown,
) -> StoredRecord:
    """Record what a new record changes. Returns what is known of the asset after it.

    shown: what the asset showed before the record, as far as its history is concerned.
    """
    shape, name = seen.shape, scenario.name
    after = _shown_after(seen)
    changes.records.append(NewRecord(scenario, seen, current, after))
    if isinstance(shape, StateValue) and shape.tasks:
        changes.tasks.append((name, seen))
    kind = kind_of(shown, after, shape.cause.type)
    if kind is not None and not _is_repeated(seen, current):
        changes.transitions.append(change_row(name, seen, kind, shown))
    return StoredRecord(seen.version, after, record=seen.text)


# ---- records that a new epoch reads again ---------------------------------------------------
# An asset's last record comes again, and changes nothing. What another one changed cannot be seen
# from what the asset shows by now: its history says it.

HISTORY_BEFORE = """\
WITH again (asset, place) AS (VALUES {values})
SELECT again.asset, again.place, t.place, t.state, t.unconfirmed
FROM again JOIN states_transition t ON t.scenario = %s AND t.asset = again.asset
AND t.place = (
    SELECT max(earlier.place) FROM states_transition earlier
    WHERE earlier.scenario = t.scenario AND earlier.asset = again.asset
    AND earlier.place < again.place AND earlier.cause_type <> %s)"""


def _shown_before_again(batch: SinkBatch, known: Known) -> dict[tuple[str, str, str], Shown]:
    """Return what assets showed before the records of the batch that are read again.

    By scenario, asset and version.
    """
    again: dict[str, list[tuple[ReadableRecord, list[ReadableRecord]]]] = {}
    for (scenario, asset), records in batch.states.items():
        version = known.get((scenario, asset), _NOTHING).version
        for at, seen in enumerate(records):
            if seen.version > version:
                if is_read_again(seen.version, version):
                    again.setdefault(scenario, []).append((seen, records[:at]))
                version = seen.version
    return {
        (scenario, seen.asset, seen.version): shown
        for scenario, pairs in again.items()
        for seen, shown in _shown_before(scenario, pairs)
    }


def _shown_before(
    scenario: str, pairs: list[tuple[ReadableRecord, list[ReadableRecord]]]
) -> Iterator[tuple[ReadableRecord, Shown]]:
    """Yield records with what their assets showed before them.

    pairs: each with those before it in the batch.
    """
    for chunk in chunks(pairs, STATEMENT // 2):
        history = _history_before(scenario, [(seen.asset, seen.place) for seen, _ in chunk])
        for seen, batched in chunk:
            place, shown = history.get((seen.asset, seen.place), ("", Shown()))
            earlier = [each for each in batched if place <= each.place < seen.place]
            yield seen, _shown_after(max(earlier, key=PLACE)) if earlier else shown


PLACE = attrgetter("place")


def _history_before(
    scenario: str, places: list[tuple[str, str]]
) -> dict[tuple[str, str], tuple[str, Shown]]:
    """Return place and outcome of the last change before a place, by asset and that place."""
    sql = HISTORY_BEFORE.format(values=", ".join(["(%s, %s)"] * len(places)))
    with connection.cursor() as cursor:
        cursor.execute(sql, [*chain.from_iterable(places), scenario, models.IMPORT])
        return {
            (asset, place): (changed, Shown(state, bool(unconfirmed)))
            for asset, place, changed, state, unconfirmed in cursor.fetchall()
        }


def _is_repeated(seen: ReadableRecord, current: StoredRecord) -> bool:
    """Return whether a record of a new epoch shows what the asset's last record showed."""
    return (seen.place, _shown_after(seen)) == (place_of(current.version), current.shown)


def _shown_after(seen: ReadableRecord) -> Shown:
    """Return what an asset shows after a record."""
    return Shown(seen.state, isinstance(seen.shape, StateValue) and seen.shape.unconfirmed)


# ---- the newest record of an asset ----------------------------------------------------------


def _record_newest(
    changes: BatchChanges, scenario: Scenario, newest: ReadableRecord, before: StoredRecord
) -> None:
    """Add the row of an asset's newest record, and what it adds to the counts."""
    name, row = scenario.name, record_row(scenario, newest)
    _record_row(changes, row, before)
    changes.newest.setdefault(name, {})[newest.asset] = newest
    if not is_read_again(newest.version, before.version):
        changes.fresh.setdefault(name, []).append(newest)
    _move(changes.counts, name, before.shown.state, newest.state)
    _doubt(changes.doubts, name, before.doubts, _doubts(row))


def _record_row(changes: BatchChanges, row: tuple[Any, ...], before: StoredRecord) -> None:
    """Add an asset's new row."""
    if not before.pk:
        changes.names.append(row[1])
    if before.pk and _INDEXED(row) == before.indexed:
        changes.renewed.append((before.pk, row))
    else:
        changes.rows.append(row)


def _doubts(row: tuple[Any, ...]) -> Doubts:
    return () if row[_PURGED] else doubts_of(*_DOUBTED(row))


def _doubt(counts: Counter[AssetKey], scenario: str, before: Doubts, after: Doubts) -> None:
    """Count an asset's doubts, replacing `before` by `after`."""
    if before == after:
        return
    for doubt in before:
        counts[scenario, doubt] -= 1
    for doubt in after:
        counts[scenario, doubt] += 1


def _move(counts: Counter[AssetKey], scenario: str, before: str, after: str) -> None:
    """Count an asset's move between states; an empty state means it is not on the board."""
    if before != after:
        counts[scenario, before] -= bool(before)
        counts[scenario, after] += bool(after)


def _repeat(
    changes: BatchChanges, scenario: str, current: StoredRecord, seen: ReadableRecord
) -> None:
    if current.record is None:
        changes.repeated.append((scenario, seen))
    elif not same_content(current.record, seen.text):
        changes.divergences.append(_divergence(scenario, current.record, seen, changes.now))


def _check_repeated(changes: BatchChanges) -> None:
    """Compare records whose versions the database already has with what it has."""
    for chunk in chunks(changes.repeated, STATEMENT):
        assets = {seen.asset for _, seen in chunk}
        rows = AssetState.objects.filter(asset__in=assets)
        kept = {(s, a): record for s, a, record in rows.values_list("scenario", "asset", "record")}
        for scenario, seen in chunk:
            record = kept[scenario, seen.asset]
            if not same_content(record, seen.text):
                changes.divergences.append(_divergence(scenario, record, seen, changes.now))


def _count_dropped(batch: SinkBatch, dropped: Mapping[str, int]) -> None:
    """Count and log records of lower epochs; only those of a replay of this topic are usual."""
    for scenario, n in dropped.items():
        batch.counted["lower-epoch", scenario] += n
        log.warning("records of a lower epoch are dropped", scenario=scenario, records=n)


def count(moves: Mapping[AssetKey, int]) -> None:
    """Add to the numbers of assets by scenario and state."""
    _add(COUNT, moves)


def count_doubts(moves: Mapping[AssetKey, int]) -> None:
    """Add to the numbers of assets in doubt by scenario."""
    _add(COUNT_DOUBT, moves)


def _add(sql: str, numbers: Mapping[tuple[str, str], int]) -> None:
    """Add to stored numbers, in sorted order to avoid deadlocks."""
    execute_many(sql, [(*key, number) for key, number in sorted(numbers.items()) if number])


def _divergence(scenario: str, kept: str, seen: ReadableRecord, now: int) -> Divergence:
    log.error(
        "divergence: one version, two contents",
        scenario=scenario,
        asset=seen.asset,
        version=seen.version,
    )
    return Divergence(
        scenario=scenario,
        asset=seen.asset,
        version=seen.version,
        kept=kept,
        other=seen.text,
        found_at=now,
    )


def write_states(changes: BatchChanges) -> None:
    """Write the rows of assets and their history."""
    _write_rows(changes)
    _write_transitions(changes.transitions)


def _write_rows(changes: BatchChanges) -> None:
    """Write the rows of assets, only to higher versions, and add the runs of new names."""
    add_runs(changes.names)
    if connection.vendor == "sqlite":
        renewals = ((*_RENEWED(row), pk, row[_VERSION]) for pk, row in changes.renewed)
        execute_many(RENEW, list(renewals))
        insert_many("states_assetstate", COLUMNS, changes.rows, REPLACE)
    else:
        rows = [*changes.rows, *(row for _, row in changes.renewed)]
        insert_many("states_assetstate", COLUMNS, rows, REPLACE)


def _write_transitions(rows: Iterable[tuple[Any, ...]]) -> None:
    """Write the history; of several records of one place the newest counts."""
    newest = {row[:3]: row for row in rows}
    insert_many(
        "states_transition", state_rows.CHANGE_COLUMNS, list(newest.values()), REPLACE_TRANSITION
    )


# ---- answers ------------------------------------------------------------------------------


def write_answers(changes: BatchChanges) -> None:
    """Store divergences, and the first answer to each command."""
    Divergence.objects.bulk_create(changes.divergences, ignore_conflicts=True)
    answers = changes.batch.answers
    if answers:
        rows = [_answer_row(scenario, seen) for scenario, seen in answers]
        Answer.objects.bulk_create(rows, ignore_conflicts=True)


def _answer_row(scenario: str, seen: ReadableRecord) -> Answer:
    assert seen.shape.answer is not None
    return Answer(
        command=str(UUID(seen.shape.answer.command)),
        scenario=scenario,
        asset=seen.asset,
        outcome=seen.shape.answer.outcome[:MAX_OUTCOME],
        version=seen.version,
        at=seen.shape.cause.time,
    )


# ---- what the job says --------------------------------------------------------------------


def write_heartbeats(changes: BatchChanges) -> None:
    """Store each bucket's heartbeat; forget what was known of a log that is gone."""
    beats = changes.batch.beats.values()
    changes.replaced = job_ingestion.replaced_logs(beats)
    for beat in changes.replaced:
        forget_log(beat.scenario, beat.partition)
    job_ingestion.ingest_heartbeats(beats, changes.now)


def write_progress(changes: BatchChanges) -> None:
    """Store the progress of queries and pipelines."""
    batch = changes.batch
    job_ingestion.ingest_progress(batch.progress)
    job_ingestion.ingest_pipeline_progress(batch.pipelines)
