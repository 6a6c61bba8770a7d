"""The caveats that a reader has to know before trusting a state, and their effect on a row's place.

A state is disputed where a vote, live or silent, says worse; unconfirmed where too few live votes
bear it out; a vote is silent where its agent has not reported for the vote's lifetime; and an agent
is in doubt where its clock is wrong, it contradicts itself, or its reports cannot be taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress, product
from typing import NamedTuple

from wire.sink import DoubtValue, VoteValue

DOUBTS = ("disputed", "unconfirmed", "silent", "doubt")
"""Every doubt there may be of a row, by its name."""
LEAST_RANK = -2
"""The rank above all others: of a disputed asset whose state a closed vocabulary does not know."""

Doubts = tuple[str, ...]
"""Those that there are of a row, in the order of DOUBTS."""


class Doubt(NamedTuple):
    """The name of a doubt on a page, and the term of a filter that finds it."""

    name: str
    label: str
    term: str


# In the order of a page, where there may be no room for the last ones.
NAMED = (
    Doubt("disputed", "Disputed", "is:disputed"),
    Doubt("unconfirmed", "Unconfirmed", "is:unconfirmed"),
    Doubt("doubt", "In doubt", "has:doubt"),
    Doubt("silent", "Silent votes", "has:silent"),
)


def silent_votes(votes: Iterable[VoteValue]) -> int | None:
    """Return how many of the votes that count are silent; None for none."""
    silent = [vote for vote in votes if vote.silent is not None]
    if not silent:
        return None
    return sum(vote.muted is None and vote.weight > 0 for vote in silent) or None


def doubted_agents(votes: Iterable[VoteValue], doubts: Iterable[DoubtValue]) -> int | None:
    """Return how many agents that count are in doubt, with or without a vote; None for none."""
    agents = {each.agent for each in doubts if each.counts}
    for vote in votes:  # a plain loop, as every record comes by here
        if vote.doubt is not None and vote.muted is None and vote.weight > 0:
            agents.add(vote.agent)
    return len(agents) or None


def doubts_of(
    disputed: str | None, unconfirmed: bool, silent: int | None, doubt: int | None
) -> Doubts:
    """Return the doubts of a row. silent: how many votes are, None for none; doubt: so of agents
    in doubt."""
    return _BY_MARKS[disputed is not None, unconfirmed, silent is not None, doubt is not None]


# Looked up: the materialiser asks twice for each record.
_BY_MARKS: dict[tuple[bool, ...], Doubts] = {
    marks: tuple(compress(DOUBTS, marks)) for marks in product((False, True), repeat=len(DOUBTS))
}


def rank_of(severity: int, disputed: str | None) -> int:
    """Return a row's place on the board: by severity, a disputed one above its equals."""
    return 2 * severity + (disputed is None)


def ranks_of(severity: int) -> tuple[int, int]:
    """Return both ranks that rows of this severity may have."""
    return (2 * severity, 2 * severity + 1)
