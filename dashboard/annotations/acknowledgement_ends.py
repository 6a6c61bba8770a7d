"""Acknowledgements end with the state they were given on, in the transaction that writes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dashboard.annotations.models import Acknowledgement
from dashboard.annotations.row_marks import alone, calm_of, renew
from dashboard.states.queries import listed
from domain.scenario import Scenario


class Move(NamedTuple):
    """A change of an asset's state, "" after a purge. place: offset and step; at: Unix ms."""

    scenario: str
    asset: str
    place: str
    at: int
    state: str


def end_by(moves: Iterable[Move], scenarios: dict[str, Scenario], now: int) -> None:
    """End what these changes end. Call it after they are written, within their transaction."""
    by_scenario: dict[str, dict[str, list[Move]]] = {}
    for move in moves:
        by_scenario.setdefault(move.scenario, {}).setdefault(move.asset, []).append(move)
    for name, of_assets in sorted(by_scenario.items()):
        alone(name)
        ended = [
            ack.asset
            for ack in _open(name, of_assets, now)
            if _end(ack, of_assets[ack.asset], scenarios[name])
        ]
        if ended:
            renew(name, ended, now)


def _open(scenario: str, assets: Iterable[str], now: int) -> Iterable[Acknowledgement]:
    return Acknowledgement.objects.filter(
        scenario=scenario, asset__in=listed(list(assets)), ended_at=None, until__gt=now
    )


def _end(ack: Acknowledgement, moves: list[Move], scenario: Scenario) -> bool:
    """Store the first change after it was given that ends it. Returns whether there is one."""
    for move in sorted(moves, key=lambda move: move.place):
        why = why_ended(ack, move, scenario)
        if why:
            ack.ended_at, ack.ended_why = move.at, why
            ack.save(update_fields=["ended_at", "ended_why"])
            return True
    return False


def why_ended(ack: Acknowledgement, move: Move, scenario: Scenario) -> str:
    """Return why the change ends it; empty where it does not, or came before it."""
    if move.place <= ack.place:
        return ""
    if not move.state:
        return "purged"
    severity = scenario.severity(move.state)
    if severity >= calm_of(scenario):
        return "calm"
    return "worse" if severity < ack.severity else ""
