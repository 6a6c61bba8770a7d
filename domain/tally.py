"""The rule applied to the live votes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from domain.functions import ask
from domain.records import Vote
from domain.scenario import KEEP, Latest, PythonRule, Quorum, Scenario


def tally(scenario: Scenario, votes: Collection[Vote], current: str | None) -> str:
    """The state that `votes` (at least one) make, where `current` is the state so far.

    A ladder that would keep a state there is not yet takes the newest vote's, and so does a rule
    in Python that fails.
    """
    found = _found(scenario, votes, current)
    if found is not None:
        return found
    return current if current is not None else newest(votes).state


def _found(scenario: Scenario, votes: Collection[Vote], current: str | None) -> str | None:
    """What the rule says, or None where it leaves the state as it is."""
    rule = scenario.rule
    if isinstance(rule, Latest):
        return newest(votes).state
    if isinstance(rule, PythonRule):
        return ask(rule.function, votes, current, scenario.knows)
    found = climb(rule, votes, scenario.electorate)
    return None if found == KEEP else found


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
