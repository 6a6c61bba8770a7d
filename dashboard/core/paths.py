"""Names of assets and agents in the paths of addresses, with whatever characters they have."""

from __future__ import annotations

from urllib.parse import quote


class AssetConverter:
    """An asset's name at the end of a path: any characters, slashes among them."""

    regex = r".+"

    def to_python(self, value: str) -> str:
        """Return the name as the server decoded it."""
        return value

    def to_url(self, value: str) -> str:
        """Return the name. Django percent-encodes what must be encoded, and leaves a slash."""
        return value


def agent_path(scenario: str, agent: str) -> str:
    """Return the path of an agent's page.

    A slash in the name is encoded, so that no browser shortens the path.
    """
    return f"/agents/{quote(scenario, safe='')}/{quote(agent, safe='')}/"
