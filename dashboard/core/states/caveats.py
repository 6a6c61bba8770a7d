"""What readers must know before they trust a state: caveats, and doubts in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress, product
from typing import NamedTuple

from dashboard.core.common.text import isolated
from dashboard.core.common.times import span, time_of_day
from domain.names import USER_PREFIX
from domain.records import (
    CLOCK_AHEAD,
    CLOCK_BACK,
    CONTRADICTION,
    PURGED,
    RENAMED,
    STALE,
    UNREADABLE,
    Doubt,
    Vote,
)
from domain.scenario import Scenario
from wire.sink import DoubtValue, VoteValue

# ---- doubt words ---------------------------------------------------------------------------------
# Doubts in words: why a vote, or an agent without one, cannot give the all-clear.
#
# Rows, panels, files and the handover all use these words. Times in Unix ms.

AnyVote = Vote | VoteValue
AnyDoubt = Doubt | DoubtValue

MOST_NAMED = 4
"""Most agents in doubt that a sentence mentions by name."""

_OF_VOTES = {CLOCK_BACK: "a clock went back", PURGED: "older than the purge"}
_REFUSED = {"bad-time": "no valid time", "bad-field": "no state", "not-json": "cut short"}
_LEFT_OUT = {"too-large": "too large", "bad-field": "not an object"}


class Because(NamedTuple):
    """Why an agent is in doubt. at: when it reported what the text mentions, or None."""

    text: str
    at: int | None = None

    def __str__(self) -> str:
        return self.text if self.at is None else f"{self.text} at {time_of_day(self.at)} UTC"


class InDoubt(NamedTuple):
    """An agent in doubt. said: the worst state it reported that no vote of its shows, or None;
    until: when the doubt expires, None if only its next report can end it; counts: whether its vote
    or its doubt counts."""

    agent: str
    why: tuple[Because, ...]
    said: str | None
    until: int | None
    voteless: bool
    counts: bool

    @property
    def words(self) -> str:
        """The reasons without times, for places with little room."""
        return "; ".join(because.text for because in self.why)

    def __str__(self) -> str:
        return f"{isolated(self.agent)} ({'; '.join(map(str, self.why))})"


def in_doubt(
    scenario: Scenario, votes: Sequence[AnyVote], doubts: Iterable[AnyDoubt]
) -> list[InDoubt]:
    """Return every agent in doubt: first those that count, then by the worst state reported."""
    by_agent = {doubt.agent: doubt for doubt in doubts}
    voting = {vote.agent for vote in votes}
    doubted = [
        _of_vote(scenario, vote, by_agent.get(vote.agent))
        for vote in votes
        if vote.doubt is not None or vote.agent in by_agent
    ]
    doubted += [_voteless(scenario, each) for name, each in by_agent.items() if name not in voting]
    return sorted(doubted, key=lambda each: (not each.counts, _rank(scenario, each), each.agent))


def _rank(scenario: Scenario, one: InDoubt) -> int:
    return len(scenario.states) if one.said is None else severity_of(scenario, one.said)


def severity_of(scenario: Scenario, word: str) -> int:
    """Return the severity of a reported state; an unreadable one is worse than all others."""
    unread = word == UNREADABLE and all(spec.name != UNREADABLE for spec in scenario.states)
    return -1 if unread else scenario.severity(word)


def _of_vote(scenario: Scenario, vote: AnyVote, doubt: AnyDoubt | None) -> InDoubt:
    own = (Because(of_vote(vote)),) if vote.doubt is not None else ()
    counts = vote.weight > 0 and vote.muted is None
    if doubt is None:
        return InDoubt(vote.agent, own, None, None, voteless=False, counts=counts)
    why = (*own, of_agent(scenario, doubt))
    return InDoubt(vote.agent, why, _said(doubt), doubt.until, voteless=False, counts=counts)


def _voteless(scenario: Scenario, doubt: AnyDoubt) -> InDoubt:
    why = (of_agent(scenario, doubt),)
    return InDoubt(doubt.agent, why, _said(doubt), doubt.until, voteless=True, counts=doubt.counts)


def _said(doubt: AnyDoubt) -> str:
    return UNREADABLE if doubt.said is None else doubt.said


# ---- words ------------------------------------------------------------------------------------


def of_vote(vote: AnyVote) -> str:
    """Return why a vote is in doubt because of its own report."""
    if vote.doubt == CLOCK_AHEAD:
        return f"clock {span(vote.reported_at - vote.time)} ahead"
    return _OF_VOTES.get(vote.doubt or "", vote.doubt or "")


def of_agent(scenario: Scenario, doubt: AnyDoubt) -> Because:
    """Return why an agent is in doubt, whatever its vote is."""
    if doubt.said is None:
        refused = _REFUSED.get(doubt.reason)
        text = f"its reports are refused: {refused}" if refused else "its reports cannot be read"
        return Because(text)
    said = isolated(scenario.spec(doubt.said).label)
    if doubt.reason == CONTRADICTION:
        return Because(f"contradicts itself: said {said}", doubt.time)
    if doubt.reason == RENAMED:
        return Because(f"said {said}, which this board no longer knows")
    if doubt.reason == STALE:
        return Because(f"its last word is old: said {said} in an old report")
    if doubt.reason in _REFUSED:
        refused = f"its reports are refused: {_REFUSED[doubt.reason]}"
        return Because(f"{refused}; one said {said}", doubt.time)
    if scenario.knows(doubt.said):
        return Because(f"its reports were refused: said {said}", doubt.time)
    return Because(f"says {said}, which this board does not know")


def of_flapping(scenario: Scenario, vote: AnyVote) -> str:
    """Return the other state that a flapping vote still counts for; empty if it does not flap."""
    if vote.flapping is None:
        return ""
    return f"flapping: {isolated(scenario.spec(vote.flapping.state).label)} counts too"


def of_detail(vote: AnyVote) -> str:
    """Return why a report's detail was left out; empty if it was not."""
    fault = vote.detail_fault
    return "" if fault is None else f"detail left out: {_LEFT_OUT.get(fault, fault)}"


def sentence(doubted: Sequence[InDoubt]) -> str:
    """Return agents with the reasons for doubt: `waf-1 (clock 6 min ahead) and 3 more`."""
    shown = [f"{_name(one.agent)} ({one.words})" for one in doubted[:MOST_NAMED]]
    if len(doubted) > MOST_NAMED:
        shown.append(f"{len(doubted) - MOST_NAMED} more")
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def _name(agent: str) -> str:
    return isolated(agent.removeprefix(USER_PREFIX))


# ---- caveats -------------------------------------------------------------------------------------
# The caveats that readers must know before they trust a state, and how they move a row's position.
#
# A state is disputed if a vote, live or silent, is for a worse one, and unconfirmed if too few live
# votes support it. A vote is silent if its agent has not reported for the vote's lifetime. An agent
# is in doubt if its clock is wrong, it contradicts itself, or its reports cannot be accepted.

DOUBTS = ("disputed", "unconfirmed", "silent", "doubt")
"""The names of the doubts that a row can have."""
LEAST_RANK = -2
"""The lowest rank: a disputed asset whose state is not in the closed vocabulary."""

Doubts = tuple[str, ...]
"""The doubts of a row, in the order of DOUBTS."""


class CountedTerm(NamedTuple):
    """What a board counts: its name, its label on pages, and the filter term that finds it."""

    name: str
    label: str
    term: str


UNHANDLED = CountedTerm("unhandled", "Unhandled", "is:unhandled")
# The doubts, in the order of pages, which may not have room for the last ones.
NAMED = (
    CountedTerm("disputed", "Disputed", "is:disputed"),
    CountedTerm("unconfirmed", "Unconfirmed", "is:unconfirmed"),
    CountedTerm("doubt", "In doubt", "has:doubt"),
    CountedTerm("silent", "Silent votes", "has:silent"),
)


def silent_votes(votes: Iterable[VoteValue]) -> int | None:
    """Return how many of the votes that count are silent; None if none are."""
    silent = [vote for vote in votes if vote.silent is not None]
    if not silent:
        return None
    return sum(vote.muted is None and vote.weight > 0 for vote in silent) or None


def doubted_agents(votes: Iterable[VoteValue], doubts: Iterable[DoubtValue]) -> int | None:
    """Return how many agents that count are in doubt, with or without a vote; None if none are."""
    agents = {each.agent for each in doubts if each.counts}
    for vote in votes:  # a plain loop, as this runs for every record
        if vote.doubt is not None and vote.muted is None and vote.weight > 0:
            agents.add(vote.agent)
    return len(agents) or None


def doubts_of(
    disputed: str | None, unconfirmed: bool, silent: int | None, doubt: int | None
) -> Doubts:
    """Return the doubts of a row. silent: how many votes are silent, or None; doubt: how many
    agents are in doubt, or None."""
    return _BY_MARKS[disputed is not None, unconfirmed, silent is not None, doubt is not None]


# A lookup table, as the materialiser needs this twice for each record.
_BY_MARKS: dict[tuple[bool, ...], Doubts] = {
    marks: tuple(compress(DOUBTS, marks)) for marks in product((False, True), repeat=len(DOUBTS))
}


def rank_of(severity: int, disputed: str | None) -> int:
    """Return a row's rank on the board: by severity, disputed rows before others of the same."""
    return 2 * severity + (disputed is None)


LATER = 1_000_000
"""What is added to the rank of a row that is not unhandled: more than any rank."""


def place_of(rank: int, unhandled: bool) -> int:
    """Return a row's place on the board: unhandled rows first, each part by rank."""
    return rank if unhandled else rank + LATER


def ranks_of(severity: int) -> tuple[int, int]:
    """Return both ranks that rows of this severity can have."""
    return (2 * severity, 2 * severity + 1)


def alarming_ranks(scenario: Scenario) -> list[int]:
    """Return the ranks of the rows that somebody has to see to."""
    return sorted(rank for severity in scenario.alarming for rank in ranks_of(severity))
