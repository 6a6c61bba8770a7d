"""Retention of replays: as long as what was requested of the job."""

from __future__ import annotations

from dashboard.core.retention import Retention
from dashboard.core.times import DAY_MS
from dashboard.replays.models import Replay

KEPT_MS = 90 * DAY_MS

KEPT = (Retention("replays", Replay, "asked_at", KEPT_MS),)
