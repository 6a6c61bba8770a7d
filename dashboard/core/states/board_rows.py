"""A state record as one row of the board, in the same form for pages and sockets."""

from __future__ import annotations

from collections.abc import Container
from functools import partial
from typing import Any
from urllib.parse import quote

from dashboard.core.common.text import isolated
from dashboard.core.common.times import exact_span
from dashboard.core.states.caveats import (
    InDoubt,
    doubted_agents,
    doubts_of,
    in_doubt,
    place_of,
    rank_of,
    sentence,
    severity_of,
    silent_votes,
)
from domain.names import USER_PREFIX
from domain.scenario import Scenario
from domain.version import Version
from wire.sink import CauseValue, StateValue, VoteValue

Row = dict[str, Any]

VOTES_SHOWN = 12
"""Most votes that a row shows as marks; the asset's panel shows all of them."""
VOTELESS_SHOWN = 3
"""Agents in doubt without a vote that get a mark however many votes there are."""
APART = 2
"""Room taken, in marks, by the stroke before those agents and by their question marks."""

AGENTS_NAMED = 3
"""Most agents that a cause mentions by name."""

CAUSES = {
    "report": "reported by {agent}",
    "vote": "vote by {user}",
    "set": "set by {user}",
    "release": "released by {user}",
    "purge": "purged by {user}",
    "scheduled": "task scheduled by {user}",
    "cancelled": "task cancelled by {user}",
    "schedule": "task of {user} ran",
    "refused": "command of {user} refused",
    "scenario": "rule changed",
    "mute": "{agent} muted by {user}",
    "unmute": "{agent} unmuted by {user}",
    "mute-end": "mute of {agent} ended",
    "override-end": "override ended",
    "leave": "{agent} left",
    "vote-expiry": "{agent} fell silent",
    "doubt-end": "{agent} no longer in doubt or to and fro",
    "vote-forgotten": "last word of {agent} forgotten",
    "hold": "its votes lasted through the hold",
    "reminder": "reminder",
    "purge-after": "purged by its age",
}

OF_SEVERAL = {
    "vote-expiry": "several agents fell silent",
    "doubt-end": "several agents no longer in doubt or to and fro",
    "vote-forgotten": "silent votes of several agents forgotten",
    "mute-end": "mutes of several agents ended",
}
"""Causes that several agents share at the same time, so that none of them is named."""


def row_of(scenario: Scenario, record: StateValue) -> Row:
    """Return the row of a state record as it stands in the topic. Times in Unix ms.

    alarming: whether somebody has to see to the state; version: in sortable form, so that the
    browser can compare it as text; votes: agent and state,
    live ones before silent ones, the most severe first within each; muted: agents whose votes do
    not count; silent: agents whose votes are silent, and since when; doubt: see `_doubt_of`;
    beneath: see `beneath_of`; doubts: names from `dashboard.core.states.caveats.DOUBTS`. Raises
    ValueError for an invalid version.
    """
    votes = sorted(record.votes, key=partial(_place, scenario))
    doubted = in_doubt(scenario, votes, record.doubts)
    apart = _voteless(doubted, len(votes))
    shown = votes[: VOTES_SHOWN - len(apart) - APART * bool(apart)]
    doubt = doubted_agents(votes, record.doubts)
    override, pending = record.override, record.pending
    severity, disputed = scenario.severity(record.state), record.disputed
    return {
        "asset": record.asset,
        "url": asset_path(scenario.name, record.asset),
        "state": record.state,
        "severity": severity,
        "rank": rank_of(severity, disputed),
        "alarming": scenario.is_alarming(record.state),
        "colour": scenario.spec(record.state).colour,
        "since": record.since,
        "version": Version.parse(record.version).sortable(),
        "unconfirmed": record.unconfirmed,
        "unconfirmed_reason": record.unconfirmed_reason,
        "disputed": disputed,
        "beneath": beneath_of(scenario, record),
        "doubts": list(doubts_of(disputed, record.unconfirmed, silent_votes(votes), doubt)),
        "votes": [[vote.agent, vote.state] for vote in shown],
        "more_votes": len(votes) - len(shown),
        "muted": [vote.agent for vote in shown if vote.muted],
        "silent": [[v.agent, v.silent] for v in shown if v.silent is not None],
        "doubt": _doubt_of(doubted, apart, {vote.agent for vote in shown}),
        "pending": [pending.state, pending.due] if pending else None,
        "override": [override.user, override.until] if override else None,
        "cause": cause_of(scenario, record),
        "caused_at": record.cause.time,
    }


def _voteless(doubted: list[InDoubt], votes: int) -> list[InDoubt]:
    """Return the agents in doubt without a vote that get a mark beside this many votes."""
    found = [one for one in doubted if one.voteless and one.counts]
    return found[: max(VOTELESS_SHOWN, VOTES_SHOWN - APART - votes)]


def _doubt_of(
    doubted: list[InDoubt], apart: list[InDoubt], shown: Container[str]
) -> dict[str, Any] | None:
    """Return what a row shows about its agents in doubt; None if there are none.

    why: a sentence about those that count, "" if none do; of: the agents whose marks are in doubt,
    and why, in words; voteless: those without a vote, and what they reported; more: how many
    without a vote have no mark. shown: agents whose votes have a mark.
    """
    if not doubted:
        return None
    counting = [one for one in doubted if one.counts]
    return {
        "why": sentence(counting),
        "of": [[one.agent, one.words] for one in doubted if one.agent in shown or one in apart],
        "voteless": [[one.agent, one.said] for one in apart],
        "more": sum(one.voteless for one in counting) - len(apart),
    }


def beneath_of(scenario: Scenario, record: StateValue) -> str | None:
    """Return the state that would show without the pin, if it is worse; otherwise None.

    It must be worse than the pin and than any state reported: silent votes may be forgotten while
    the pin is in place.
    """
    if scenario.life_cycle or not record.override:
        return None
    known = [scenario.severity(record.state)]
    if record.disputed is not None:
        known.append(severity_of(scenario, record.disputed))
    beneath = record.override.underlying
    return None if beneath is None or scenario.severity(beneath) >= min(known) else beneath


def _place(scenario: Scenario, vote: VoteValue) -> tuple[bool, int, str]:
    """Return a vote's sort key in a row. Silent votes come last, so they crowd out no live vote."""
    return (vote.silent is not None, scenario.severity(vote.state), vote.agent)


def cause_of(scenario: Scenario, record: StateValue) -> str:
    """Return what caused a record, in words.

    For a refused report it says so; for a hold, how long it lasted and whose votes lasted through
    it.
    """
    cause = record.cause
    place = (cause.agent, cause.offset)
    if cause.type == "report" and any((one.agent, one.offset) == place for one in record.doubts):
        return f"report of {isolated(cause.agent or '')} not taken"
    if cause.type == "hold" and record.override is None and scenario.hold(record.state):
        return _held(scenario, record)
    return cause_text(cause)


def _held(scenario: Scenario, record: StateValue) -> str:
    """Return how long a state had votes, and whose: `Degraded for 10 s (probe-a)`."""
    text = f"{scenario.spec(record.state).label} for {exact_span(scenario.hold(record.state))}"
    live = (vote for vote in record.votes if vote.silent is None and vote.muted is None)
    agents = [vote.agent.removeprefix(USER_PREFIX) for vote in live if vote.state == record.state]
    if not agents:
        return text
    more = [f"{len(agents) - AGENTS_NAMED} more"] if len(agents) > AGENTS_NAMED else []
    return f"{text} ({', '.join([*map(isolated, agents[:AGENTS_NAMED]), *more])})"


def cause_text(cause: CauseValue) -> str:
    """Return a cause in words."""
    text = CAUSES.get(cause.type, "{type}")
    agent = cause.agent
    if agent is None:
        text = OF_SEVERAL.get(cause.type, text)
    elif cause.type == "vote-expiry" and agent.startswith(USER_PREFIX):
        text = "vote of {agent} expired"
    return text.format(
        type=cause.type,
        agent=isolated(agent or "an agent"),
        user=isolated(cause.user or "a user"),
    )


def order_of(row: Row, handled: bool = False) -> tuple[int, int, str]:
    """Return a row's sort key: unhandled first, severity, disputed first, newest first, name.

    handled: whether somebody has the asset in hand, or it is in maintenance.
    """
    place = place_of(row["rank"], row["alarming"] and not handled)
    return (place, -row["since"], row["asset"])


def asset_path(scenario: str, asset: str) -> str:
    """Return the address of an asset's panel.

    A slash in the name is percent-encoded, so that browsers do not collapse the path.
    """
    return f"/s/{quote(scenario, safe='')}/a/{quote(asset, safe='')}/"
