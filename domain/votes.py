"""The votes on an asset: which are kept, since when they are silent, and who is muted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from domain.asset import Asset
from domain.names import USER_PREFIX
from domain.records import MAX_VOTERS, Muted, Vote
from domain.scenario import Scenario

# ---- room for a newcomer --------------------------------------------------------------------


def make_room(scenario: Scenario, asset: Asset, vote: Vote) -> bool:
    """Make room for a newcomer's vote, and return whether there is any."""
    if vote.agent in asset.votes or len(asset.votes) < MAX_VOTERS:
        return True
    agent = _least_needed(scenario, asset, vote)
    if agent is None:
        return False
    asset.votes = {name: kept for name, kept in asset.votes.items() if name != agent}
    return True


def _least_needed(scenario: Scenario, asset: Asset, newcomer: Vote) -> str | None:
    """Return the agent whose vote is dropped first, or None if none may be.

    Votes that do not count go before silent ones, and those before live ones; then the mildest goes
    first, then the oldest. A vote is kept if it counts for more than the newcomer's, or if it
    counts and is worse. In a life cycle none is dropped.
    """
    if scenario.life_cycle:
        return None
    rank = scenario.severity
    most, least = _precedence(scenario, newcomer), rank(newcomer.state)
    giving_way = [
        (_precedence(scenario, vote), -rank(vote.state), vote.order, vote.offset, vote.agent)
        for vote in asset.votes.values()
        if _precedence(scenario, vote) <= most and (not vote.counts or rank(vote.state) >= least)
    ]
    return min(giving_way)[-1] if giving_way else None


def _precedence(scenario: Scenario, vote: Vote) -> int:
    """Return how much a vote counts: 0 if it does not, 1 if it is silent, 2 if it is live."""
    return 0 if not vote.counts else 2 if is_live(scenario, vote) else 1


# ---- silence --------------------------------------------------------------------------------


def is_live(scenario: Scenario, vote: Vote) -> bool:
    """Return whether a vote is live. One for a state that the rule does not know is as silent."""
    return vote.live and scenario.severity(vote.state) >= 0


def as_old_as(vote: Vote, former: Vote) -> Vote:
    """Return a vote that repeats its agent's claim: it ends no later than the former vote."""
    if vote.expires is None or former.expires is None or vote.expires <= former.expires:
        return vote
    age = vote.age + vote.expires - former.expires
    silent = None if former.silent is None else former.expires
    return replace(vote, expires=former.expires, age=age, silent=silent)


def fallen_silent(scenario: Scenario, vote: Vote, since: int) -> Vote | None:
    """Return what is kept of a vote that is no longer live, or None if nothing is.

    A silent vote counts like one in doubt, so its own doubt ends.
    """
    kept = vote.muted is None and not vote.agent.startswith(USER_PREFIX)
    if not kept or scenario.forget_delay is None:
        return None
    return replace(vote, silent=since, doubt=None)


def expire(scenario: Scenario, asset: Asset, upto: int, since: int) -> None:
    """Make the votes that expire by `upto` ms silent since `since`, or remove them."""
    kept = {}
    for agent, vote in asset.votes.items():
        if vote.silent is not None or vote.expires is None or vote.expires > upto:
            kept[agent] = vote
        elif (silent := fallen_silent(scenario, vote, since)) is not None:
            kept[agent] = silent
    asset.votes = kept


def forget(scenario: Scenario, asset: Asset, upto: int) -> None:
    """Remove the silent votes that are kept no longer than `upto` ms."""
    gone = forgotten(scenario, asset, upto)
    asset.votes = {name: vote for name, vote in asset.votes.items() if name not in gone}


def age(scenario: Scenario, asset: Asset) -> None:
    """Give the votes the rule's lifetime, and remove silent ones that the rule does not keep."""
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


def withdraw(scenario: Scenario, asset: Asset, agent: str) -> None:
    """Remove an agent's vote and, before CLAIM_FOLD, the doubt about it."""
    asset.votes = {name: vote for name, vote in asset.votes.items() if name != agent}
    if not scenario.by_claim:
        asset.doubts = {name: doubt for name, doubt in asset.doubts.items() if name != agent}


# ---- mutes ----------------------------------------------------------------------------------


def put_mark(scenario: Scenario, asset: Asset, agent: str, mark: Muted | None) -> None:
    """Set or clear the mute of an agent's vote and doubt. Muting removes a silent vote."""
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
    """Clear the mute of votes and doubts whose mute ends by `upto` ms."""
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
