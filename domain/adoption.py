"""How an asset goes over from one rule to another."""

from __future__ import annotations

from dataclasses import replace

from domain import doubts, tasks, transitions, votes
from domain.asset import Asset
from domain.mutes import Mutes
from domain.scenario import Scenario


def adopt(rule: Scenario, former: Scenario, mutes: Mutes, asset: Asset, at: int) -> None:
    """Put what the asset holds under the rule, as of `at` ms.

    First the votes as they were, newly weighed, are evidence; then their lifetimes begin again,
    and what that ends is silence. Only then do waits end that are over.
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
    doubts.adopt(rule, mutes, asset)
    votes.expire(rule, asset, at, at)
    doubts.end(asset, at)
    transitions.judge(rule, asset, at)
    tasks.adopt(rule, former, asset, at)


def _waits_under(rule: Scenario, former: Scenario, asset: Asset) -> dict[str, int]:
    """Return the waits that go on under another rule: for what it knows, and still is as much
    worse or milder than the state as it was."""
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
