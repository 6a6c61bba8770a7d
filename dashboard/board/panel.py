"""What the panel of one asset says: its state and why, and how it came about."""

from __future__ import annotations

from typing import Any

import msgspec

from dashboard.board import store
from dashboard.board.models import Transition
from dashboard.live.rows import asset_path, cause_text
from domain.scenario import KEEP, Latest, PythonRule, Rung, Scenario

HISTORY = 30


def facts_of(
    scenario: Scenario, asset: str, record: dict[str, Any] | None, now: int
) -> dict[str, Any]:
    """The context of `board/_asset.html`. record: as it stands in the topic, or None; now: ms."""
    votes = sorted(
        (record or {}).get("votes", ()),
        key=lambda vote: (scenario.severity(vote["state"]), vote["agent"]),
    )
    return {
        "scenario": scenario,
        "asset": asset,
        "asset_url": asset_path(scenario.name, asset),
        "record": record,
        "cause": cause_text(record["cause"]) if record else "",
        "votes": votes,
        "weights": weights(scenario, votes),
        "rule": rule_text(scenario),
        "history": [_step(step) for step in store.history(scenario.name, asset, HISTORY)],
        "now": now,
    }


def weights(scenario: Scenario, votes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the live votes weigh by state, the most severe first, with their percentage."""
    whole = sum(vote["weight"] for vote in votes)
    sums: dict[str, int] = {}
    for vote in votes:
        sums[vote["state"]] = sums.get(vote["state"], 0) + vote["weight"]
    return [
        {
            "state": state,
            "colour": scenario.spec(state).colour,
            "weight": weight,
            "whole": whole,
            "percent": 100 * weight // whole if whole else 0,
        }
        for state, weight in sorted(sums.items(), key=lambda item: scenario.severity(item[0]))
    ]


def rule_text(scenario: Scenario) -> str:
    """The scenario's rule in a sentence."""
    if isinstance(scenario.rule, Latest):
        return "The latest report decides."
    if isinstance(scenario.rule, PythonRule):
        return f"The function {scenario.rule.function} decides, in Python."
    rungs = "; ".join(
        f"{scenario.spec(rung.state).label} with {_need(rung)}" for rung in scenario.rule.ladder
    )
    default = scenario.rule.default
    rest = "it stays as it is" if default == KEEP else scenario.spec(default).label
    return f"Read from the top: {rungs}; otherwise {rest}."


def _need(rung: Rung) -> str:
    how = "more than" if rung.strict else "at least"
    return f"{how} {rung.p}/{rung.q} of the weight" if rung.q else f"{how} weight {rung.p}"


def _step(step: Transition) -> dict[str, Any]:
    return {
        "at": step.at,
        "previous": step.previous,
        "state": step.state,
        "cause": cause_text(msgspec.json.decode(step.cause)),
    }
