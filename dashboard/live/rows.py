"""A state record as one row of the board: one form for the page and for the socket."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from dashboard.bidi import isolated
from domain.scenario import Scenario
from domain.version import Version

Row = dict[str, Any]

VOTES_SHOWN = 12
"""Most votes that a row shows as marks; the asset's panel shows all."""

CAUSES = {
    "report": "reported by {agent}",
    "vote": "vote by {user}",
    "set": "set by {user}",
    "release": "released by {user}",
    "purge": "purged by {user}",
    "refused": "command of {user} refused",
    "scenario": "rule changed",
    "mute": "{agent} muted by {user}",
    "unmute": "{agent} heard again by {user}",
    "mute-end": "{agent} heard again",
    "override-end": "override ended",
    "vote-expiry": "vote of {agent} expired",
    "hold": "hold passed",
    "reminder": "reminder",
    "purge-after": "purged by its age",
}


def row_of(scenario: Scenario, record: dict[str, Any]) -> Row:
    """The row of a state record as it stands in the topic. Times in Unix ms.

    version: sortable, so that the browser compares it as text; votes: agent and state, the most
    severe first; muted: whose of these count nothing. Raises KeyError, TypeError or ValueError for
    anything that is no state record.
    """
    votes = sorted(record["votes"], key=lambda v: (scenario.severity(v["state"]), v["agent"]))
    shown = votes[:VOTES_SHOWN]
    override, pending = record["override"], record["pending"]
    return {
        "asset": record["asset"],
        "url": asset_path(scenario.name, record["asset"]),
        "state": record["state"],
        "severity": scenario.severity(record["state"]),
        "colour": scenario.spec(record["state"]).colour,
        "since": record["since"],
        "version": Version.parse(record["version"]).sortable(),
        "unconfirmed": record["unconfirmed"],
        "votes": [[vote["agent"], vote["state"]] for vote in shown],
        "more_votes": len(votes) - len(shown),
        "muted": [vote["agent"] for vote in shown if vote.get("muted")],
        "pending": [pending["state"], pending["due"]] if pending else None,
        "override": [override["user"], override["until"]] if override else None,
        "cause": cause_text(record["cause"]),
        "caused_at": record["cause"]["time"],
    }


def cause_text(cause: dict[str, Any]) -> str:
    """What brought a record about, in words."""
    text = CAUSES.get(cause["type"], "{type}")
    return text.format(
        type=cause["type"],
        agent=isolated(cause.get("agent") or "an agent"),
        user=isolated(cause.get("user") or "a user"),
    )


def order_of(row: Row) -> tuple[int, int, str]:
    """The board's order: severity, the newest first, then by name."""
    return (row["severity"], -row["since"], row["asset"])


def asset_path(scenario: str, asset: str) -> str:
    """Where an asset's panel is. A slash in the name is encoded, so that no browser shortens it."""
    return f"/s/{quote(scenario, safe='')}/a/{quote(asset, safe='')}/"
