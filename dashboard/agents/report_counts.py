"""The materialiser's counts of agents, in its own transaction: added up in memory per batch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dashboard.core.sql import execute_many
from dashboard.core.times import HOUR_MS
from domain.names import USER_PREFIX, name_ok
from wire.job import AHEAD_MS

if TYPE_CHECKING:
    from wire.sink import CauseValue, VoteValue


# A time from a bucket's clock that was ahead does not keep later ones from being taken.
SEEN = """\
INSERT INTO agentry_agent (scenario, agent, first_seen, last_seen, clock)
VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (scenario, agent) DO UPDATE SET
gap = CASE WHEN excluded.last_seen <= agentry_agent.last_seen THEN agentry_agent.gap
WHEN agentry_agent.gap = 0 THEN excluded.last_seen - agentry_agent.last_seen
ELSE (4 * agentry_agent.gap + excluded.last_seen - agentry_agent.last_seen) / 5 END,
last_seen = excluded.last_seen, clock = excluded.clock
WHERE excluded.last_seen - agentry_agent.last_seen >= 1000 OR agentry_agent.last_seen > %s"""

LEFT = """\
UPDATE agentry_agent SET left_at = %s WHERE scenario = %s AND agent = %s AND left_at < %s"""

HOURS = """\
INSERT INTO agentry_agenthour (scenario, agent, hour, records, changes) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (scenario, hour, agent) DO UPDATE SET
records = agentry_agenthour.records + excluded.records,
changes = agentry_agenthour.changes + excluded.changes"""

NEVER = (-1, 0)


class Counts:
    """The counts of agents in a batch's new records. Times in ms of the broker's clock."""

    def __init__(self) -> None:
        self._hours: dict[tuple[str, str, int], list[int]] = {}
        self._seen: dict[str, dict[str, tuple[int, int]]] = {}
        self._left: dict[tuple[str, str], int] = {}

    def record(self, scenario: str, cause: CauseValue, changed: bool) -> None:
        """Count a record that was new; changed: whether the state is another one now."""
        hour = cause.time // HOUR_MS
        self._add((scenario, "", hour), changed)
        if cause.agent and cause.type == "report":
            self._add((scenario, cause.agent, hour), changed)
        elif cause.agent and cause.type == "leave":
            self._left[scenario, cause.agent] = cause.time

    def votes(self, scenario: str, votes: Iterable[VoteValue]) -> None:
        """Count the votes of an asset's newest record: each agent was seen, with its clock."""
        seen = self._seen.setdefault(scenario, {})
        for vote in votes:
            agent, at = vote.agent, vote.time
            if at > seen.get(agent, NEVER)[0]:
                seen[agent] = (at, vote.reported_at - at)

    def _add(self, key: tuple[str, str, int], changed: bool) -> None:
        counts = self._hours.get(key)
        if counts is None:
            self._hours[key] = [1, int(changed)]
        else:
            counts[0] += 1
            counts[1] += changed

    def write(self, now: int) -> None:
        """Add all counts to the tables. In order, so that there is no deadlock."""
        limit = now + AHEAD_MS
        execute_many(
            SEEN,
            [
                (scenario, agent, at, at, off if at <= limit else None, limit)
                for scenario, of_scenario in sorted(self._seen.items())
                for agent, (at, off) in sorted(of_scenario.items())
                if _named(agent)
            ],
        )
        left = sorted(self._left.items())
        execute_many(LEFT, [(at, *agent, at) for agent, at in left if at <= limit])
        hours = sorted(self._hours.items())
        execute_many(HOURS, [(*key, *n) for key, n in hours if not key[1] or _named(key[1])])

    def newest(self, now: int) -> dict[str, int]:
        """Return by scenario when its newest report came, but for times ahead of `now`."""
        times: dict[str, int] = {}
        for scenario, seen in self._seen.items():
            for agent, (at, _) in seen.items():
                if at <= now + AHEAD_MS and _named(agent):
                    times[scenario] = max(at, times.get(scenario, 0))
        return times


def _named(agent: str) -> bool:
    return name_ok(agent) and not agent.startswith(USER_PREFIX)
