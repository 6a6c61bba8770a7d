"""Doubt: reports that an agent sent but the fold could not take speak against its vote.

A doubted agent may raise an alarm but never gives the all-clear. Its vote is treated as live for
raising and disputing a state, and as silent for lowering and confirming one.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from dataclasses import replace

from domain.asset import Asset
from domain.mutes import Mutes
from domain.records import MAX_VOTELESS, PASSING_DOUBTS, RENAMED, Doubt, Flap, Vote
from domain.scenario import Scenario


def is_doubted(vote: Vote, doubts: Container[str]) -> bool:
    """Return whether a vote is in doubt, through its own report or through its agent."""
    return vote.doubt is not None or vote.agent in doubts


def trusted(votes: Iterable[Vote], doubts: Container[str]) -> list[Vote]:
    """List the votes that are not in doubt."""
    return [vote for vote in votes if not is_doubted(vote, doubts)]


def severity(scenario: Scenario, doubt: Doubt) -> int:
    """Return the rank of what a doubt says. An unreadable statement ranks worse than all others."""
    return -1 if doubt.said is None else scenario.severity(doubt.said)


# ---- causes -----------------------------------------------------------------------------------


def put(scenario: Scenario, asset: Asset, doubt: Doubt) -> None:
    """Record a doubt about an agent.

    Merged with an earlier doubt, it keeps the worse statement and the later end. At most
    MAX_VOTELESS doubts are kept whose agents have no vote.
    """
    former = asset.doubts.get(doubt.agent)
    asset.doubts = {**asset.doubts, doubt.agent: _merged(scenario, former, doubt)}
    voteless = [each for each in asset.doubts.values() if each.agent not in asset.votes]
    if len(voteless) > MAX_VOTELESS:
        _drop(asset, [_least_needed(scenario, voteless)])


def _merged(scenario: Scenario, former: Doubt | None, doubt: Doubt) -> Doubt:
    if former is None:
        return doubt
    worse = severity(scenario, former) < severity(scenario, doubt)
    said, reason = (former.said, former.reason) if worse else (doubt.said, doubt.reason)
    if reason in PASSING_DOUBTS:  # the agent's next report must not end what another cause began
        reason = former.reason if doubt.reason in PASSING_DOUBTS else doubt.reason
    return replace(doubt, said=said, reason=reason)


def _least_needed(scenario: Scenario, doubts: Collection[Doubt]) -> str:
    """Return the agent whose doubt is dropped first.

    Doubts that do not count go first, then the one that ends first (before CLAIM_FOLD the mildest),
    then the oldest.
    """

    def need(doubt: Doubt) -> tuple[bool, int, int]:
        later = doubt.until if scenario.by_claim else -severity(scenario, doubt)
        return doubt.counts, later, doubt.offset

    return min(doubts, key=need).agent


def flap(scenario: Scenario, former: Vote | None, vote: Vote) -> Vote:
    """Return the vote, marked with the last time its agent turned worse if that still matters.

    Turning worse in several steps, without turning milder in between, counts once.
    """
    last = former.flap if former is not None else None
    if last is not None and last.until <= vote.time:
        last = None
    if former is None or scenario.severity(vote.state) >= scenario.severity(former.state):
        return vote if last is None else replace(vote, flap=last)
    said = [vote.state] if last is None else [last.state, vote.state]
    state, until = min(said, key=scenario.severity), vote.time + (scenario.lifetime or 0)
    again = last is not None and (last.again or _is_milder(scenario, former.state, last.state))
    return replace(vote, flap=Flap(state, vote.time, until, again=again))


def _is_milder(scenario: Scenario, state: str, other: str) -> bool:
    return scenario.severity(state) > scenario.severity(other)


# ---- ends -------------------------------------------------------------------------------------


def end_doubt(scenario: Scenario, asset: Asset, vote: Vote) -> None:
    """End a doubt that lasts only until its agent's next report, which this vote is.

    From CLAIM_FOLD on the report must claim to be later than what caused the doubt.
    """
    doubt = asset.doubts.get(vote.agent)
    if doubt is None or doubt.reason not in PASSING_DOUBTS:
        return
    if not scenario.by_claim or vote.claimed > doubt.time:
        _drop(asset, [vote.agent])


def end(asset: Asset, upto: int) -> None:
    """End the doubts, and the flaps of votes that turned worse twice, that end by `upto` ms."""
    _drop(asset, [doubt.agent for doubt in asset.doubts.values() if doubt.until <= upto])
    if any(_is_over(vote, upto) for vote in asset.votes.values()):
        asset.votes = {
            agent: replace(vote, flap=None) if _is_over(vote, upto) else vote
            for agent, vote in asset.votes.items()
        }


def ending(asset: Asset, upto: int) -> list[str]:
    """List the agents for whom `end` would end a doubt or a flap."""
    agents = {doubt.agent for doubt in asset.doubts.values() if doubt.until <= upto}
    return sorted(agents | {vote.agent for vote in asset.votes.values() if _is_over(vote, upto)})


def _is_over(vote: Vote, upto: int) -> bool:
    return vote.flapping is not None and vote.flapping.until <= upto


def _drop(asset: Asset, agents: Collection[str]) -> None:
    if agents:
        asset.doubts = {name: each for name, each in asset.doubts.items() if name not in agents}


# ---- a change of rule -------------------------------------------------------------------------


def rename(rule: Scenario, mutes: Mutes, asset: Asset, at: int) -> None:
    """Remove the votes for states that the rule does not know, and doubt their agents.

    From CLAIM_FOLD on they stay.
    """
    if rule.by_claim:
        return
    unknown = [vote for vote in asset.votes.values() if not rule.knows(vote.state)]
    asset.votes = {agent: vote for agent, vote in asset.votes.items() if rule.knows(vote.state)}
    lifetime = rule.lifetime
    if not rule.doubting or lifetime is None:
        return
    for vote in unknown:
        weight = mutes.weight(rule, vote.agent)
        end = at + lifetime
        doubt = Doubt(vote.agent, RENAMED, vote.state, at, vote.offset, end, weight, vote.muted)
        put(rule, asset, doubt)


def adopt(rule: Scenario, former: Scenario, mutes: Mutes, asset: Asset) -> None:
    """Put the doubts under another rule: they last as long as a vote lives under it."""
    lifetime = rule.lifetime
    if not rule.doubting or lifetime is None:
        asset.doubts = {}
        asset.votes = {
            agent: replace(vote, doubt=None, flap=None) for agent, vote in asset.votes.items()
        }
        return
    asset.doubts = {
        agent: replace(
            doubt,
            said=_said(rule, former, doubt),
            until=doubt.time + lifetime,
            weight=mutes.weight(rule, agent),
        )
        for agent, doubt in asset.doubts.items()
    }
    asset.votes = {
        agent: vote
        if vote.flap is None
        else replace(vote, flap=replace(vote.flap, until=vote.flap.time + lifetime))
        for agent, vote in asset.votes.items()
    }


def _said(rule: Scenario, former: Scenario, doubt: Doubt) -> str | None:
    """Return what a doubt says under another rule.

    A word that the former rule did not know may hide another one. Once it is known, it is none.
    """
    learnt = severity(former, doubt) < 0 <= severity(rule, doubt)
    return None if learnt and rule.by_claim else doubt.said
