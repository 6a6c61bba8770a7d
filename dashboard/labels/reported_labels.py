"""Labels in what agents report: `"detail": {"labels": {"tier": "gold"}}` of a live vote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dashboard.labels.validation import MOST, fault
from dashboard.labels.writer import take_in, with_agents

# The part of a detail that has the labels.
FIELD = "labels"
# A record without it carries none; most have none, and are not looked at further.
HINT = f'"{FIELD}"'


def labels_of_votes(votes: Iterable[Any]) -> dict[str, tuple[str, str]]:
    """Return by key the value that the live votes give, and the agent.

    Of two it is the newest, then the first by name. What can be no label is passed over, as a vote
    counts whatever its detail is.
    """
    by_key: dict[str, tuple[str, str]] = {}
    live = (vote for vote in votes if vote.silent is None)
    for vote in sorted(live, key=lambda vote: (-vote.time, vote.agent)):
        labels = (vote.detail_object() or {}).get(FIELD)
        if not isinstance(labels, dict):
            continue
        for key, value in list(labels.items())[:MOST]:
            if isinstance(value, str) and not fault(key, value):
                by_key.setdefault(key, (value, vote.agent))
    return dict(sorted(by_key.items())[:MOST])


def take(newest: Mapping[str, Mapping[str, Any]], now: int) -> None:
    """Store labels from a batch's newest records, in its transaction. now: Unix ms.

    newest: by scenario and asset what was read, with its `shape` and `text`.
    """
    for scenario, records in newest.items():
        reported = {
            asset: labels_of_votes(seen.shape.votes)
            for asset, seen in records.items()
            if HINT in seen.text and hasattr(seen.shape, "votes")
        }
        for asset in with_agents(scenario, records.keys()):
            reported.setdefault(asset, {})
        if reported:
            take_in(scenario, reported, now)
