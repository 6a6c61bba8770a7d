"""The time for which records of agents are kept."""

from __future__ import annotations

from django.db.models import Q

from dashboard.agents.models import Agent, AgentHour, LateHour, MuteRequest
from dashboard.core.retention import Retention
from dashboard.core.times import DAY_MS, HOUR_MS

HOURS_KEPT_MS = 8 * DAY_MS
AGENTS_KEPT_MS = 30 * DAY_MS
MOST_AGENTS = 50_000

KEPT = (
    Retention("hours of agents' reports", AgentHour, "hour", HOURS_KEPT_MS, unit_ms=HOUR_MS),
    Retention("hours of late reports", LateHour, "hour", HOURS_KEPT_MS, unit_ms=HOUR_MS),
    Retention("requests to mute", MuteRequest, "created_at", 400 * DAY_MS),
    Retention(
        "agents without a live vote", Agent, "last_seen", AGENTS_KEPT_MS, condition=Q(votes=0)
    ),
    Retention("agents", Agent, "last_seen", at_most=MOST_AGENTS),
)
