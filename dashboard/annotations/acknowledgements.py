"""Acknowledgements: somebody has an asset in hand until a time, unless its state ends it before.

What ends with a state does so in the transaction that writes that state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from django.contrib.auth.models import User

from dashboard.annotations.models import Acknowledgement
from dashboard.annotations.row_marks import alone, calm_of, changing, open_ones, renew
from dashboard.core.rate_limits import Limit
from dashboard.core.times import DAY_MS
from dashboard.states.newest import newest_states
from dashboard.states.record_rows import place_of
from domain.scenario import Scenario

MOST = 900
"""Most assets that are acknowledged at once: a form has a thousand fields at the most."""
LONGEST_MS = 7 * DAY_MS
"""Furthest end."""
LIMIT = Limit("acknowledgements", 3_000)
ABSENT = "it is not on the board"
"""Why what is not there is not acknowledged."""


class Outcome(NamedTuple):
    """The assets that were acknowledged, and why others were not."""

    taken: list[str]
    left: list[tuple[str, str]]


def acknowledge(
    scenario: Scenario, assets: Collection[str], user: User, reason: str, until: int, now: int
) -> Outcome:
    """Acknowledge those that are on the board and not calm. Times in Unix ms. Raises TooMany."""
    LIMIT.take(user.pk, now, len(assets))
    outcome = Outcome([], [])
    with changing(scenario.name, now) as changed:
        states = newest_states(scenario.name, assets)
        rows = []
        for asset in assets:
            version, state = states.get(asset, ("", ""))
            why = why_not(scenario, state)
            if why:
                outcome.left.append((asset, why))
                continue
            outcome.taken.append(asset)
            rows.append(
                Acknowledgement(
                    scenario=scenario.name,
                    asset=asset,
                    user=user,
                    username=user.get_username(),
                    reason=reason,
                    at=now,
                    until=until,
                    state=state,
                    severity=scenario.severity(state),
                    place=place_of(version),
                )
            )
        _close(scenario.name, outcome.taken, "replaced", user, now)
        Acknowledgement.objects.bulk_create(rows)
        changed.extend(outcome.taken)
    return outcome


def take_back(scenario: Scenario, assets: Collection[str], user: User, now: int) -> list[str]:
    """End the acknowledgements in force of these assets, whosever they are.

    Returns the assets that had one.
    """
    LIMIT.take(user.pk, now, len(assets))
    with changing(scenario.name, now) as changed:
        ended = _close(scenario.name, assets, "taken back", user, now)
        changed.extend(ended)
    return ended


def why_not(scenario: Scenario, state: str) -> str:
    """Return why a state is not to be acknowledged; empty where it is."""
    if not state:
        return ABSENT
    if scenario.severity(state) >= calm_of(scenario):
        return f"it is {scenario.spec(state).label} already"
    return ""


def _close(scenario: str, assets: Collection[str], why: str, user: User, now: int) -> list[str]:
    """End the acknowledgements in force of these assets. Returns the assets that had one."""
    held = open_ones(scenario, assets, now)
    names = sorted(set(held.values_list("asset", flat=True)))
    held.update(ended_at=now, ended_why=why, ended_by=user.get_username())
    return names


# ---- ended by a change of state ----------------------------------------------------------------


class Move(NamedTuple):
    """A change of an asset's state, "" after a purge. place: offset and step; at: Unix ms;
    previous: the state before it, "" where there was none."""

    scenario: str
    asset: str
    place: str
    at: int
    state: str
    previous: str


def by_asset(moves: Iterable[Move]) -> dict[str, dict[str, list[Move]]]:
    """Return the changes of each asset, in their order, by scenario."""
    grouped: dict[str, dict[str, list[Move]]] = {}
    for move in moves:
        grouped.setdefault(move.scenario, {}).setdefault(move.asset, []).append(move)
    return grouped


def end_by(moves: Iterable[Move], scenarios: dict[str, Scenario], now: int) -> None:
    """End what these changes end. Call it after they are written, within their transaction."""
    for name, of_assets in sorted(by_asset(moves).items()):
        alone(name)
        ended = [
            ack.asset
            for ack in open_ones(name, of_assets, now)
            if _end(ack, of_assets[ack.asset], scenarios[name])
        ]
        if ended:
            renew(name, ended, now)


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
