"""A state record as one row of the board, in the same form for pages and sockets."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from functools import partial
from operator import itemgetter
from typing import Any
from urllib.parse import quote

import msgspec

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
from domain.records import LOG_REPLACED
from domain.scenario import DetailSpec, Scenario
from domain.version import Version
from wire.sink import CauseValue, HistoryCause, StateValue, VoteValue, state_value

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
    "doubt-end": "{agent} no longer in doubt or flapping",
    "vote-forgotten": "last word of {agent} forgotten",
    "hold": "voted for long enough",
    "reminder": "reminder",
    "purge-after": "purged for its age",
    LOG_REPLACED: "purged: its log was deleted and created again",
    "import": "imported",
}

OF_SEVERAL = {
    "vote-expiry": "several agents fell silent",
    "doubt-end": "several agents no longer in doubt or flapping",
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
    beneath: see `beneath_of`; doubts: names from `dashboard.core.states.caveats.DOUBTS`; details:
    see `_detail_cells`. Raises ValueError for an invalid version.
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
        "details": _detail_cells(scenario, record),
    }


Value = str | float
"""A detail's value: a text of at most `MAX_VALUE` characters, or a number."""
MAX_VALUE = 200


def details_of(scenario: Scenario, record: StateValue) -> list[Value | None]:
    """Return the values of the scenario's details, None for each that is missing.

    All are of one vote, so that they belong together: see `_evidence`.
    """
    said = _evidence(scenario, record) if scenario.details else {}
    return [_value(said.get(key)) for key in scenario.detail_keys]


def named_details(scenario: Scenario, record: StateValue) -> dict[str, Value]:
    """Return the values of the scenario's details that there are, by key."""
    values = zip(scenario.detail_keys, details_of(scenario, record), strict=True)
    return {key: value for key, value in values if value is not None}


def details_text(scenario: Scenario, record: StateValue) -> str:
    """Return what agents add in words: `Kind syn-flood, Rate 41,200 /s`."""
    cells = zip(scenario.details, _detail_cells(scenario, record), strict=True)
    return ", ".join(f"{spec.title} {isolated(cell[0])}" for spec, cell in cells if cell)


def plain_record(scenario: Scenario, text: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return a state record's JSON as data for programs, with labels, details and links."""
    record = state_value(text)
    return {
        **json.loads(text),
        "labels": labels,
        "details": named_details(scenario, record),
        "links": scenario.links_of(record.asset, labels),
    }


def _evidence(scenario: Scenario, record: StateValue) -> dict[str, Any]:
    """Return what the newest live vote for the worst state adds, if it adds a detail with a column.

    Votes for a milder state than is shown say nothing about that state.
    """
    votes = [vote for vote in record.votes if vote.silent is None and vote.muted is None]
    fit = [(_evidence_rank(scenario, record.state, vote), vote) for vote in votes]
    for _, vote in sorted(((rank, vote) for rank, vote in fit if rank), key=itemgetter(0)):
        added = _added(vote)
        if any(_value(added.get(key)) is not None for key in scenario.detail_keys):
            return added
    return {}


def _evidence_rank(scenario: Scenario, state: str, vote: VoteValue) -> tuple[int, int, int] | None:
    """Return the sort key of a vote as evidence for `state`, or None if it is none."""
    severity, shown = scenario.severity(vote.state), scenario.severity(state)
    fits = vote.state == state if scenario.life_cycle else severity <= shown
    return (severity, -vote.time, -vote.offset) if fits else None


def _added(vote: VoteValue) -> dict[str, Any]:
    try:
        return vote.detail_object() or {}
    except msgspec.MsgspecError:
        return {}


def _value(said: object) -> Value | None:
    """Return a value as a column has it; None for what is neither a text nor a number."""
    if isinstance(said, bool):
        return "yes" if said else "no"
    if isinstance(said, str):
        return said.replace("\0", "\ufffd")[:MAX_VALUE] or None
    return said if isinstance(said, int | float) and abs(said) < LARGEST else None


LARGEST = 10**15
"""Numbers from here on are not shown: a browser and a database would round them."""


def _detail_cells(scenario: Scenario, record: StateValue) -> list[list[Any] | None]:
    """Return for each detail the text of its cell, and the number to sort by; None if missing."""
    values = zip(scenario.details, details_of(scenario, record), strict=True)
    return [None if value is None else _cell(spec, value) for spec, value in values]


def _cell(spec: DetailSpec, value: Value) -> list[Any]:
    if isinstance(value, str):
        return [value, None]
    return [f"{amount(value)} {spec.unit}".rstrip(), value]


def amount(value: float) -> str:
    """Return a number for people: `41,200`, `0.25`."""
    if isinstance(value, int) or value.is_integer():
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:,.2f}".rstrip("0").rstrip(".")


def _voteless(doubted: list[InDoubt], votes: int) -> list[InDoubt]:
    """Return the agents in doubt without a vote that get a mark beside this many votes."""
    voteless = [one for one in doubted if one.voteless and one.counts]
    return voteless[: max(VOTELESS_SHOWN, VOTES_SHOWN - APART - votes)]


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
    return cause_in_words(scenario, record.state, history_cause(record))


def history_cause(record: StateValue) -> HistoryCause:
    """Return a record's cause, with the agents whose votes lasted through a hold."""
    facts = msgspec.structs.asdict(record.cause)
    if record.cause.type != "hold" or record.override is not None:
        return HistoryCause(**facts)
    live = (vote for vote in record.votes if vote.silent is None and vote.muted is None)
    agents = [vote.agent.removeprefix(USER_PREFIX) for vote in live if vote.state == record.state]
    more = max(0, len(agents) - AGENTS_NAMED)
    return HistoryCause(**facts, voters=tuple(agents[:AGENTS_NAMED]), more=more)


def cause_in_words(scenario: Scenario, state: str, cause: HistoryCause) -> str:
    """Return what led to a state, in words; after a hold `Degraded for 10 s: probe-a, probe-b`."""
    if cause.type != "hold" or not scenario.hold(state):
        return cause_text(cause)
    text = f"{scenario.spec(state).label} for {exact_span(scenario.hold(state))}"
    more = [f"{cause.more} more"] if cause.more else []
    names = ", ".join([*map(isolated, cause.voters), *more])
    return f"{text}: {names}" if names else text


def cause_text(cause: CauseValue) -> str:
    """Return a cause in words that need no scenario."""
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
