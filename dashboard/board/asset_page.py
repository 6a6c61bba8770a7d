"""What the page of one asset says: its state and why, who votes, who is silent, its history."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from dashboard.board.explanation import Why, dissenters, explain, flip_text, freed_text
from dashboard.board.forecast import Flip, current_of, is_unheard
from dashboard.board.timeline import timeline
from dashboard.board.vote_details import details_of
from dashboard.commands.forms import shown
from dashboard.core.tables import Column
from dashboard.core.times import exact_span
from dashboard.job.job_clock import LogTime, log_time
from dashboard.job.status import newest_beats
from dashboard.rules.active_rule import in_force
from dashboard.states.board_rows import asset_path, beneath_of, cause_of
from dashboard.states.doubt_words import Because, of_detail, of_flapping
from dashboard.states.models import CHANGE, Transition
from domain.records import StateRecord
from domain.scenario import Scenario
from wire.job import bucket_name
from wire.sink import StateValue, cause_value, state_record

NAMED_IN = 200
"""How many of an asset's newest changes are searched for agents without a vote."""
MOST_UNHEARD = 12
"""Most of them that are named."""
MOST_DETAILED = 12
"""Most agents whose details are shown."""


def facts_of(
    scenario: Scenario, asset: str, record: StateValue | None, now: int, before: str = ""
) -> dict[str, Any]:
    """Return the context of `board/_asset.html`. record: from the topic, or None; now: Unix ms.

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


def _why(scenario: Scenario, asset: str, record: StateValue, now: int) -> dict[str, Any]:
    """Return the part of the context that only an asset on the board has."""
    state = state_record(record)
    beat = newest_beats(now).get(bucket_name(scenario.name, state.cause.partition))
    reached = max(state.version.offset, beat[1].offset if beat else -1)
    scenario = in_force(scenario, state.cause.partition, reached)
    why = explain(scenario, state)
    votes, details = _votes(scenario, state, why), details_of(record)
    bucket = log_time(scenario.name, state.cause.partition, now)
    known = {vote.agent for vote in state.votes} | {doubt.agent for doubt in state.doubts}
    unheard = unheard_agents(scenario.name, asset, known)
    return {
        "scenario": scenario,
        "why": why,
        "beneath": beneath_of(scenario, record),
        "flips": _flips(why),
        "freed_text": freed_text(why.freed) if why.freed else "",
        "vote_columns": VOTES,
        "silent_columns": SILENT_VOTES,
        "votes": [vote for vote in votes if vote["silent"] is None],
        "silent": [vote for vote in votes if vote["silent"] is not None],
        "doubt_columns": DOUBTS,
        "voteless": [one for one in why.doubted if one.voteless],
        "in_doubt": any(one.counts for one in why.doubted),
        "details": details[:MOST_DETAILED],
        "more_details": max(0, len(details) - MOST_DETAILED),
        "unheard": unheard[:MOST_UNHEARD],
        "more_unheard": max(0, len(unheard) - MOST_UNHEARD),
        "nothing_heard": is_unheard(scenario, state),
        "then_hold": scenario.hold(why.then or ""),
        "rises": state.pending and _rises(scenario, state),
        "bucket": bucket,
        "pending_shows": state.pending and _shows(bucket, state.pending.due),
        "reminder": _reminder(scenario, record, now),
        "cause": cause_of(scenario, record),
    }


SILENT_VOTES = (
    Column("Agent"),
    Column("Said"),
    Column("Silent since"),
    Column("Forgotten in"),
    Column("Weight", numeric=True),
)


DOUBTS = (Column("Agent"), Column("Said"), Column("Ends in"))
"""Of agents in doubt that have no vote."""


VOTES = (
    Column("Agent"),
    Column("Says"),
    Column("Age"),
    Column("Counts for"),
    Column("Weight", numeric=True),
)
"""Of live votes."""


def _votes(scenario: Scenario, state: StateRecord, why: Why) -> list[dict[str, Any]]:
    """Return the record's votes, the worst first.

    differs: from the state shown; forgotten: when, Unix ms; doubted: why it is in doubt; notes:
    what else there is to know of it.
    """
    against, delay = dissenters(state), scenario.forget_delay or 0
    doubted: dict[str, tuple[Because, ...]] = {one.agent: one.why for one in why.doubted}
    ordered = sorted(state.votes, key=lambda vote: (scenario.severity(vote.state), vote.agent))
    return [
        {
            **asdict(vote),
            "differs": vote.agent in against,
            "forgotten": None if vote.silent is None else vote.silent + delay,
            "doubted": doubted.get(vote.agent, ()),
            "notes": [text for text in (of_flapping(scenario, vote), of_detail(vote)) if text],
        }
        for vote in ordered
    ]


def _rises(scenario: Scenario, state: StateRecord) -> bool:
    """Return whether what waits is worse than the state."""
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


def unheard_agents(scenario: str, asset: str, known: set[str]) -> list[Unheard]:
    """Return the agents that caused one of the asset's newest changes and that nothing is known of
    now. known: those with a vote, or a doubt.

    The newest first. The history keeps what changed the state alone, so an agent that never did
    is not known here.
    """
    steps = Transition.objects.filter(scenario=scenario, asset=asset, kind=CHANGE)
    told = steps.order_by("-place").values_list("at", "cause_type", "cause")
    found: dict[str, Unheard] = {}
    for at, kind, cause in told[:NAMED_IN]:
        agent = cause_value(cause).agent
        if agent and agent not in known:
            found.setdefault(agent, Unheard(agent, at, expired=kind == "vote-expiry"))
    return list(found.values())


def _reminder(scenario: Scenario, record: StateValue, now: int) -> dict[str, Any] | None:
    """Return how often the state is repeated, and when next (Unix ms), by the rule as it is now."""
    every = scenario.reminder(record.state)
    if every is None:
        return None
    passed = max(0, now - record.since) // every
    return {"every": exact_span(every), "next": record.since + (passed + 1) * every}
