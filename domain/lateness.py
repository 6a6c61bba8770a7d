"""Late reports counted by agent: how many, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Literal

# Largest number of agents counted by name; all others are counted together, under an empty name.
MAX_AGENTS = 50

Kind = Literal["stale", "late", "silent", "rare", "refused", "doubtful", "detail", "forwarded"]


@dataclass(slots=True)
class Lateness:
    """Counts of one agent's late, doubtful and refused reports.

    stale: older than the scenario accepts; late: older than the agent's newest report on the asset,
    or than the asset's purge; silent: older than a vote's lifetime; rare: arrived after the agent's
    vote had fallen silent; age: lowest age of the stale and silent ones, ms; refused: for their
    state or time; doubtful: taken in doubt; detail: taken without their detail; ahead: smallest
    lead of those whose clock was too far ahead, ms; forwarded: sent on to the partition of their
    asset, leaves too.
    """

    agent: str
    stale: int = 0
    late: int = 0
    silent: int = 0
    rare: int = 0
    age: int = 0
    refused: int = 0
    doubtful: int = 0
    detail: int = 0
    ahead: int = 0
    forwarded: int = 0

    def add(self, kind: Kind, age: int, ahead: int) -> None:
        """Count one report of this age, or this far ahead (ms)."""
        if kind in ("stale", "silent"):
            first = not (self.stale or self.silent)
            self.age = age if first else min(self.age, age)
        if ahead:
            self.ahead = min(self.ahead or ahead, ahead)
        setattr(self, kind, getattr(self, kind) + 1)


class LatenessCounts:
    """The late reports of a bucket since the counts were last reported."""

    def __init__(self, rows: Iterable[Lateness] = ()) -> None:
        self.by_agent = {row.agent: row for row in rows}

    def add(self, agent: str, kind: Kind, age: int = 0, ahead: int = 0) -> None:
        """Count one report of an agent."""
        row = self.by_agent.get(agent)
        if row is None:
            agent = agent if len(self.by_agent) < MAX_AGENTS else ""
            row = self.by_agent.setdefault(agent, Lateness(agent))
        row.add(kind, age, ahead)

    def total(self, kind: Kind) -> int:
        """Return the number of reports of a kind, over all agents."""
        return sum(getattr(row, kind) for row in self.by_agent.values())

    def rows(self) -> list[tuple[str, int, int, int, int, int, int, int, int, int, int]]:
        """Return the fields of each agent's row, sorted by agent."""
        return [astuple(self.by_agent[agent]) for agent in sorted(self.by_agent)]

    def clear(self) -> None:
        """Reset all counts."""
        self.by_agent = {}
