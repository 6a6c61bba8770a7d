"""Warnings of a purge: the agents that still report, and bring the asset back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.core.times import exact_span
from domain.names import USER_PREFIX
from domain.scenario import Scenario
from wire.sink import StateValue

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
