"""Retention of events, groups, messages and tries."""

from __future__ import annotations

from django.db.models import Q

from dashboard.core.retention import Retention
from dashboard.core.times import DAY_MS
from dashboard.notifications.models import (
    OPEN,
    AgentEvent,
    Group,
    IncidentEvent,
    Message,
    RotaShift,
    TaskNotice,
)

EVENTS_KEPT_MS = 30 * DAY_MS
"""How long an event is kept after it was stored: a rebuild in this time stores it no second time,
and what it brings of longer ago is late, and not told."""
LEAST_MS = 7 * DAY_MS
"""A rebuild that is asked for after an incident finds its events."""
KEPT_MS = 90 * DAY_MS
"""Of messages and groups; a message that tells of several scenarios, or of none, is kept no longer
than that, and no shorter."""

KEPT = (
    Retention(
        "events of incidents",
        IncidentEvent,
        "recorded_at",
        EVENTS_KEPT_MS,
        condition=Q(handled_at__isnull=False),
        by_scenario=True,
        least_ms=LEAST_MS,
    ),
    Retention(
        "events of agents",
        AgentEvent,
        "recorded_at",
        EVENTS_KEPT_MS,
        condition=Q(handled_at__isnull=False),
    ),
    Retention(
        "scheduled tasks that notified",
        TaskNotice,
        "recorded_at",
        EVENTS_KEPT_MS,
        condition=Q(due_at=None),
        by_scenario=True,
        least_ms=LEAST_MS,
    ),
    Retention(
        "messages and their tries",
        Message,
        "ended_at",
        KEPT_MS,
        condition=~Q(status__in=OPEN),
        by_scenario=True,
        least_ms=LEAST_MS,
    ),
    Retention("groups of incidents", Group, "closed_at", KEPT_MS),
    Retention("times on call", RotaShift, "ends_at", KEPT_MS),
)
