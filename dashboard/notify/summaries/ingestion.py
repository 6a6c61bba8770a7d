"""Raw history: spans and alarms, written in the transaction that writes the states.

A step is a record that changes something that summaries are based on. A record that comes again, as
in a rebuild, has the same place: see `domain.history.runs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Max, Q

from dashboard.core.common.sql import LONG, chunks, execute_many, insert_many, on_conflict
from dashboard.core.common.times import MINUTE_MS
from dashboard.core.job.models import BucketStatus
from dashboard.core.states.ingestion import AssetKey, BatchChanges, NewRecord, StoredRecord
from dashboard.core.states.queries import fetched
from dashboard.core.states.rows import ReadableRecord, place_of, same_epoch
from dashboard.notify.summaries.models import (
    Alarm,
    Gap,
    ImpairedSpan,
    Presence,
    Progress,
    SpanRow,
    seal_of,
)
from domain.history.runs import Run, Step, Track
from domain.scenario import Scenario
from wire.job import Heartbeat
from wire.sink import PendingValue, StateValue

GAP_MS = 5 * MINUTE_MS
"""Heartbeats come every second. A shorter silence is a restart of the job, or of a broker."""


class Condition(NamedTuple):
    """The parts of a record that matter for summaries. state: "" if there is no such asset;
    unconfirmed: its mark; wait: the worse state that is pending, "" for none."""

    state: str = ""
    unconfirmed: bool = False
    wait: str = ""


class Move(NamedTuple):
    """A record that changes the condition. at: Unix ms; anew: it is repeated from an earlier epoch,
    so that what was known from its place on is void."""

    place: str
    at: int
    condition: Condition
    anew: bool


@dataclass
class Moves:
    """The moves of one asset in a batch, in order. before: its condition in the database, where
    `wait` is any non-empty text if a state is pending."""

    before: Condition
    steps: list[Move] = field(default_factory=list)


ByAsset = dict[str, Moves]


def condition_of(scenario: Scenario, seen: ReadableRecord) -> Condition:
    """Return the parts of a record that matter for summaries."""
    shape = seen.shape
    if not isinstance(shape, StateValue):
        return Condition()
    return Condition(shape.state, shape.unconfirmed, _wait(scenario, shape.state, shape.pending))


def _wait(scenario: Scenario, state: str, pending: PendingValue | None) -> str:
    """Return the pending state if it is worse than the current one."""
    return pending.state if pending and _is_worse(scenario, pending.state, state) else ""


def _is_worse(scenario: Scenario, pending: str, state: str) -> bool:
    if scenario.life_cycle:
        return scenario.is_good(state) and not scenario.is_good(pending)
    return scenario.severity(pending) < scenario.severity(state)


def move_of(
    seen: ReadableRecord, known_version: str, known_state: str, condition: Condition
) -> Move:
    """Return the move that a record makes, given the asset's known version and state."""
    shape = seen.shape
    anew = bool(known_version) and seen.place <= place_of(known_version)
    at = shape.cause.time
    if isinstance(shape, StateValue) and condition.state != known_state and not anew:
        at = shape.since  # the record of the change may have been compacted away
    return Move(seen.place, at, condition, anew)


def ingest_changes(changes: BatchChanges) -> None:
    """Write the changes from a batch's records and heartbeats, and have them summed up again."""
    dirty = record(moves_of(changes.records), changes.scenarios)
    for name, since in ingest_heartbeats(changes.batch.beats.values(), changes.now).items():
        dirty[name] = min(since, dirty.get(name, since))
    changes.last.append(partial(Progress.objects.mark, dirty))


def moves_of(records: Iterable[NewRecord]) -> dict[str, ByAsset]:
    """Return the records that change the condition of assets, or are repeated, by scenario."""
    moves: dict[str, ByAsset] = {}
    known: dict[AssetKey, tuple[Condition, Condition]] = {}
    for scenario, seen, stored, _ in records:
        place = scenario.name, seen.asset
        first, current = known.get(place) or (kept := _kept_condition(stored), kept)
        condition = condition_of(scenario, seen)
        known[place] = first, condition
        if condition == current and same_epoch(seen.version, stored.version):
            continue
        move = move_of(seen, stored.version, stored.shown.state, condition)
        if condition != current or move.anew:
            of_assets = moves.setdefault(scenario.name, {})
            of_assets.setdefault(seen.asset, Moves(first)).steps.append(move)
    return moves


def _kept_condition(stored: StoredRecord) -> Condition:
    """Return the condition in the database: it has whether a state is pending, but not which."""
    return Condition(*stored.shown, "?" if stored.waits else "")


def record(batch: Mapping[str, ByAsset], scenarios: Mapping[str, Scenario]) -> dict[str, int]:
    """Write the spans and alarms that the moves of a batch begin, change and end.

    Return since when history has changed, by scenario, Unix ms.
    """
    dirty: dict[str, int] = {}
    for name, of_assets in batch.items():
        for assets in chunks(sorted(of_assets), LONG):
            portion = {asset: of_assets[asset] for asset in assets}
            since = _record(scenarios[name], portion)
            if since is not None:
                dirty[name] = min(since, dirty.get(name, since))
    return dirty


def ingest_heartbeats(beats: Iterable[Heartbeat], now: int) -> dict[str, int]:
    """Store the gaps that these heartbeats end. Call it before the heartbeats are stored.

    Return since when history must be summed up again, by scenario, Unix ms.
    """
    newest: dict[str, int] = {}
    for beat in beats:
        newest[beat.scenario] = max(min(beat.at, now), newest.get(beat.scenario, 0))
    silent = {name: at for name, at in newest_heartbeats(newest).items() if now - at > GAP_MS}
    if not silent:
        return {}
    Gap.objects.bulk_create(
        [
            Gap(scenario=name, begin=at, end=newest[name])
            for name, at in sorted(silent.items())
            if newest[name] - at > GAP_MS
        ],
        ignore_conflicts=True,
    )
    summed = Progress.objects.filter(scenario__in=silent).values_list("scenario", flat=True)
    return {name: silent[name] for name in summed}


def newest_heartbeats(scenarios: Iterable[str]) -> dict[str, int]:
    """Return the time of the newest heartbeat in the database, by scenario, if there is one."""
    rows = BucketStatus.objects.filter(scenario__in=list(scenarios)).order_by()
    return dict(rows.values_list("scenario").annotate(Max("at")))


def _record(scenario: Scenario, of_assets: ByAsset) -> int | None:
    """Write what the moves of some assets of a scenario change, and return since when."""
    sinces = [
        _write(kind, scenario, {a: m for a, m in of_assets.items() if _concerns(kind, m)})
        for kind in KINDS
    ]
    return min((since for since in sinces if since is not None), default=None)


# ---- the three kinds of spans -------------------------------------------------------------------


class SpanKind(NamedTuple):
    """A kind of spans. key: what identifies a span in a condition, None if there is none; columns:
    those besides the columns of every span; values: of these columns, for a run and the conditions
    by place; key_of_row: the key, from the values of these columns; sealed: whether rows have a
    seal."""

    model: type[SpanRow]
    key: Callable[[Scenario, Condition], Any]
    columns: tuple[str, ...]
    values: Callable[[Scenario, Run, Mapping[str, Condition]], Any]
    key_of_row: Callable[[Any], Any]
    sealed: bool = False


def _presence(_scenario: Scenario, condition: Condition) -> bool | None:
    return True if condition.state else None


def _bad_condition(scenario: Scenario, condition: Condition) -> tuple[str, bool] | None:
    state, unconfirmed, _ = condition
    if not state or (scenario.is_good(state) and not unconfirmed):
        return None
    return (state, unconfirmed)


def _alarm(_scenario: Scenario, condition: Condition) -> bool | None:
    return True if condition.wait else None


def _alarm_values(
    scenario: Scenario, run: Run, conditions: Mapping[str, Condition]
) -> tuple[str, bool | None]:
    """Return the last state that was pending, and whether it came true."""
    waits = [
        condition.wait
        for place, condition in conditions.items()
        if run.place <= place and (run.end is None or place < run.end_place)
    ]
    state = waits[-1] if waits else run.note
    if run.end is None:
        return state, None
    return state, came_true(scenario, conditions[run.end_place].state, state)


def came_true(scenario: Scenario, state: str, pending: str) -> bool:
    """Return whether a state is the one that was pending, or as severe."""
    if not state:
        return False
    if scenario.life_cycle:
        return not scenario.is_good(state)
    return scenario.severity(state) <= scenario.severity(pending)


KINDS = (
    SpanKind(Presence, _presence, (), lambda *_: (), lambda _row: True),
    SpanKind(
        ImpairedSpan,
        _bad_condition,
        ("state", "unconfirmed"),
        lambda _scenario, run, _conditions: run.key,
        lambda own: (own[0], bool(own[1])),
    ),
    SpanKind(Alarm, _alarm, ("state", "came_true"), _alarm_values, lambda _row: True, sealed=True),
)


def _concerns(kind: SpanKind, moves: Moves) -> bool:
    """Return whether moves may change spans of this kind.

    The rule may have changed meanwhile, so this does not depend on which states are good.
    """
    if kind.model is Alarm:
        return bool(moves.before.wait) or any(s.anew or s.condition.wait for s in moves.steps)
    if kind.model is Presence:
        there = bool(moves.before.state)
        return any(s.anew or bool(s.condition.state) != there for s in moves.steps)
    before = moves.before[:2]
    return any(s.anew or s.condition[:2] != before for s in moves.steps)


# ---- reading and writing them -------------------------------------------------------------------

SPAN = ("scenario", "asset", "place", "begin", "end", "end_place")


def _write(kind: SpanKind, scenario: Scenario, of_assets: ByAsset) -> int | None:
    """Write the spans of one kind, and return since when they have changed."""
    if not of_assets:
        return None
    known = _known(kind, scenario.name, of_assets)
    rows: list[tuple[Any, ...]] = []
    gone: list[tuple[str, str, str]] = []
    sinces: list[int] = []
    for asset, moves in of_assets.items():
        track = follow(kind, scenario, known.get(asset, ()), moves.steps)
        conditions = {step.place: step.condition for step in moves.steps}
        for place in track.touched:
            run = track.runs[place]
            own = kind.values(scenario, run, conditions)
            span = (scenario.name, asset, place, run.begin, run.end, run.end_place)
            seal = (seal_of(*span, *own),) if kind.sealed else ()
            rows.append((*span, *own, *seal))
        gone += [(scenario.name, asset, place) for place in track.gone]
        if track.since is not None:
            sinces.append(track.since)
    execute_many(_delete(kind), gone)
    columns = (*SPAN, *kind.columns, *(["seal"] if kind.sealed else []))
    table = kind.model._meta.db_table  # noqa: SLF001 - documented API
    insert_many(table, columns, rows, on_conflict(table, columns, SPAN[:3]))
    return min(sinces, default=None)


def follow(
    kind: SpanKind, scenario: Scenario, known: Iterable[Run], steps: Sequence[Move]
) -> Track:
    """Return the runs of one kind and asset, given the known runs and these moves."""
    track = Track(known)
    for step in steps:
        key = kind.key(scenario, step.condition)
        track.take(Step(step.place, step.at, key, step.anew))
        if kind.model is Alarm and key and track.current:
            track.touched.add(track.current.place)  # another state may be pending
    return track


def _known(kind: SpanKind, scenario: str, of_assets: ByAsset) -> dict[str, list[Run]]:
    """Return the runs that moves may change: open ones, and if a record was repeated, all from its
    place on."""
    columns = ("asset", *SPAN[2:], *kind.columns)
    spans = fetched(_open(kind, columns), scenario, of_assets)
    rows = kind.model._default_manager.filter(scenario=scenario)  # noqa: SLF001 - documented API
    for asset, moves in of_assets.items():
        void = [step.place for step in moves.steps if step.anew]
        if void:
            later = Q(place__gte=min(void)) | Q(end_place__gte=min(void))
            ended = rows.filter(later, asset=asset, end__isnull=False)
            spans += ended.values_list(*columns)
    runs: dict[str, list[Run]] = {}
    for asset, place, begin, end, end_place, *own in spans:
        key, note = kind.key_of_row(own), own[0] if own else ""
        runs.setdefault(asset, []).append(Run(place, begin, key, end, end_place, note))
    return runs


def _open(kind: SpanKind, columns: Iterable[str]) -> str:
    """Return the query for a scenario's spans that go on."""
    quote = connection.ops.quote_name
    table = quote(kind.model._meta.db_table)  # noqa: SLF001 - documented API
    names = ", ".join(map(quote, columns))
    return f'SELECT {names} FROM {table} WHERE "end" IS NULL AND scenario = %s'  # noqa: S608


def _delete(kind: SpanKind) -> str:
    table = connection.ops.quote_name(kind.model._meta.db_table)  # noqa: SLF001 - documented API
    return f"DELETE FROM {table} WHERE scenario = %s AND asset = %s AND place = %s"  # noqa: S608
