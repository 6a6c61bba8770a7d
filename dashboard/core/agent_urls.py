"""Where the pages of agents are."""

from __future__ import annotations

from urllib.parse import quote


def agent_path(scenario: str, agent: str) -> str:
    """Where an agent's page is. A slash in the name is encoded, so that no browser shortens it."""
    return f"/agents/{quote(scenario, safe='')}/{quote(agent, safe='')}/"
