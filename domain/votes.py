"""The votes on an asset: which of them are kept, since when they are silent, who is muted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from domain.asset import Asset
from domain.names import USER_PREFIX
from domain.records import MAX_VOTERS, Muted, Vote
from domain.scenario import Scenario

# ---- room for a newcomer --------------------------------------------------------------------


def make_room(scenario: Scenario, asset: Asset, vote: Vote) -> bool:
    """See that there is a place for a newcomer's vote; returns whether there is."""
    if vote.agent in asset.votes or len(asset.votes) < MAX_VOTERS:
        return True
    agent = _least_needed(scenario, asset, vote)
    if agent is None:
        return False
    asset.votes = {name: kept for name, kept in asset.votes.items() if name != agent}
    return True


def _least_needed(scenario: Scenario, asset: Asset, newcomer: Vote) -> str | None:
    """Return the agent whose vote makes way: one that counts nothing before a silent one before a
    live one, the mildest first, then the oldest; never one worse than the newcomer's."""
    if scenario.life_cycle:
        return None
    rank = scenario.severity
    most, least = _precedence(newcomer), rank(newcomer.state)
    giving_way = [
        (_precedence(vote), -rank(vote.state), vote.order, vote.offset, vote.agent)
        for vote in asset.votes.values()
        if _precedence(vote) <= most and (not vote.counts or rank(vote.state) >= least)
    ]
    return min(giving_way)[-1] if giving_way else None


def _precedence(vote: Vote) -> int:
    """Return how much a vote counts: nothing, as a silent one, or as a live one."""
    return 0 if not vote.counts else 1 if vote.silent is not None else 2


# ---- silence --------------------------------------------------------------------------------


def fallen_silent(scenario: Scenario, vote: Vote, since: int) -> Vote | None:
    """Return what is kept of a vote that is not live any more; None: nothing.

    A silent vote counts as one in doubt does, so its own doubt ends.
    """
    kept = vote.muted is None and not vote.agent.startswith(USER_PREFIX)
    if not kept or scenario.forget_delay is None:
        return None
    return replace(vote, silent=since, doubt=None)


def expire(scenario: Scenario, asset: Asset, upto: int, since: int) -> None:
    """Have the votes that live no longer than `upto` ms be silent since `since`, or gone."""
    kept = {}
    for agent, vote in asset.votes.items():
        if vote.silent is not None or vote.expires is None or vote.expires > upto:
            kept[agent] = vote
        elif (silent := fallen_silent(scenario, vote, since)) is not None:
            kept[agent] = silent
    asset.votes = kept


def forget(scenario: Scenario, asset: Asset, upto: int) -> None:
    """Take out the silent votes that are kept no longer than `upto` ms."""
    gone = forgotten(scenario, asset, upto)
    asset.votes = {name: vote for name, vote in asset.votes.items() if name not in gone}


def age(scenario: Scenario, asset: Asset) -> None:
    """Give the votes the rule's lifetime, and keep the silent ones where the rule keeps them."""
    asset.votes = dict(_aged(scenario, asset.votes.values()))


def _aged(scenario: Scenario, votes: Iterable[Vote]) -> Iterable[tuple[str, Vote]]:
    lifetime = scenario.lifetime
    for vote in votes:
        if vote.silent is not None:
            if fallen_silent(scenario, vote, vote.silent) is not None:
                yield vote.agent, vote
            continue
        expires = None if lifetime is None else vote.time + lifetime - vote.age
        yield vote.agent, replace(vote, expires=expires)


def withdraw(asset: Asset, agent: str) -> None:
    """Take out what an agent said, its vote and the doubt about it."""
    asset.votes = {name: vote for name, vote in asset.votes.items() if name != agent}
    asset.doubts = {name: doubt for name, doubt in asset.doubts.items() if name != agent}


# ---- mutes ----------------------------------------------------------------------------------


def put_mark(scenario: Scenario, asset: Asset, agent: str, mark: Muted | None) -> None:
    """Mark an agent's vote and doubt, or unmark them; what it said last goes if it is silent."""
    weight = scenario.weight(agent) if mark is None else 0
    if (doubt := asset.doubts.get(agent)) is not None:
        asset.doubts = {**asset.doubts, agent: replace(doubt, weight=weight, muted=mark)}
    vote = asset.votes.get(agent)
    if vote is None:
        return
    if mark is not None and vote.silent is not None:
        del asset.votes[agent]
    else:
        asset.votes[agent] = replace(vote, weight=weight, muted=mark)


def unmute(scenario: Scenario, asset: Asset, upto: int) -> None:
    """Unmark the votes whose mute lasts no longer than `upto` ms."""
    for agent in unmuted(asset, upto):
        put_mark(scenario, asset, agent, None)


# ---- agents whose timer fires --------------------------------------------------------------


def expiring(asset: Asset, upto: int) -> list[str]:
    """List the agents whose live votes expire by `upto` ms."""
    return [
        vote.agent
        for vote in asset.votes.values()
        if vote.silent is None and vote.expires is not None and vote.expires <= upto
    ]


def forgotten(scenario: Scenario, asset: Asset, upto: int) -> list[str]:
    """List the agents whose silent votes are kept no longer than `upto` ms."""
    delay = scenario.forget_delay or 0
    return [
        vote.agent
        for vote in asset.votes.values()
        if vote.silent is not None and vote.silent + delay <= upto
    ]


def unmuted(asset: Asset, upto: int) -> list[str]:
    """List the agents whose mute ends by `upto` ms."""
    return sorted(
        {
            voice.agent
            for voice in asset.voices()
            if voice.muted is not None
            and voice.muted.until is not None
            and voice.muted.until <= upto
        }
    )
