"""Retention of tasks that are over."""

from __future__ import annotations

from dashboard.core.retention import Retention
from dashboard.core.times import DAY_MS
from dashboard.schedules.models import ScheduledTask

KEPT = (Retention("scheduled tasks", ScheduledTask, "ended_at", 90 * DAY_MS),)
