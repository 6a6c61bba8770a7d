"""The rule applied to votes: what raises a state, what lowers it, and what is marked on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from domain.asset import Asset
from domain.python_rules import evaluate
from domain.records import Vote
from domain.scenario import KEEP, Latest, PythonRule, Quorum, Scenario


def tally(scenario: Scenario, votes: Collection[Vote], current: str | None) -> str:
    """Return the state that `votes` (at least one) make, where `current` is the state so far.

    A ladder that would keep a state there is not yet takes the worst vote's (in a life cycle the
    newest one's), and so does a rule in Python that fails.
    """
    outcome = _outcome(scenario, votes, current)
    if outcome is not None:
        return outcome
    if current is not None:
        return current
    return newest(votes).state if scenario.life_cycle else worst(scenario, votes)


def raising(scenario: Scenario, votes: Iterable[Vote], current: str | None) -> str | None:
    """Return the state that the live votes make: what raises. None without a live vote."""
    live = [vote for vote in votes if vote.live]
    return tally(scenario, live, current) if live else None


def lowering(scenario: Scenario, votes: Collection[Vote], current: str) -> str | None:
    """Return the mildest state that live votes bear out and that no silent one speaks against.

    That is the mildest X such that the live votes, and they together with the silent ones that are
    worse than X, make X or milder, and some live vote says X or milder. Where there is none: the
    worse one of `current` and what raises. None without a live vote.
    """
    live = [vote for vote in votes if vote.live]
    if not live:
        return None
    silent = [vote for vote in votes if vote.silent is not None and vote.counts]
    return lowered(scenario, live, silent, current, tally(scenario, live, current))


def lowered(
    scenario: Scenario, live: list[Vote], silent: list[Vote], current: str, raised: str
) -> str:
    """Return what `lowering` does, where `raised` is what the live votes make."""
    rank = scenario.severity
    bound = min(rank(raised), max(rank(vote.state) for vote in live))
    for place in range(bound, -1, -1):
        worse = [vote for vote in silent if rank(vote.state) < place]
        if all(rank(state) >= place for state in _made(scenario, live, worse, current)):
            return scenario.states[place].name
    return min(current, raised, key=rank)


def _made(scenario: Scenario, live: list[Vote], worse: list[Vote], current: str) -> Iterator[str]:
    """Yield the tallies of live votes with silent ones worse than a state: none may be worse."""
    votes = [*live, *worse]
    if isinstance(scenario.rule, Latest):
        yield _last(votes).state
    if worse:  # without them it is what raises, which has been looked at
        yield tally(scenario, votes, current)


def _outcome(scenario: Scenario, votes: Collection[Vote], current: str | None) -> str | None:
    """Return what the rule says, or None where it leaves the state as it is."""
    rule = scenario.rule
    if isinstance(rule, Latest):
        return newest(votes).state
    if isinstance(rule, PythonRule):
        return evaluate(rule.function, votes, current, scenario.knows)
    state = climb(scenario, rule, votes)
    return None if state == KEEP else state


def climb(scenario: Scenario, rule: Quorum, votes: Collection[Vote]) -> str:
    """Return the first threshold that holds, from the most severe down, or the ladder's default."""
    weights: Counter[str] = Counter()
    for vote in votes:
        weights[vote.state] += vote.weight
    total = weights.total() if scenario.electorate is None else scenario.electorate
    for threshold in rule.ladder:
        if threshold.met(threshold_weight(scenario, weights, threshold.state), total):
            return threshold.state
    return rule.default


def threshold_weight(scenario: Scenario, weights: Counter[str], state: str) -> int:
    """Return the weight that a threshold for `state` sums: of that state or worse.

    So no worse vote makes a milder tally. Of the mildest state, and in a life cycle, it is the
    state's own alone.
    """
    if scenario.life_cycle or state == scenario.mildest:
        return weights[state]
    rank = scenario.severity(state)
    return sum(weight for each, weight in weights.items() if scenario.severity(each) <= rank)


def newest(votes: Collection[Vote]) -> Vote:
    """Return the vote that came last in the log; an agent's own clock has no say."""
    return max(votes, key=lambda vote: vote.offset)


def _last(votes: Collection[Vote]) -> Vote:
    """Return the vote that was last in time; of several the one that came last in the log."""
    return max(votes, key=lambda vote: (vote.order, vote.offset))


def worst(scenario: Scenario, votes: Iterable[Vote]) -> str:
    """Return the worst state that `votes` (at least one) say."""
    return min((vote.state for vote in votes), key=scenario.severity)


# ---- marks ----------------------------------------------------------------------------------


def mark(scenario: Scenario, asset: Asset) -> None:
    """Note on an asset whether its tallied state is confirmed, and who disputes what it shows."""
    if asset.shown is None:
        return
    votes, falling = asset.votes.values(), asset.falling(scenario)
    asset.unconfirmed = unconfirmed_reason(scenario, votes, asset.state, falling=falling)
    asset.disputed = disputed(scenario, votes, asset.shown)


def unconfirmed_reason(
    scenario: Scenario, votes: Iterable[Vote], state: str | None, *, falling: bool
) -> str | None:
    """Return why `state` is not confirmed by live votes, in words, or None where it is.

    falling: whether a wait for a milder state runs, which says that nobody needs to be as worse.
    """
    live = [vote for vote in votes if vote.live]
    if len(live) < scenario.min_voters:
        return f"{len(live)} of {scenario.min_voters} voters"
    if scenario.life_cycle or state is None:
        return None
    rank = scenario.severity
    if all(rank(vote.state) < rank(state) for vote in live):
        return "nobody says it is this good"
    if not falling and all(rank(vote.state) > rank(state) for vote in live):
        return "nobody says it is this bad"
    return None


def disputed(scenario: Scenario, votes: Iterable[Vote], shown: str | None) -> str | None:
    """Return the worst state that a vote says, live or silent, if that is worse than `shown`."""
    if scenario.life_cycle or shown is None:
        return None
    said = worst(scenario, counting) if (counting := [v for v in votes if v.counts]) else shown
    return said if scenario.severity(said) < scenario.severity(shown) else None
