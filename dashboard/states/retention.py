"""Retention of history; how long the rows of purged assets are kept."""

from __future__ import annotations

from dashboard.core.retention import Retention
from dashboard.core.times import DAY_MS
from dashboard.states.models import Answer, Transition

HIDDEN_KEPT_MS = 7 * DAY_MS
"""How long a purged row is kept hidden, so that a replay cannot bring the asset back. It goes with
its labels, so it is deleted where these are known: `dashboard.labels.retention`."""
HISTORY_KEPT_MS = 90 * DAY_MS

KEPT = (
    Retention("changes of assets", Transition, "at", HISTORY_KEPT_MS, by_scenario=True),
    Retention("answers to commands", Answer, "at", HISTORY_KEPT_MS),
)
