"""Applies the rule to votes: what raises a state, what lowers it, and how it is marked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator
from typing import NamedTuple, Self

from domain.asset import Asset
from domain.doubts import is_doubted, severity, trusted
from domain.python_rules import evaluate
from domain.records import UNREADABLE, Doubt, Vote
from domain.scenario import KEEP, Latest, PythonRule, Quorum, Scenario
from domain.votes import is_live


def tally(scenario: Scenario, votes: Collection[Vote], current: str | None) -> str:
    """Return the state that `votes` (at least one) make. current: the state so far, or None.

    If a ladder keeps the state although there is none yet, or if a rule in Python fails without
    one, return the state of the worst vote (in a life cycle, of the newest).
    """
    outcome = _outcome(scenario, votes, current)
    if outcome is not None:
        return outcome
    if current is not None:
        return current
    return newest(votes).state if scenario.life_cycle else worst(scenario, votes)


class Voices(NamedTuple):
    """The votes on an asset that count.

    live: the live votes, which raise a state; sure: the live votes without doubt, which lower it;
    quiet: the others, which speak against lowering it.
    """

    live: list[Vote]
    sure: list[Vote]
    quiet: list[Vote]

    @classmethod
    def of(cls, scenario: Scenario, votes: Iterable[Vote], doubts: Container[str]) -> Self:
        """Return the votes sorted by what they may do. doubts: the doubted agents."""
        live, quiet = [], []
        for vote in votes:
            if is_live(scenario, vote):
                live.append(vote)
            elif vote.counts:
                quiet.append(vote)
        sure = trusted(live, doubts)
        if len(sure) < len(live):
            quiet += [vote for vote in live if is_doubted(vote, doubts)]
        return cls(live, sure, quiet)


def raising(
    scenario: Scenario, votes: Iterable[Vote], current: str | None, doubts: Container[str] = ()
) -> str | None:
    """Return the state to which live votes raise the asset, or None without a live vote."""
    voices = Voices.of(scenario, votes, doubts)
    return raised(scenario, voices, current) if voices.live else None


def raised(scenario: Scenario, voices: Voices, current: str | None) -> str:
    """Return the state to which votes raise the asset, given at least one live vote.

    That is the tally of all live votes. If the votes without doubt are enough voters to raise a
    state and make a worse tally, it is theirs: doubted agents cannot outvote them.
    """
    made = tally(scenario, voices.live, current)
    if len(voices.sure) in (0, len(voices.live)) or len(voices.sure) < scenario.raise_voters:
        return made
    return min(made, tally(scenario, voices.sure, current), key=scenario.severity)


def lowering(
    scenario: Scenario, votes: Iterable[Vote], current: str, doubts: Container[str] = ()
) -> str | None:
    """Return the mildest state that live votes support and no silent vote contradicts.

    That is the mildest X such that what raises is X or milder; the live votes without doubt,
    together with the silent and doubted ones worse than X, make X or milder; and one of the live
    votes without doubt says X or milder. If there is none, return the worse of `current` and what
    raises. Return None without a live vote.
    """
    voices = Voices.of(scenario, votes, doubts)
    if not voices.live:
        return None
    return lowered(scenario, voices, current, raised(scenario, voices, current))


def lowered(scenario: Scenario, voices: Voices, current: str, raised: str) -> str:
    """Return the result of `lowering`, given what `raised` returns."""
    rank = scenario.severity
    mildest = max((rank(vote.state) for vote in voices.sure), default=-1)
    for place in range(min(rank(raised), mildest), -1, -1):
        worse = [vote for vote in voices.quiet if rank(vote.state) < place]
        if all(rank(state) >= place for state in _made(scenario, voices, worse, current)):
            return scenario.states[place].name
    return min(current, raised, key=rank)


def _made(scenario: Scenario, voices: Voices, worse: list[Vote], current: str) -> Iterator[str]:
    """Yield the tallies of sure votes with the quiet ones worse than a state; none may be worse."""
    votes = [*voices.sure, *worse]
    if isinstance(scenario.rule, Latest):
        yield _last(votes).state
    if worse or len(voices.sure) < len(voices.live):
        yield tally(scenario, votes, current)  # else it is what raises, checked before


def _outcome(scenario: Scenario, votes: Collection[Vote], current: str | None) -> str | None:
    """Return the rule's result, or None if it leaves the state unchanged."""
    rule = scenario.rule
    if isinstance(rule, Latest):
        return newest(votes).state
    if isinstance(rule, PythonRule):
        return evaluate(rule.function, votes, current, scenario.knows)
    state = climb(scenario, rule, votes)
    return None if state == KEEP else state


def climb(scenario: Scenario, rule: Quorum, votes: Collection[Vote]) -> str:
    """Return the first threshold met, from the most severe down, or the ladder's default."""
    weights: Counter[str] = Counter()
    for vote in votes:
        weights[vote.state] += vote.weight
    total = weights.total() if scenario.electorate is None else scenario.electorate
    for threshold in rule.ladder:
        if threshold.met(threshold_weight(scenario, weights, threshold.state), total):
            return threshold.state
    return rule.default


def threshold_weight(scenario: Scenario, weights: Counter[str], state: str) -> int:
    """Return the weight that counts towards a threshold for `state`: votes for it or a worse state.

    A worse vote therefore never makes the tally milder. For the mildest state, and in a life cycle,
    only votes for the state itself count.
    """
    if scenario.life_cycle or state == scenario.mildest:
        return weights[state]
    rank = scenario.severity(state)
    return sum(weight for each, weight in weights.items() if scenario.severity(each) <= rank)


def newest(votes: Collection[Vote]) -> Vote:
    """Return the vote that came last in the log; an agent's own clock does not matter."""
    return max(votes, key=lambda vote: vote.offset)


def _last(votes: Collection[Vote]) -> Vote:
    """Return the latest vote in time; if several are equal, the one that came last in the log."""
    return max(votes, key=lambda vote: (vote.order, vote.offset))


def worst(scenario: Scenario, votes: Iterable[Vote]) -> str:
    """Return the worst state among `votes`, of which there must be at least one."""
    return min((vote.state for vote in votes), key=scenario.severity)


# ---- marks ----------------------------------------------------------------------------------


def mark(scenario: Scenario, asset: Asset) -> None:
    """Mark whether an asset's tallied state is confirmed, and who disputes what it shows."""
    if asset.shown is None:
        return
    votes, falling = asset.votes.values(), asset.falling(scenario)
    asset.unconfirmed = unconfirmed_reason(
        scenario, votes, asset.state, falling=falling, doubts=asset.doubts
    )
    asset.disputed = disputed(scenario, votes, asset.shown, asset.doubts.values())


def unconfirmed_reason(
    scenario: Scenario,
    votes: Iterable[Vote],
    state: str | None,
    *,
    falling: bool,
    doubts: Container[str] = (),
) -> str | None:
    """Return why live votes do not confirm `state`, in words, or None if they do.

    falling: whether there is a wait for a milder state, during which no vote needs to be as bad as
    `state`; doubts: the doubted agents.
    """
    live, sure, _ = Voices.of(scenario, votes, doubts)
    if len(sure) < scenario.min_voters:
        return f"{len(sure)} of {scenario.min_voters} voters"
    if scenario.life_cycle or state is None:
        return None
    rank = scenario.severity
    if all(rank(vote.state) < rank(state) for vote in sure):
        return "nobody says it is this good"
    if not falling and all(rank(vote.state) > rank(state) for vote in live):
        return "nobody says it is this bad"
    return None


def disputed(
    scenario: Scenario, votes: Iterable[Vote], shown: str | None, doubts: Iterable[Doubt] = ()
) -> str | None:
    """Return the worst state of a vote or a doubt if it is worse than `shown`, else None.

    Return UNREADABLE if it cannot be read.
    """
    if scenario.life_cycle or shown is None:
        return None
    here, said = scenario.severity(shown), _said(scenario, votes, doubts)
    return min((each for each in said if each[0] < here), default=(0, 0, None))[2]


def _said(
    scenario: Scenario, votes: Iterable[Vote], doubts: Iterable[Doubt]
) -> Iterator[tuple[int, int, str]]:
    """Yield what votes and doubts that count say, as (rank, negative offset, state)."""
    for vote in votes:
        if vote.counts:
            yield scenario.severity(vote.state), -vote.offset, vote.state
            if vote.flapping is not None:
                yield scenario.severity(vote.flapping.state), -vote.offset, vote.flapping.state
    for doubt in doubts:
        if doubt.counts:
            yield severity(scenario, doubt), -doubt.offset, doubt.said or UNREADABLE
