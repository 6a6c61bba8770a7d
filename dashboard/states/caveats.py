"""The caveats that a reader has to know before trusting a state, and their effect on a row's place.

A state is disputed where a vote, live or silent, says worse; unconfirmed where too few live votes
bear it out; and a vote is silent where its agent has not reported for the vote's lifetime.
"""

from __future__ import annotations

from typing import NamedTuple

DOUBTS = ("disputed", "unconfirmed", "silent")
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


NAMED = (
    Doubt("disputed", "Disputed", "is:disputed"),
    Doubt("unconfirmed", "Unconfirmed", "is:unconfirmed"),
    Doubt("silent", "Silent votes", "has:silent"),
)


def doubts_of(disputed: str | None, unconfirmed: bool, silent: int | None) -> Doubts:
    """Return the doubts of a row. silent: how many votes are, None for none."""
    marks = (disputed is not None, unconfirmed, silent is not None)
    return tuple(name for name, on in zip(DOUBTS, marks, strict=True) if on)


def rank_of(severity: int, disputed: str | None) -> int:
    """Return a row's place on the board: by severity, a disputed one above its equals."""
    return 2 * severity + (disputed is None)


def ranks_of(severity: int) -> tuple[int, int]:
    """Return both ranks that rows of this severity may have."""
    return (2 * severity, 2 * severity + 1)
