"""Retention of readings of the state store: how long and how many."""

from __future__ import annotations

from dashboard.core.retention import Retention
from dashboard.core.times import DAY_MS
from dashboard.state_store.models import Reading

KEPT_MS = 3 * DAY_MS
MOST_READINGS = 5

KEPT = (Retention("readings of the state store", Reading, "asked_at", KEPT_MS, MOST_READINGS),)
