"""The live votes of a state record, as far as a filter asks for them.

They are read here rather than by the database: it would read a record's JSON once for each vote.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from dashboard.filter_language.terms import Sight, Term
from dashboard.states.models import AssetState
from dashboard.states.queries import listed

KEYS = frozenset(("agent", "muted"))
"""Keys of terms that ask for votes alone."""


class Vote(msgspec.Struct, frozen=True, gc=False):
    """Of a vote as it stands in the topic what a filter asks for."""

    agent: str
    state: str
    muted: Any = None
    silent: int | None = None


class _Record(msgspec.Struct, frozen=True, gc=False):
    votes: list[Vote]


_DECODER = msgspec.json.Decoder(_Record)


def votes_of(record: str | bytes) -> list[Vote]:
    """The live votes of a record's JSON, muted ones too. Raises msgspec.MsgspecError for what is
    none."""
    return [vote for vote in _DECODER.decode(record).votes if vote.silent is None]


def voting(ids: Collection[int], terms: Sequence[Term]) -> set[int]:
    """Which of these rows have the votes that all of `terms` ask for."""
    if not terms:
        return set(ids)
    rows = AssetState.objects.filter(pk__in=listed(ids)).values_list("pk", "record")
    return {
        pk
        for pk, record in rows
        if (sight := _sight(record)) and all(term.matches(sight, 0) for term in terms)
    }


def _sight(record: str) -> Sight:
    """Of an asset nothing but its votes."""
    votes = votes_of(record)
    muted = any(vote.muted is not None for vote in votes)
    return Sight("", "", 0, votes=[(vote.agent, vote.state) for vote in votes], muted=muted)
