"""What a purge does not end: the agents that still report, and bring the asset back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dashboard.board.why import span
from domain.names import USER_PREFIX
from domain.scenario import Scenario

FRESH_MS = 300_000
"""An agent that reported within this time, or within half its vote's lifetime if that is shorter,
is taken to go on reporting."""

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
    """Who votes on an asset that is to be purged, the latest report first.

    within: how young a fresh report is, in words; more: agents beyond those named; users: who
    voted by hand.
    """

    voters: tuple[Voter, ...]
    more: int
    fresh: int
    within: str
    users: tuple[str, ...]


def returning(scenario: Scenario, record: dict[str, Any] | None, now: int) -> Returning:
    """Who still reports on the asset at `now` (Unix ms), as its newest record tells."""
    young = min(FRESH_MS, (scenario.vote_lifetime or 2 * FRESH_MS) // 2)
    votes = sorted((record or {}).get("votes", ()), key=lambda vote: (-vote["time"], vote["agent"]))
    voters = [
        Voter(vote["agent"], vote["state"], vote["time"], fresh=now - vote["time"] <= young)
        for vote in votes
        if not vote["agent"].startswith(USER_PREFIX)
    ]
    return Returning(
        voters=tuple(voters[:MOST_SHOWN]),
        more=max(0, len(voters) - MOST_SHOWN),
        fresh=sum(voter.fresh for voter in voters),
        within=span(young),
        users=tuple(
            vote["agent"].removeprefix(USER_PREFIX)
            for vote in votes
            if vote["agent"].startswith(USER_PREFIX)
        ),
    )
