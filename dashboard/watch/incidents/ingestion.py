"""Incidents begin, change and end with the changes of states, in the transaction that writes these.

A change has a place in the log. A rebuild brings the same changes again: an incident that begins
at the place of a known one is that one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from django.dispatch import Signal

from dashboard.core.common.sql import LONG, chunks, insert_many, on_conflict
from dashboard.core.states.ingestion import BatchChanges, StateChange, by_asset
from dashboard.core.states.queries import fetched
from dashboard.watch.annotations.row_marks import RowMark
from dashboard.watch.incidents.models import Incident
from domain.notifications.events import BEGUN, CHANGED, ENDED, WITHDRAWN
from domain.scenario import Scenario

KEY = ("scenario", "asset", "place")
"""Its place says which incident it is: new ones and known ones alike."""
WRITTEN = (*KEY, "began_at", "ended_at", "state", "worst", "changes")
NEW = (*WRITTEN, "acknowledged_by")
"""Columns of a new incident, which nobody has acknowledged."""
REPLACE = on_conflict("incidents_incident", WRITTEN, KEY)
_OPEN = f"""\
SELECT {", ".join(WRITTEN)} FROM incidents_incident
WHERE ended_at IS NULL AND scenario = %s"""  # noqa: S608 - our own names
_WRITTEN = attrgetter(*WRITTEN)


@dataclass(slots=True)
class Course:
    """The course of an incident so far, as `incidents.models.Incident` has it.

    A plain object: the materialiser makes thousands a second.
    """

    scenario: str
    asset: str
    place: str
    began_at: int
    ended_at: int | None
    state: str
    worst: str
    changes: int


class IncidentChange(NamedTuple):
    """What a change of a state made of an incident.

    kind: it began, its state changed, it ended, or a rebuild may not find it again; place, at: of
    the change; incident: the place at which the incident began; state: the asset's from then on;
    worst: of the incident's states so far.
    """

    kind: str
    scenario: str
    asset: str
    place: str
    at: int
    incident: str
    began_at: int
    state: str
    worst: str


incidents_changed = Signal()
"""Sent in the transaction that stores them. changes: what was made of them; now: Unix ms."""


def ingest_changes(changes: BatchChanges) -> None:
    """Begin, change and end incidents by the changes of a batch, and tell who listens."""
    made = record(changes.moves, changes.scenarios)
    incidents_changed.send(Incident, changes=made, now=changes.now)


def record(moves: Iterable[StateChange], scenarios: dict[str, Scenario]) -> list[IncidentChange]:
    """Begin, change and end incidents by changes of states, in order for each asset.

    Returns what was made of them, in order for each asset.
    """
    return [
        change
        for name, of_assets in by_asset(moves).items()
        for assets in chunks(sorted(of_assets), LONG)
        for change in _record(scenarios[name], {asset: of_assets[asset] for asset in assets})
    ]


def record_acknowledgements(scenario: str, marks: Iterable[RowMark], **_: Any) -> None:
    """Note on open incidents who acknowledged them first."""
    for mark in marks:
        if mark.ack is not None:
            of_asset = Incident.objects.filter(scenario=scenario, asset=mark.asset)
            of_asset.acknowledge(mark.ack.by, mark.ack.since)


def _record(scenario: Scenario, of_assets: dict[str, list[StateChange]]) -> list[IncidentChange]:
    """Take the changes of some assets of a scenario."""
    running = _open(scenario.name, of_assets)
    touched: list[Course] = []
    changes: list[IncidentChange] = []
    for asset, moves in of_assets.items():
        of_asset, its_changes = follow(scenario, running.get(asset, []), moves)
        touched += of_asset
        changes += its_changes
    _write(touched)
    return changes


def _open(scenario: str, assets: Collection[str]) -> dict[str, list[Course]]:
    """Return the open incidents of assets."""
    by_asset: dict[str, list[Course]] = {}
    for row in fetched(_OPEN, scenario, assets):
        by_asset.setdefault(row[1], []).append(Course(*row))
    return by_asset


def follow(
    scenario: Scenario, known: list[Course], moves: list[StateChange]
) -> tuple[list[Course], list[IncidentChange]]:
    """Return the incidents of one asset that its changes begin, change or end, and how.

    known: its open ones. One that is open although the change comes from a good state is of another
    rule, before a rebuild: it ends there.
    """
    touched = {each.place: each for each in known if _void(each, moves[0])}
    changes = [
        _change(WITHDRAWN, each, moves[0]._replace(place=each.place, at=each.began_at, state=""))
        for each in touched.values()
    ]
    current = next((each for each in known if each.place < moves[0].place), None)
    for move in moves:
        if current is not None and not (
            _is_bad(scenario, move.previous) and _is_bad(scenario, move.state)
        ):
            current.ended_at = move.at
            touched[current.place] = current
            changes.append(_change(ENDED, current, move))
            current = None
        if not _is_bad(scenario, move.state):
            continue
        if current is None:
            current = _begin(touched, move)
            changes.append(_change(BEGUN, current, move))
        else:
            _go_on(scenario, current, move.state)
            touched[current.place] = current
            changes.append(_change(CHANGED, current, move))
    return list(touched.values()), changes


def _write(incidents: Iterable[Course]) -> None:
    rows = [(*_WRITTEN(incident), "") for incident in incidents]
    insert_many("incidents_incident", NEW, rows, REPLACE)


def _change(kind: str, incident: Course, move: StateChange) -> IncidentChange:
    return IncidentChange(
        kind,
        move.scenario,
        move.asset,
        move.place,
        move.at,
        incident.place,
        incident.began_at,
        move.state,
        incident.worst,
    )


def _is_bad(scenario: Scenario, state: str) -> bool:
    """Return whether a state is one of an incident; "" is that of no asset."""
    return bool(state) and not scenario.is_good(state)


def _void(incident: Course, move: StateChange) -> bool:
    """End an open incident that begins no earlier than a change which came only now, as if it had
    never been: a rebuild finds it again, or does not. Returns whether it is one."""
    if incident.place < move.place:
        return False
    incident.ended_at = incident.began_at
    return True


def _begin(touched: dict[str, Course], move: StateChange) -> Course:
    key = (move.scenario, move.asset, move.place)
    row = touched[move.place] = Course(*key, move.at, None, move.state, move.state, 1)
    return row


def _go_on(scenario: Scenario, incident: Course, state: str) -> None:
    incident.state = state
    incident.changes += 1
    if scenario.severity(state) < scenario.severity(incident.worst):
        incident.worst = state
