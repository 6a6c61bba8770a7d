"""The state with the most weight wins; ties go to the most recent vote."""

from __future__ import annotations

from collections import Counter

from domain.records import Vote


def tally(votes: tuple[Vote, ...], current: str | None) -> str:
    """Return the state with the most weight.

    An offset is a vote's place in the log, and no two votes share one.
    """
    weights: Counter[str] = Counter()
    newest: dict[str, int] = {}
    for vote in votes:
        weights[vote.state] += vote.weight
        newest[vote.state] = max(vote.offset, newest.get(vote.state, -1))
    return max(newest, key=lambda state: (weights[state], newest[state]))
