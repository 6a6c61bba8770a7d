"""What the page of one asset says: its state and why, who votes, who is silent, its history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from dashboard.board.explanation import Why, dissenters, explain, flip_text
from dashboard.board.forecast import Flip, current_of, is_unheard
from dashboard.board.timeline import timeline
from dashboard.commands.forms import shown
from dashboard.core.times import exact_span
from dashboard.job.heartbeats import newest_beats
from dashboard.job.job_clock import LogTime, log_time
from dashboard.rules.active_rule import in_force
from dashboard.states.board_rows import asset_path, beneath_of, cause_text
from dashboard.states.models import CHANGE, Transition
from domain.records import StateRecord
from domain.scenario import Scenario
from wire.job import bucket_name
from wire.sink import state_of_json

NAMED_IN = 200
"""How many of an asset's newest changes are searched for agents without a vote."""
MOST_UNHEARD = 12
"""Most of them that are named."""


def facts_of(
    scenario: Scenario, asset: str, record: dict[str, Any] | None, now: int, before: str = ""
) -> dict[str, Any]:
    """The context of `board/_asset.html`. record: as it stands in the topic, or None; now: ms.

    before: a place in the history to begin below, empty for its newest page.
    """
    past = timeline(scenario.name, asset, record, now, before)
    context = {
        "scenario": scenario,
        "asset": asset,
        "asset_url": asset_path(scenario.name, asset),
        "record": record,
        "showing": shown(record, now),
        "history": past.entries,
        "timeline": past,
        "before": "" if past.first else before,
        "now": now,
    }
    return context | _why(scenario, asset, record, now) if record else context


def _why(scenario: Scenario, asset: str, record: dict[str, Any], now: int) -> dict[str, Any]:
    """What there is to say of an asset that is on the board."""
    state = state_of_json(msgspec.json.encode(record))
    beat = newest_beats(now).get(bucket_name(scenario.name, state.cause.partition))
    reached = max(state.version.offset, beat[1].offset if beat else -1)
    scenario = in_force(scenario, state.cause.partition, reached)
    why = explain(scenario, state)
    votes = _votes(scenario, state, record)
    bucket = log_time(scenario.name, state.cause.partition, now)
    unheard = unheard_agents(scenario.name, asset, {vote["agent"] for vote in votes})
    return {
        "scenario": scenario,
        "why": why,
        "beneath": beneath_of(scenario, record),
        "flips": _flips(why),
        "votes": [vote for vote in votes if vote.get("silent") is None],
        "silent": [vote for vote in votes if vote.get("silent") is not None],
        "unheard": unheard[:MOST_UNHEARD],
        "more_unheard": max(0, len(unheard) - MOST_UNHEARD),
        "nothing_heard": is_unheard(scenario, state),
        "then_hold": scenario.hold(why.then or ""),
        "rises": state.pending and _rises(scenario, state),
        "bucket": bucket,
        "pending_shows": state.pending and _shows(bucket, state.pending.due),
        "reminder": _reminder(scenario, record, now),
        "cause": cause_text(record["cause"]),
    }


def _votes(scenario: Scenario, state: StateRecord, record: dict[str, Any]) -> list[dict[str, Any]]:
    """The record's votes, the worst first. differs: from the state shown; forgotten: when, ms."""
    against, delay = dissenters(state), scenario.forget_delay or 0
    ordered = sorted(
        record["votes"], key=lambda vote: (scenario.severity(vote["state"]), vote["agent"])
    )
    return [
        {
            **vote,
            "differs": vote["agent"] in against,
            "forgotten": vote["silent"] + delay if vote.get("silent") is not None else None,
        }
        for vote in ordered
    ]


def _rises(scenario: Scenario, state: StateRecord) -> bool:
    """Whether what waits is worse than the state."""
    assert state.pending is not None
    current = current_of(scenario, state) or ""
    return scenario.severity(state.pending.state) < scenario.severity(current)


def _flips(why: Why) -> list[tuple[Flip, str]]:
    return [(flip, flip_text(flip)) for flip in why.flips]


def _shows(bucket: LogTime | None, due: int) -> int:
    return bucket.shows(due) if bucket else due


@dataclass(frozen=True, slots=True)
class Unheard:
    """An agent that an asset's history names and of which no vote is kept; at: when it was, ms."""

    agent: str
    at: int
    expired: bool


def unheard_agents(scenario: str, asset: str, voting: set[str]) -> list[Unheard]:
    """The agents that brought about one of the asset's newest changes and have no vote now.

    The newest first. The history keeps what changed the state alone, so an agent that never did
    is not known here.
    """
    steps = Transition.objects.filter(scenario=scenario, asset=asset, kind=CHANGE)
    told = steps.order_by("-place").values_list("at", "cause_type", "cause")
    found: dict[str, Unheard] = {}
    for at, kind, cause in told[:NAMED_IN]:
        agent = msgspec.json.decode(cause).get("agent")
        if agent and agent not in voting:
            found.setdefault(agent, Unheard(agent, at, expired=kind == "vote-expiry"))
    return list(found.values())


def _reminder(scenario: Scenario, record: dict[str, Any], now: int) -> dict[str, Any] | None:
    """How often the asset's state is repeated, and when next, by the rule as it is now."""
    every = scenario.reminder(record["state"])
    if every is None:
        return None
    passed = max(0, now - record["since"]) // every
    return {"every": exact_span(every), "next": record["since"] + (passed + 1) * every}
