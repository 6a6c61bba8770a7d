"""When time lets live votes lower a state that they cannot lower yet.

Silent votes are forgotten, and doubts end. Nothing here reads a clock, a database or Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from domain.records import StateRecord
from domain.scenario import Scenario
from domain.tally import Voices, lowering


@dataclass(frozen=True, slots=True)
class Freed:
    """From `at` (ms) on live votes for `state` can lower it.

    agents: whose last words are forgotten by then; trusted: about whom doubt has ended. Of both
    only those that it takes.
    """

    agents: tuple[str, ...]
    at: int
    state: str
    trusted: tuple[str, ...] = ()


class _End(NamedTuple):
    """An agent's silent vote is forgotten, or the doubt about it ends."""

    at: int
    agent: str
    doubt: bool


def freed(scenario: Scenario, record: StateRecord, current: str | None) -> Freed | None:
    """Return the first time at which the state may be lowered by votes that cannot now, or None.

    current: what the votes have made.
    """
    if scenario.life_cycle or current is None or not scenario.knows(current):
        return None
    without = _Without(scenario, record, current)
    ends = sorted(_ends(scenario, record))
    for count in range(1, len(ends) + 1):
        state = without.freed(ends[:count])
        if state is not None:
            needed = _needed(without, ends[:count], state)
            gone = tuple(end.agent for end in needed if not end.doubt)
            trusted = tuple(end.agent for end in needed if end.doubt)
            return Freed(gone, needed[-1].at, state, trusted)
    return None


def _ends(scenario: Scenario, record: StateRecord) -> list[_End]:
    delay = scenario.forget_delay
    silent = ((vote.silent, vote.agent) for vote in record.votes if vote.counts)
    ends = [_End(since + delay, agent, False) for since, agent in silent
            if since is not None and delay is not None]  # fmt: skip
    return ends + [_End(doubt.until, doubt.agent, True) for doubt in record.doubts if doubt.counts]


def _needed(without: _Without, ends: Sequence[_End], state: str) -> list[_End]:
    """Return those of the ends that it takes, the last one among them."""
    needed = list(ends)
    for end in ends[:-1]:
        fewer = [each for each in needed if each != end]
        if without.freed(fewer) == state:
            needed = fewer
    return needed


class _Without:
    """An asset as its record describes it, and as it is once something of it has ended."""

    def __init__(self, scenario: Scenario, record: StateRecord, current: str) -> None:
        self.scenario, self.record, self.current = scenario, record, current
        self.low, self.voters = self._after(())

    def _after(self, ends: Sequence[_End]) -> tuple[str | None, bool]:
        """Return the state that may follow after these ends, and whether voters are enough."""
        forgotten = {end.agent for end in ends if not end.doubt}
        trusted = {end.agent for end in ends if end.doubt}
        votes = [vote for vote in self.record.votes if vote.agent not in forgotten]
        doubts = {each.agent for each in self.record.doubts} - trusted
        enough = len(Voices.of(votes, doubts).sure) >= self.scenario.min_voters
        return lowering(self.scenario, votes, self.current, doubts), enough

    def freed(self, ends: Sequence[_End]) -> str | None:
        """Return the milder state that may follow after these ends and not without, or None."""
        low, voters = self._after(ends)
        if low is None or self.low is None or not self._is_milder(low, self.current):
            return None
        more = self._is_milder(low, self.low) or (voters and not self.voters)
        return low if more else None

    def _is_milder(self, state: str, than: str) -> bool:
        return self.scenario.severity(state) > self.scenario.severity(than)
