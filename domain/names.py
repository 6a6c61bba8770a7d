"""Which names an asset, an agent, a user or a state may have."""

from __future__ import annotations

import re

# Longest name of an asset, agent or user, in Unicode code points.
MAX_NAME = 255

# Longest name of a state, in Unicode code points.
MAX_STATE = 64

# An operator's vote belongs to agent `user:NAME`; no report may use such a name.
USER_PREFIX = "user:"

# No name may contain one of these.
CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def name_ok(name: str) -> bool:
    """Return whether `name` can name an asset, an agent or a user."""
    return 0 < len(name) <= MAX_NAME and not CONTROL.search(name)


def state_name_ok(state: str) -> bool:
    """Return whether `state` can name a state: 1-64 code points, no control character."""
    return 0 < len(state) <= MAX_STATE and not CONTROL.search(state)
