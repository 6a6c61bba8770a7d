"""Retention of history; how long the rows of purged assets are kept."""

from __future__ import annotations

from dashboard.core.extension_point import Provider
from dashboard.core.retention import Retention
from dashboard.core.times import DAY_MS
from dashboard.states.models import Answer, Transition

HIDDEN_KEPT_MS = 7 * DAY_MS
"""How long a purged row is kept hidden, so that a replay cannot bring the asset back. It goes with
its labels, so it is deleted where these are known: `dashboard.labels.retention`."""
HISTORY_KEPT_MS = 90 * DAY_MS

CHANGES = Retention("changes of assets", Transition, "at", HISTORY_KEPT_MS, by_scenario=True)
KEPT = (
    CHANGES,
    Retention("answers to commands", Answer, "at", HISTORY_KEPT_MS),
)

own_period: Provider[[str], int | None] = Provider(lambda _scenario: None)
"""Returns how long a scenario keeps its changes, ms, where it has a time of its own."""


def history_edge(scenario: str, now: int) -> int:
    """Return from when on (Unix ms) retention has deleted no change of a scenario by `now`."""
    return now - (own_period(scenario) or HISTORY_KEPT_MS)
