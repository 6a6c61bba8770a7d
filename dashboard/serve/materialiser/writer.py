"""A batch into the database: one transaction, states only upwards.

Plain SQL where rows are many: it runs on SQLite and on PostgreSQL alike, and takes a third of the
time that model instances take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple
from uuid import UUID

import structlog
from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Coalesce

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
from dashboard.core.job.models import FIGURES
from dashboard.core.rules import ingestion as rule_ingestion
from dashboard.core.rules import log_replay
from dashboard.core.states import models, queries
from dashboard.core.states import rows as state_rows
from dashboard.core.states.caveats import DOUBTS, Doubts, doubts_of
from dashboard.core.states.models import CHANGE, Answer, AssetState, Divergence, advance_offsets
from dashboard.core.states.name_search import add_runs
from dashboard.core.states.rows import (
    COLUMNS,
    ReadableRecord,
    Shown,
    change_row,
    is_read_again,
    kind_of,
    record_row,
    same_content,
    same_epoch,
)
from dashboard.notify.notifications import ingestion as notification_ingestion
from dashboard.notify.summaries import ingestion as summary_ingestion
from dashboard.notify.summaries import raw_history
from dashboard.notify.summaries.ingestion import Condition, condition_of, move_of
from dashboard.operate.console import samples
from dashboard.operate.dead_letters.ingestion import ingest_letters
from dashboard.operate.requests import ingestion as request_ingestion
from dashboard.serve.materialiser.batch import AssetKey, SinkBatch
from dashboard.watch.agents import reports
from dashboard.watch.agents.mutes import dump
from dashboard.watch.agents.reports import ReportCounts
from dashboard.watch.annotations import labels
from dashboard.watch.annotations.acknowledgements import StateChange, end_by
from dashboard.watch.commands import ingestion as command_ingestion
from dashboard.watch.commands.models import Command
from dashboard.watch.incidents import ingestion as incident_ingestion
from domain.scenario import Scenario
from wire.batch_query import Result, WhatIfResult
from wire.job import Heartbeat
from wire.sink import StateValue

log = structlog.get_logger(__name__)

MAX_OUTCOME = 200
"""Longest outcome kept, characters."""

BEAT = (*FIGURES, "mutes", "received_at")

REPLACE = on_conflict("states_assetstate", COLUMNS, COLUMNS[:2], ("version",))
REPLACE_TRANSITION = on_conflict(
    "states_transition", state_rows.CHANGE_COLUMNS, state_rows.CHANGE_COLUMNS[:3], ("version",)
)
REPLACE_BEAT = on_conflict("job_bucketstatus", BEAT, ("bucket",), ("epoch", "offset", "at"))
_INDEXED = itemgetter(*map(COLUMNS.index, queries.INDEXED))
RENEWED = tuple(name for name in COLUMNS[2:] if name not in queries.INDEXED)
_RENEWED = itemgetter(*map(COLUMNS.index, RENEWED))
_VERSION, _PURGED = COLUMNS.index("version"), COLUMNS.index("purged")
_DOUBTED = itemgetter(*map(COLUMNS.index, DOUBTS))
RENEW = f"""\
UPDATE states_assetstate SET {", ".join(f'"{name}" = %s' for name in RENEWED)}
WHERE id = %s AND version < %s"""  # noqa: S608 - our own names
"""SQLite writes every index of which a column is named, be its value as it was."""
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
"""Tables that get rows with most batches."""


class StoredRecord(NamedTuple):
    """The database's record of an asset; `record` only of what was read in this batch, `doubts`,
    `pk` and `indexed` only of what was there before; condition: what summaries look at."""

    version: str
    state: str
    doubts: Doubts = ()
    condition: Condition = Condition()
    record: str | None = None
    pk: int = 0
    indexed: tuple[Any, ...] = ()


_NOTHING = StoredRecord("", "")
Known = dict[AssetKey, StoredRecord]


@dataclass
class BatchChanges:
    """The changes of states in a batch, against what the database has.

    rows: of assets; renewed: of those whose place in most indexes stays as it was, with their ids;
    names: of new assets;
    repeated: records of the very version that the database has, by asset; counts: by how many more
    assets are in a state now, by scenario and state; doubts: by how many more there is a doubt of,
    by scenario and doubt; newest: of each asset that has changed, by scenario; moves: what
    summaries record of each, by scenario; tasks: records that tell of tasks, with their scenario;
    dropped: how many records were of a lower epoch than what the database has, by scenario.
    """

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    renewed: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    transitions: list[tuple[Any, ...]] = field(default_factory=list)
    repeated: list[tuple[str, ReadableRecord]] = field(default_factory=list)
    divergences: list[Divergence] = field(default_factory=list)
    counts: Counter[AssetKey] = field(default_factory=Counter)
    doubts: Counter[AssetKey] = field(default_factory=Counter)
    newest: dict[str, dict[str, ReadableRecord]] = field(default_factory=dict)
    fresh: dict[str, list[ReadableRecord]] = field(default_factory=dict)
    moves: dict[str, summary_ingestion.ByAsset] = field(default_factory=dict)
    agents: ReportCounts = field(default_factory=ReportCounts)
    tasks: list[tuple[str, ReadableRecord]] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)


def write(batch: SinkBatch, scenarios: dict[str, Scenario], now: int) -> None:
    """Write the batch and the offsets it reaches to, or nothing. `now`: Unix ms."""
    analyze_new_tables(GROWING)
    with transaction.atomic():
        use_indexes()
        _alone(batch.offsets)
        changes = compare(batch, scenarios, stored(batch.states), now)
        _check_repeated(changes, now)
        _count_dropped(batch, changes.dropped)
        changes.agents.write(now)
        _write_rows(changes)
        _write_transitions(changes.transitions)
        moves = list(_moves(changes))
        end_by(moves, scenarios, now)
        notification_ingestion.ingest_incidents(incident_ingestion.record(moves, scenarios), now)
        dirty = summary_ingestion.record(changes.moves, scenarios)
        for name, since in raw_history.ingest_heartbeats(batch.beats.values(), now).items():
            dirty[name] = min(since, dirty.get(name, since))
        command_ingestion.record(changes.tasks, changes.newest)
        notification_ingestion.ingest_task_runs(changes.tasks, now)
        labels.ingest_vote_labels(changes.newest, now)
        Divergence.objects.bulk_create(changes.divergences, ignore_conflicts=True)
        _answer(batch.answers, now)
        _beat(batch.beats.values(), now)
        batch.counted.update(reports.ingest_late_reports(batch.late))
        reports.keep_last_reports(
            changes.agents.newest(now), reports.newest_late_reports(batch.late)
        )
        job_ingestion.ingest_progress(batch.progress)
        job_ingestion.ingest_pipeline_progress(batch.pipelines)
        log_replay.ingest_bounds(batch.progress)
        rule_ingestion.ingest_rules(batch.progress)
        ingest_letters(batch.letters)
        samples.add_sample(changes.fresh, batch.beats.values(), batch.letters, now)
        _ingest_results(batch.results, now)
        advance_offsets(batch.offsets)
        count(changes.counts)  # last, as a scenario's other writers wait from here on
        count_doubts(changes.doubts)
        summary_ingestion.mark(dirty)
        models.add_counts(batch.counted)


# ---- states -------------------------------------------------------------------------------


def _alone(offsets: Iterable[tuple[str, int]]) -> None:
    """Lock these partitions for ourselves until the transaction ends.

    Else another writer could change a row between our look at it and our writing, and it would be
    counted twice.
    """
    for topic, partition in sorted(offsets):
        lock_until_commit(topic, str(partition))


def stored(places: Iterable[AssetKey]) -> Known:
    """Return what the database has of these assets."""
    by_scenario: dict[str, list[str]] = {}
    for scenario, asset in places:
        by_scenario.setdefault(scenario, []).append(asset)
    known: Known = {}
    for scenario, assets in by_scenario.items():
        for asset, kept in queries.stored(scenario, assets).items():
            known[scenario, asset] = StoredRecord(
                kept.version,
                kept.state,
                kept.doubts,
                _before(kept),
                pk=kept.pk,
                indexed=kept.indexed,
            )
    return known


def _before(kept: queries.Kept) -> Condition:
    """Return the condition that the database knows: not which state is pending, but that one is."""
    return Condition(kept.state, "unconfirmed" in kept.doubts, "?" if kept.waits else "")


def compare(
    batch: SinkBatch, scenarios: dict[str, Scenario], known: Known, now: int
) -> BatchChanges:
    """Return the changes that each asset's records make to what is known; drop older versions."""
    changes = BatchChanges()
    for place, records in batch.states.items():
        scenario = scenarios[place[0]]
        before = current = known.get(place, _NOTHING)
        newest = None
        for seen in records:
            if seen.version > current.version:
                current = _record(changes, scenario, seen, current, before.condition)
                newest = seen
            elif seen.version == current.version:
                _repeat(changes, place[0], current, seen, now)
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
    before: Condition,
) -> StoredRecord:
    """Note what a new record changes. before: the asset's condition before the batch.

    Returns what is known of the asset after it.
    """
    shape, condition = seen.shape, condition_of(scenario, seen)
    if isinstance(shape, StateValue) and shape.tasks:
        changes.tasks.append((scenario.name, seen))
    changes.agents.record(scenario.name, shape.cause, condition.state != current.state)
    _record_transition(changes, scenario.name, seen, current, condition)
    _record_move(changes, (scenario.name, seen.asset), seen, current, before, condition)
    return StoredRecord(seen.version, condition.state, (), condition, seen.text)


def _record_newest(
    changes: BatchChanges, scenario: Scenario, newest: ReadableRecord, before: StoredRecord
) -> None:
    """Note the row of an asset's newest record, and what is counted by it."""
    name, shape, row = scenario.name, newest.shape, record_row(scenario, newest)
    _record_row(changes, row, before)
    changes.newest.setdefault(name, {})[newest.asset] = newest
    if not is_read_again(newest.version, before.version):
        changes.fresh.setdefault(name, []).append(newest)
    if isinstance(shape, StateValue):
        changes.agents.votes(name, shape.votes)
    _move(changes.counts, name, before.state, newest.state)
    _doubt(changes.doubts, name, before.doubts, _doubts(row))


def _record_row(changes: BatchChanges, row: tuple[Any, ...], before: StoredRecord) -> None:
    """Note the new row of an asset."""
    if not before.pk:
        changes.names.append(row[1])
    if before.pk and _INDEXED(row) == before.indexed:
        changes.renewed.append((before.pk, row))
    else:
        changes.rows.append(row)


def _record_transition(
    changes: BatchChanges,
    scenario: str,
    seen: ReadableRecord,
    current: StoredRecord,
    condition: Condition,
) -> None:
    """Note what the asset's history keeps of a record."""
    before = Shown(current.state, current.condition.unconfirmed)
    after = Shown(condition.state, condition.unconfirmed)
    kind = kind_of(before, after, seen.shape.cause.type)
    if kind is not None:
        changes.transitions.append(change_row(scenario, seen, kind, before))


def _record_move(
    changes: BatchChanges,
    place: AssetKey,
    seen: ReadableRecord,
    current: StoredRecord,
    before: Condition,
    condition: Condition,
) -> None:
    """Note what summaries record of a record: what changes the condition, or comes again."""
    if condition == current.condition and same_epoch(seen.version, current.version):
        return
    move = move_of(seen, current.version, current.state, condition)
    if condition != current.condition or move.anew:
        of_assets = changes.moves.setdefault(place[0], {})
        of_assets.setdefault(place[1], summary_ingestion.Moves(before)).steps.append(move)


def _doubts(row: tuple[Any, ...]) -> Doubts:
    return () if row[_PURGED] else doubts_of(*_DOUBTED(row))


def _doubt(counts: Counter[AssetKey], scenario: str, before: Doubts, after: Doubts) -> None:
    """Count an asset's doubts, `after` in place of `before`."""
    if before == after:
        return
    for doubt in before:
        counts[scenario, doubt] -= 1
    for doubt in after:
        counts[scenario, doubt] += 1


def _move(counts: Counter[AssetKey], scenario: str, before: str, after: str) -> None:
    """Count an asset as gone from one state to another; empty: it is not on the board."""
    if before != after:
        counts[scenario, before] -= bool(before)
        counts[scenario, after] += bool(after)


def _moves(changes: BatchChanges) -> Iterator[StateChange]:
    """Yield the changes of a state, as acknowledgements look at them."""
    for scenario, asset, place, kind, _version, at, previous, state, *_ in changes.transitions:
        if kind == CHANGE:
            yield StateChange(scenario, asset, place, at, state, previous)


def _repeat(
    changes: BatchChanges, scenario: str, current: StoredRecord, seen: ReadableRecord, now: int
) -> None:
    if current.record is None:
        changes.repeated.append((scenario, seen))
    elif not same_content(current.record, seen.text):
        changes.divergences.append(_divergence(scenario, current.record, seen, now))


def _check_repeated(changes: BatchChanges, now: int) -> None:
    """Compare records of versions that the database already has with its own."""
    for chunk in chunks(changes.repeated, STATEMENT):
        assets = {seen.asset for _, seen in chunk}
        rows = AssetState.objects.filter(asset__in=assets)
        kept = {(s, a): record for s, a, record in rows.values_list("scenario", "asset", "record")}
        for scenario, seen in chunk:
            record = kept[scenario, seen.asset]
            if not same_content(record, seen.text):
                changes.divergences.append(_divergence(scenario, record, seen, now))


def _count_dropped(batch: SinkBatch, dropped: Mapping[str, int]) -> None:
    """Count and log the records of lower epochs: only those of a replay of this topic are usual."""
    for scenario, n in dropped.items():
        batch.counted["lower-epoch", scenario] += n
        log.warning("records of a lower epoch are dropped", scenario=scenario, records=n)


def count(moves: Mapping[AssetKey, int]) -> None:
    """Count so many more assets of a scenario in a state, or fewer."""
    _add(COUNT, moves)


def count_doubts(moves: Mapping[AssetKey, int]) -> None:
    """Count so many more assets of a scenario that there is a doubt of, or fewer."""
    _add(COUNT_DOUBT, moves)


def _add(sql: str, numbers: Mapping[tuple[str, str], int]) -> None:
    """Add to kept numbers. In order: no deadlock."""
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


def _write_rows(changes: BatchChanges) -> None:
    """Write the rows of assets, each of them upwards only, and what new names are made of."""
    add_runs(changes.names)
    if connection.vendor == "sqlite":
        renewals = ((*_RENEWED(row), pk, row[_VERSION]) for pk, row in changes.renewed)
        execute_many(RENEW, list(renewals))
        insert_many("states_assetstate", COLUMNS, changes.rows, REPLACE)
    else:
        rows = [*changes.rows, *(row for _, row in changes.renewed)]
        insert_many("states_assetstate", COLUMNS, rows, REPLACE)


def _write_transitions(rows: Iterable[tuple[Any, ...]]) -> None:
    """Write what history keeps; of records of one place it is the newest."""
    newest = {row[:3]: row for row in rows}
    insert_many(
        "states_transition", state_rows.CHANGE_COLUMNS, list(newest.values()), REPLACE_TRANSITION
    )


# ---- answers ------------------------------------------------------------------------------


def _answer(answers: Sequence[tuple[str, ReadableRecord]], now: int) -> None:
    """Store each command's first answer, and settle the commands that were given here."""
    if not answers:
        return
    rows = [_answer_row(scenario, seen) for scenario, seen in answers]
    Answer.objects.bulk_create(rows, ignore_conflicts=True)
    waiting = Command.objects.filter(pk__in={UUID(row.command) for row in rows})
    ours = set(waiting.unanswered().values_list("pk", flat=True))
    for row, (_, seen) in zip(rows, answers, strict=True):
        if UUID(row.command) in ours:
            _settle(row, seen, now)


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


def _settle(answer: Answer, seen: ReadableRecord, now: int) -> None:
    """Record the first answer to a command that was given here, about the same asset."""
    cause = seen.shape.cause
    row = Command.objects.filter(
        pk=UUID(answer.command), scenario=answer.scenario, asset=answer.asset
    )
    row.unanswered().update(
        status="answered",
        outcome=answer.outcome,
        version=seen.version,
        answered_at=now,
        partition=Coalesce(F("partition"), cause.partition),
        offset=Coalesce(F("offset"), cause.offset),
    )


# ---- what the job says, and how far we are --------------------------------------------------


def _beat(beats: Iterable[Heartbeat], now: int) -> None:
    """Store each bucket's heartbeat, unless what is kept is of a later moment."""
    rows = [(*(getattr(beat, name) for name in FIGURES), dump(beat.mutes), now) for beat in beats]
    insert_many("job_bucketstatus", BEAT, rows, REPLACE_BEAT)
    job_ingestion.record_ahead({row[0] for row in rows})


def _ingest_results(results: Sequence[Result], now: int) -> None:
    """Store the parts of results of batch queries that were requested here."""
    for result in results:
        try:
            request = UUID(result.ask)
        except ValueError:
            continue  # another program's
        if isinstance(result, WhatIfResult):
            request_ingestion.ingest_trial(request, result, now)
        else:
            request_ingestion.ingest_reading(request, result, now)
