"""Warnings before a command: of a purge, and of a scheduled task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.core.common.text import isolated
from dashboard.core.common.times import exact_span
from domain.names import USER_PREFIX
from domain.records import Schedule
from domain.scenario import Scenario
from wire.sink import StateValue

# ---- purge warnings ------------------------------------------------------------------------------
# Warnings of a purge: the agents that still report, and bring the asset back.

FRESH_MS = 300_000
"""An agent that reported within this time, or within half its vote's lifetime if that is shorter,
is taken to go on reporting."""

RENEWED_MS = 30_000
"""A record tells of a report that came this long after the record before; so times are so rough."""

MOST_SHOWN = 12
"""Most agents that are named."""


@dataclass(frozen=True, slots=True)
class Voter:
    """An agent's last report: its state, and when the broker had it (Unix ms)."""

    agent: str
    state: str
    time: int
    fresh: bool


@dataclass(frozen=True, slots=True)
class Returning:
    """The voters whose votes on an asset that is to be purged are live, the latest report first.

    within: how young a fresh report is, in words; soon: within about which time the next one comes,
    in words; more: agents beyond those named; users: who voted by hand.
    """

    voters: tuple[Voter, ...]
    more: int
    fresh: int
    within: str
    soon: str
    users: tuple[str, ...]


def young_ms(scenario: Scenario) -> int:
    """Return how young a report is whose agent is assumed to go on reporting, ms."""
    return min(FRESH_MS, (scenario.lifetime or 2 * FRESH_MS) // 2)


def returning(scenario: Scenario, record: StateValue | None, now: int) -> Returning:
    """Return who still reports on the asset at `now` (Unix ms), by its newest record."""
    young = young_ms(scenario)
    live = [vote for vote in record.votes if vote.silent is None] if record else []
    votes = sorted(live, key=lambda vote: (-vote.time, vote.agent))
    voters = [
        Voter(vote.agent, vote.state, vote.time, fresh=now - vote.time <= young)
        for vote in votes
        if not vote.agent.startswith(USER_PREFIX)
    ]
    return Returning(
        voters=tuple(voters[:MOST_SHOWN]),
        more=max(0, len(voters) - MOST_SHOWN),
        fresh=sum(voter.fresh for voter in voters),
        within=exact_span(young),
        soon=exact_span(_soon(voters, now)),
        users=tuple(
            vote.agent.removeprefix(USER_PREFIX)
            for vote in votes
            if vote.agent.startswith(USER_PREFIX)
        ),
    )


def _soon(voters: Sequence[Voter], now: int) -> int:
    """Return within about which time the next report comes, ms.

    Agents report at intervals, and as long as has passed since the newest report, or twice that,
    may be left of one.
    """
    ages = [now - voter.time for voter in voters if voter.fresh]
    return max(RENEWED_MS, 2 * min(ages, default=0)) // 1000 * 1000


# ---- schedule warnings ---------------------------------------------------------------------------
# Warnings of a scheduled task: what it does by time alone may hide what agents say then.

PURGES = "This may hide an attack: time alone will remove the row, whatever its agents say then."
PURGES_MANY = (
    "This may hide an attack: time alone will remove the rows, whatever their agents say then."
)


def may_hide(
    scenario: Scenario, do: str, state: str | None, condition: str | None, shown: str | None
) -> bool:
    """Return whether a task purges its asset, or pins it to a state milder than it shows.

    condition: what the asset must show when it runs; shown: what it shows now, None if that is not
    known. In a life cycle no state is milder than another.
    """
    if scenario.life_cycle:
        return False
    if do == "purge":
        return True
    worst = scenario.states[0].name
    # A state that nobody knows ranks as worse than the worst, which is worse than none itself.
    least = max(0, scenario.severity(condition or shown or worst))
    return do == "set" and bool(state) and scenario.severity(state or "") > least


def warning(scenario: Scenario, schedule: Schedule, state: str, shown: str | None) -> str:
    """Return the warning before a task is scheduled, or '' if it can hide nothing.

    state: what a `set` pins; shown: what the asset shows now, None if that is not known.
    """
    if not may_hide(scenario, schedule.do, state, schedule.condition, shown):
        return ""
    return PURGES if schedule.do == "purge" else _sets(scenario, state, "it", "its")


def warning_of_many(scenario: Scenario, do: str, state: str) -> str:
    """Return the warning about a task that may hide something at several assets."""
    return PURGES_MANY if do == "purge" else _sets(scenario, state, "them", "their")


def _sets(scenario: Scenario, state: str, them: str, their: str) -> str:
    label = isolated(scenario.spec(state).label)
    return (
        f"This may hide an attack: time alone will pin {them} to {label}, "
        f"whatever {their} agents say then."
    )
