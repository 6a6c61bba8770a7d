"""How an asset moves from one rule to another."""

from __future__ import annotations

from dataclasses import replace

from domain import doubts, tasks, transitions, votes
from domain.asset import Asset
from domain.mutes import Mutes
from domain.scenario import Scenario


def adopt(rule: Scenario, former: Scenario, mutes: Mutes, asset: Asset, at: int) -> None:
    """Put the asset under the rule as of `at` ms.

    The votes as they were, with their new weights, are judged as evidence first. Then their
    lifetimes start again, and votes that end because of that count as silence. Where the rule
    doubts agents, waits that are over end only after that.
    """
    doubts.rename(rule, mutes, asset, at)
    asset.votes = {
        agent: replace(vote, weight=mutes.weight(rule, agent))
        for agent, vote in asset.votes.items()
    }
    if asset.override is not None and not rule.knows(asset.override.state):
        asset.override = None
    asset.waits = _waits_under(rule, former, asset)
    transitions.judge(rule, asset, at, up=True, down=True, ends=not rule.doubting)
    votes.age(rule, asset)
    doubts.adopt(rule, former, mutes, asset)
    votes.expire(rule, asset, at, at)
    doubts.end(asset, at)
    transitions.judge(rule, asset, at)
    tasks.adopt(rule, former, asset, at)


def _waits_under(rule: Scenario, former: Scenario, asset: Asset) -> dict[str, int]:
    """Return the waits that continue under another rule.

    These are waits for states that the rule knows and that are, as before, worse or milder than the
    asset's state. In a life cycle it is enough that the rule knows them.
    """
    if rule.life_cycle != former.life_cycle or asset.state is None:
        return {}
    here = asset.state
    return {
        state: since
        for state, since in asset.waits.items()
        if rule.knows(state)
        and (rule.life_cycle or _is_worse(rule, state, here) == _is_worse(former, state, here))
    }


def _is_worse(rule: Scenario, state: str, here: str) -> bool:
    return rule.severity(state) < rule.severity(here)
