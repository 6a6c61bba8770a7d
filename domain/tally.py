"""The rule applied to the live votes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from domain.records import Vote
from domain.scenario import KEEP, Latest, Quorum, Scenario


def tally(scenario: Scenario, votes: Collection[Vote], current: str | None) -> str:
    """The state that `votes` (at least one) make, where `current` is the state so far.

    A ladder that would keep a state there is not yet takes the newest vote's.
    """
    if isinstance(scenario.rule, Latest):
        return newest(votes).state
    found = climb(scenario.rule, votes, scenario.electorate)
    if found != KEEP:
        return found
    return current if current is not None else newest(votes).state


def climb(rule: Quorum, votes: Collection[Vote], electorate: int | None) -> str:
    """The first rung that holds, from the most severe down, or the ladder's default."""
    weights: Counter[str] = Counter()
    for vote in votes:
        weights[vote.state] += vote.weight
    whole_weight = weights.total() if electorate is None else electorate
    for rung in rule.ladder:
        if rung.met(weights[rung.state], whole_weight):
            return rung.state
    return rule.default


def newest(votes: Collection[Vote]) -> Vote:
    """The vote that came last in the log; an agent's own clock has no say."""
    return max(votes, key=lambda vote: vote.offset)
