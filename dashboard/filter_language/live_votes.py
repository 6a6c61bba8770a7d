"""The live votes of a state record, as far as a filter asks for them.

They are read here rather than by the database: it would read a record's JSON once for each vote.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dashboard.filter_language.terms import Sight, Term
from dashboard.states.models import AssetState
from dashboard.states.queries import listed
from wire.sink import BriefVote, votes_value

KEYS = frozenset(("agent", "muted"))
"""Keys of terms that ask for votes alone."""


def live_votes(record: str | bytes) -> list[BriefVote]:
    """Return the live votes of a state record's JSON, muted ones too. Raises ValueError."""
    return [vote for vote in votes_value(record).votes if vote.silent is None]


def voting(ids: Collection[int], terms: Sequence[Term]) -> set[int]:
    """Return the ids of those rows that have the votes that all of `terms` ask for."""
    if not terms:
        return set(ids)
    rows = AssetState.objects.filter(pk__in=listed(ids)).values_list("pk", "record")
    return {
        pk
        for pk, record in rows
        if (sight := _sight(record)) and all(term.matches(sight, 0) for term in terms)
    }


def _sight(record: str) -> Sight:
    """Return what is known of an asset, reduced to its votes."""
    votes = live_votes(record)
    muted = any(vote.muted is not None for vote in votes)
    return Sight("", "", 0, votes=[(vote.agent, vote.state) for vote in votes], muted=muted)
