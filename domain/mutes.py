"""The muted agents of a bucket, whose votes do not count."""

from __future__ import annotations

from domain.records import MAX_MUTED, Mute, Muted
from domain.scenario import Scenario


class Mutes(dict[str, Mute]):
    """The mutes in force, by agent."""

    def has_room(self, agent: str) -> bool:
        """Return whether this agent can be muted in addition to the others."""
        return agent in self or len(self) < MAX_MUTED

    def mark(self, agent: str) -> Muted | None:
        """Return the mark for a muted agent's votes, or None if the agent is not muted."""
        mute = self.get(agent)
        return None if mute is None else Muted(mute.until, mute.user)

    def weight(self, scenario: Scenario, agent: str) -> int:
        """Return the weight of an agent's vote, which is 0 while the agent is muted."""
        return 0 if agent in self else scenario.weight(agent)

    def drop_ended(self, clock: int) -> None:
        """Drop the mutes that have ended by `clock` ms."""
        for mute in list(self.values()):
            if mute.until is not None and mute.until <= clock:
                del self[mute.agent]
