"""The rule applied to votes: what raises a state, what lowers it, and what is marked on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator
from typing import NamedTuple, Self

from domain.asset import Asset
from domain.doubts import is_doubted, severity, trusted
from domain.python_rules import evaluate
from domain.records import UNREADABLE, Doubt, Vote
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


class Voices(NamedTuple):
    """The votes on an asset that count.

    live: those that raise a state; sure: the live ones without doubt, which lower it; quiet: the
    silent and the doubted ones, which speak against lowering it.
    """

    live: list[Vote]
    sure: list[Vote]
    quiet: list[Vote]

    @classmethod
    def of(cls, votes: Iterable[Vote], doubts: Container[str]) -> Self:
        """Return the votes by what they may do. doubts: the agents that are doubted."""
        live, quiet = [], []
        for vote in votes:
            if vote.live:
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
    """Return the state that the live votes make: what raises. None without a live vote."""
    voices = Voices.of(votes, doubts)
    return raised(scenario, voices, current) if voices.live else None


def raised(scenario: Scenario, voices: Voices, current: str | None) -> str:
    """Return what raises, where there is a live vote: what all live votes make.

    Or what those without doubt make, where it is worse and they are voters enough to raise a state:
    whoever is in doubt does not outvote them.
    """
    made = tally(scenario, voices.live, current)
    if len(voices.sure) in (0, len(voices.live)) or len(voices.sure) < scenario.raise_voters:
        return made
    return min(made, tally(scenario, voices.sure, current), key=scenario.severity)


def lowering(
    scenario: Scenario, votes: Iterable[Vote], current: str, doubts: Container[str] = ()
) -> str | None:
    """Return the mildest state that live votes bear out and that no silent one speaks against.

    That is the mildest X such that what raises is X or milder, the live votes without doubt, with
    the silent and the doubted ones that are worse than X, make X or milder, and one of the former
    says X or milder. Where there is none: the worse one of `current` and what raises. None without
    a live vote.
    """
    voices = Voices.of(votes, doubts)
    if not voices.live:
        return None
    return lowered(scenario, voices, current, raised(scenario, voices, current))


def lowered(scenario: Scenario, voices: Voices, current: str, raised: str) -> str:
    """Return what `lowering` does, where `raised` is what raises."""
    rank = scenario.severity
    mildest = max((rank(vote.state) for vote in voices.sure), default=-1)
    for place in range(min(rank(raised), mildest), -1, -1):
        worse = [vote for vote in voices.quiet if rank(vote.state) < place]
        if all(rank(state) >= place for state in _made(scenario, voices, worse, current)):
            return scenario.states[place].name
    return min(current, raised, key=rank)


def _made(scenario: Scenario, voices: Voices, worse: list[Vote], current: str) -> Iterator[str]:
    """Yield the tallies of sure votes with quiet ones worse than a state: none may be worse."""
    votes = [*voices.sure, *worse]
    if isinstance(scenario.rule, Latest):
        yield _last(votes).state
    if worse or len(voices.sure) < len(voices.live):
        yield tally(scenario, votes, current)  # else it is what raises, which has been looked at


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
    """Return why `state` is not confirmed by live votes, in words, or None where it is.

    falling: whether a wait for a milder state runs, which says that nobody needs to be as worse;
    doubts: the agents that are doubted.
    """
    live, sure, _ = Voices.of(votes, doubts)
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
    """Return the worst that a vote or a doubt says, if that is worse than `shown`.

    UNREADABLE where nobody can read it.
    """
    if scenario.life_cycle or shown is None:
        return None
    here, said = scenario.severity(shown), _said(scenario, votes, doubts)
    return min((each for each in said if each[0] < here), default=(0, 0, None))[2]


def _said(
    scenario: Scenario, votes: Iterable[Vote], doubts: Iterable[Doubt]
) -> Iterator[tuple[int, int, str]]:
    """Yield what votes and doubts that count say, behind its rank and its age in the log."""
    for vote in votes:
        if vote.counts:
            yield scenario.severity(vote.state), -vote.offset, vote.state
            if vote.flapping is not None:
                yield scenario.severity(vote.flapping.state), -vote.offset, vote.flapping.state
    for doubt in doubts:
        if doubt.counts:
            yield severity(scenario, doubt), -doubt.offset, doubt.said or UNREADABLE
