"""Retention of incidents: they are kept longer than the changes that they are made of."""

from __future__ import annotations

from dashboard.core.retention import Retention
from dashboard.core.times import DAY_MS
from dashboard.incidents.models import Incident

KEPT_MS = 730 * DAY_MS

LEAST_MS = 90 * DAY_MS
"""The sums of a summary are counted from incidents as long as raw history is kept."""

KEPT = (Retention("incidents", Incident, "ended_at", KEPT_MS, by_scenario=True, least_ms=LEAST_MS),)
