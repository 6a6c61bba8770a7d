"""Incidents begin, change and end with state changes, in the transaction that writes these.

A change has a place in the log. A rebuild brings the same changes again, so an incident that begins
at the place of a known one is that incident, and is of the same case.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import msgspec
from django.dispatch import Signal

from dashboard.core.common.sql import LONG, chunks, insert_many, on_conflict
from dashboard.core.states.ingestion import BatchChanges, StateChange, by_asset
from dashboard.core.states.queries import fetched
from dashboard.watch.incidents import cases
from dashboard.watch.incidents.models import Incident
from domain.notifications.events import BEGUN, CHANGED, ENDED, WITHDRAWN
from domain.scenario import Scenario
from wire.sink import StateValue, VoteValue

KEY = ("scenario", "asset", "place")
"""The place identifies an incident, new or known."""
WRITTEN = (*KEY, "began_at", "ended_at", "state", "worst", "changes")
NEW = (*WRITTEN, "acknowledged_by")
"""Columns of a new incident, which nobody has acknowledged yet."""
REPLACE = on_conflict("incidents_incident", WRITTEN, KEY)
_OPEN = f"""\
SELECT {", ".join(WRITTEN)} FROM incidents_incident
WHERE ended_at IS NULL AND scenario = %s"""  # noqa: S608 - our own names
_WRITTEN = attrgetter(*WRITTEN)
MOMENT = (*KEY, "at", "state", "votes")
REPLACE_MOMENT = on_conflict("incidents_worstmoment", MOMENT, KEY)
VotesOf = Mapping[tuple[str, str, str], Sequence[VoteValue]]
"""The votes of state records, by scenario, asset and place."""
NO_VOTES: VotesOf = {}
MOST_VOTES = 20
"""Most votes that are kept of an incident's worst moment."""
MOST_FIGURES = 500
"""Longest detail of a vote that is kept there, bytes."""


@dataclass(slots=True)
class Course:
    """The course of an incident so far, with the fields of `incidents.models.Incident`.

    A plain object, because the materialiser makes thousands a second.
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
    """What a state change made of an incident.

    kind: it began, its state changed, it ended, or a rebuild may not find it again; place, at: of
    the change; incident: the place where the incident began; state: the asset's new state; worst:
    the worst of the incident's states so far.
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
"""Sent in the transaction that stores them. changes: a list of IncidentChange; now: Unix ms."""


def ingest_changes(changes: BatchChanges) -> None:
    """Begin, change and end incidents by the changes of a batch, and send the signal."""
    records = ((each.scenario.name, each.seen) for each in changes.records if changes.moves)
    votes = {
        (scenario, seen.asset, seen.place): seen.shape.votes
        for scenario, seen in records
        if isinstance(seen.shape, StateValue)
    }
    made = record(changes.moves, changes.scenarios, votes)
    join_cases(made)
    incidents_changed.send(Incident, changes=made, now=changes.now)


def record(
    moves: Iterable[StateChange], scenarios: dict[str, Scenario], votes: VotesOf = NO_VOTES
) -> list[IncidentChange]:
    """Begin, change and end incidents by state changes, which are in order for each asset.

    votes: those of the records that made the changes. Returns the changes to the incidents, in
    order for each asset.
    """
    return [
        change
        for name, of_assets in by_asset(moves).items()
        for assets in chunks(sorted(of_assets), LONG)
        for change in _record(scenarios[name], {asset: of_assets[asset] for asset in assets}, votes)
    ]


def join_cases(changes: Iterable[IncidentChange]) -> None:
    """Give the incidents that began their cases, and settle those of the ones that ended."""
    touched: dict[str, list[tuple[str, str]]] = {}
    for change in changes:
        if change.kind != CHANGED:
            touched.setdefault(change.scenario, []).append((change.asset, change.incident))
    for scenario, incidents in sorted(touched.items()):
        cases.join(scenario, incidents)


def _record(
    scenario: Scenario, of_assets: dict[str, list[StateChange]], votes: VotesOf
) -> list[IncidentChange]:
    """Process the changes of some assets of a scenario."""
    running = _open(scenario.name, of_assets)
    worst = {(asset, each.place): each.worst for asset, known in running.items() for each in known}
    touched: list[Course] = []
    changes: list[IncidentChange] = []
    for asset, moves in of_assets.items():
        of_asset, its_changes = follow(scenario, running.get(asset, []), moves)
        touched += of_asset
        changes += its_changes
    _write(touched)
    _write_worst_moments(scenario, worst, changes, votes)
    return changes


def _open(scenario: str, assets: Collection[str]) -> dict[str, list[Course]]:
    by_asset: dict[str, list[Course]] = {}
    for row in fetched(_OPEN, scenario, assets):
        by_asset.setdefault(row[1], []).append(Course(*row))
    return by_asset


def follow(
    scenario: Scenario, known: list[Course], moves: list[StateChange]
) -> tuple[list[Course], list[IncidentChange]]:
    """Return the incidents of one asset that its changes begin, change or end, and how.

    known: its open incidents. If one is open although the change comes from a good state, it stems
    from another rule before a rebuild, and ends there.
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


def _write_worst_moments(
    scenario: Scenario,
    worst: dict[tuple[str, str], str],
    changes: Iterable[IncidentChange],
    votes: VotesOf,
) -> None:
    """Store the votes of the changes by which incidents became worse than ever before.

    worst: the worst state of each known incident until now, by asset and place.
    """
    rows = {}
    for change in changes:
        key = (change.asset, change.incident)
        if change.kind == BEGUN or (change.kind == CHANGED and change.worst != worst.get(key)):
            worst[key] = change.worst
            cast = votes.get((change.scenario, change.asset, change.place), ())
            text = votes_text(scenario, cast)
            rows[key] = (change.scenario, *key, change.at, change.state, text)
    insert_many("incidents_worstmoment", MOMENT, list(rows.values()), REPLACE_MOMENT)


def votes_text(scenario: Scenario, votes: Iterable[VoteValue]) -> str:
    """Return the votes of a record as JSON, the most severe MOST_VOTES, with what they measured."""
    ranked = sorted(votes, key=lambda vote: (scenario.severity(vote.state), vote.agent))
    plain = [
        {
            "agent": vote.agent,
            "state": vote.state,
            "silent": vote.silent is not None,
            "figures": vote.detail if len(bytes(vote.detail)) <= MOST_FIGURES else None,
        }
        for vote in ranked[:MOST_VOTES]
    ]
    return msgspec.json.encode(plain).decode()


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
    """Return whether a state belongs to an incident; "" is the state of no asset."""
    return bool(state) and not scenario.is_good(state)


def _void(incident: Course, move: StateChange) -> bool:
    """Withdraw an open incident that begins no earlier than a change that arrived only now.

    It ends as if it had never been; a rebuild may find it again. Returns whether it was withdrawn.
    """
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
