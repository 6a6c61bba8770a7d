"""Raw history: spans and alarms, written in the transaction that writes the states.

A step is a record that changes something of what summaries rest on. A record that comes again, as
in a rebuild, has the same place: see `domain.history.runs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Q

from dashboard.core.common.sql import LONG, chunks, execute_many, insert_many, on_conflict
from dashboard.core.states.queries import fetched
from dashboard.core.states.rows import ReadableRecord, place_of
from dashboard.notify.summaries.models import Alarm, ImpairedSpan, Presence, SpanRow
from domain.history.runs import Run, Step, Track
from domain.scenario import Scenario
from wire.sink import PendingValue, StateValue

MARK = """\
INSERT INTO summaries_progress (scenario, dirty_since, turn) VALUES (%s, %s, 0)
ON CONFLICT (scenario) DO UPDATE SET dirty_since =
CASE WHEN summaries_progress.dirty_since < excluded.dirty_since
THEN summaries_progress.dirty_since ELSE excluded.dirty_since END"""


class Condition(NamedTuple):
    """What summaries look at in a record. state: "" where there is no such asset; unconfirmed: its
    mark; wait: the worse state that is pending, "" for none."""

    state: str = ""
    unconfirmed: bool = False
    wait: str = ""


class Move(NamedTuple):
    """A record after which the condition is another. at: Unix ms; anew: it came before, in an
    epoch before, and what was known from its place on is void."""

    place: str
    at: int
    condition: Condition
    anew: bool


@dataclass
class Moves:
    """The moves of one asset in a batch, in order. before: its condition as the database has it,
    where `wait` is any text if there is one."""

    before: Condition
    steps: list[Move] = field(default_factory=list)


ByAsset = dict[str, Moves]


def condition_of(scenario: Scenario, seen: ReadableRecord) -> Condition:
    """Return what summaries look at in a record."""
    shape = seen.shape
    if not isinstance(shape, StateValue):
        return Condition()
    return Condition(shape.state, shape.unconfirmed, _wait(scenario, shape.state, shape.pending))


def _wait(scenario: Scenario, state: str, pending: PendingValue | None) -> str:
    """Return the pending state if it is worse."""
    return pending.state if pending and _is_worse(scenario, pending.state, state) else ""


def _is_worse(scenario: Scenario, pending: str, state: str) -> bool:
    if scenario.life_cycle:
        return scenario.is_good(state) and not scenario.is_good(pending)
    return scenario.severity(pending) < scenario.severity(state)


def move_of(
    seen: ReadableRecord, known_version: str, known_state: str, condition: Condition
) -> Move:
    """Return the move that a record makes, after a known version of the asset with its state."""
    shape = seen.shape
    anew = bool(known_version) and seen.place <= place_of(known_version)
    at = shape.cause.time
    if isinstance(shape, StateValue) and condition.state != known_state and not anew:
        at = shape.since  # its own record may have been compacted away
    return Move(seen.place, at, condition, anew)


def record(batch: Mapping[str, ByAsset], scenarios: Mapping[str, Scenario]) -> dict[str, int]:
    """Write the spans and alarms that the moves of a batch begin, change and end.

    Returns since when history is other than it was, by scenario, Unix ms.
    """
    dirty: dict[str, int] = {}
    for name, of_assets in batch.items():
        for assets in chunks(sorted(of_assets), LONG):
            portion = {asset: of_assets[asset] for asset in assets}
            since = _record(scenarios[name], portion)
            if since is not None:
                dirty[name] = min(since, dirty.get(name, since))
    return dirty


def mark(dirty: Mapping[str, int]) -> None:
    """Have scenarios summed up again from a time (Unix ms) on. Within the transaction that changed
    what is summed up, and last: other writers of a scenario wait from here on."""
    execute_many(MARK, sorted(dirty.items()))


def _record(scenario: Scenario, of_assets: ByAsset) -> int | None:
    """Write what the moves of some assets of a scenario change. Returns since when."""
    sinces = [
        _write(kind, scenario, {a: m for a, m in of_assets.items() if _concerns(kind, m)})
        for kind in KINDS
    ]
    return min((since for since in sinces if since is not None), default=None)


# ---- the three kinds of spans -------------------------------------------------------------------


class SpanKind(NamedTuple):
    """A kind of spans. key: of the condition in which one goes on, None where none does; columns:
    besides those of every span; values: of these, for a run and the condition that ended it;
    key_of_row: the key, by the values of these columns."""

    model: type[SpanRow]
    key: Callable[[Scenario, Condition], Any]
    columns: tuple[str, ...]
    values: Callable[[Scenario, Run, Mapping[str, Condition]], Any]
    key_of_row: Callable[[Any], Any]


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
    """Return the newest state that was pending, and whether it came true."""
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
    SpanKind(Alarm, _alarm, ("state", "came_true"), _alarm_values, lambda _row: True),
)


def _concerns(kind: SpanKind, moves: Moves) -> bool:
    """Return whether moves may change spans of this kind.

    A rule may have changed meanwhile: which states are good is not asked of what came before.
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
    """Write the spans of one kind. Returns since when they are other than they were."""
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
            rows.append((scenario.name, asset, place, run.begin, run.end, run.end_place, *own))
        gone += [(scenario.name, asset, place) for place in track.gone]
        if track.since is not None:
            sinces.append(track.since)
    execute_many(_delete(kind), gone)
    table, columns = kind.model._meta.db_table, (*SPAN, *kind.columns)  # noqa: SLF001 - documented
    insert_many(table, columns, rows, on_conflict(table, columns, SPAN[:3]))
    return min(sinces, default=None)


def follow(
    kind: SpanKind, scenario: Scenario, known: Iterable[Run], steps: Sequence[Move]
) -> Track:
    """Return the runs of one kind and asset, after those that are known and these moves."""
    track = Track(known)
    for step in steps:
        key = kind.key(scenario, step.condition)
        track.take(Step(step.place, step.at, key, step.anew))
        if kind.model is Alarm and key and track.current:
            track.touched.add(track.current.place)  # what is pending may be another state
    return track


def _known(kind: SpanKind, scenario: str, of_assets: ByAsset) -> dict[str, list[Run]]:
    """Return the runs that moves may change: open ones, and where a record came again, all from
    its place on."""
    columns = ("asset", *SPAN[2:], *kind.columns)
    found = fetched(_open(kind, columns), scenario, of_assets)
    rows = kind.model._default_manager.filter(scenario=scenario)  # noqa: SLF001 - documented API
    for asset, moves in of_assets.items():
        void = [step.place for step in moves.steps if step.anew]
        if void:
            later = Q(place__gte=min(void)) | Q(end_place__gte=min(void))
            ended = rows.filter(later, asset=asset, end__isnull=False)
            found += ended.values_list(*columns)
    runs: dict[str, list[Run]] = {}
    for asset, place, begin, end, end_place, *own in found:
        key, note = kind.key_of_row(own), own[0] if own else ""
        runs.setdefault(asset, []).append(Run(place, begin, key, end, end_place, note))
    return runs


def _open(kind: SpanKind, columns: Iterable[str]) -> str:
    """Return the query for the spans of a scenario that go on."""
    quote = connection.ops.quote_name
    table = quote(kind.model._meta.db_table)  # noqa: SLF001 - documented API
    names = ", ".join(map(quote, columns))
    return f'SELECT {names} FROM {table} WHERE "end" IS NULL AND scenario = %s'  # noqa: S608


def _delete(kind: SpanKind) -> str:
    table = connection.ops.quote_name(kind.model._meta.db_table)  # noqa: SLF001 - documented API
    return f"DELETE FROM {table} WHERE scenario = %s AND asset = %s AND place = %s"  # noqa: S608
