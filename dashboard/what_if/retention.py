"""Retention of trials of a rule: how long and how many."""

from __future__ import annotations

from dashboard.core.retention import Retention
from dashboard.core.times import DAY_MS
from dashboard.what_if.models import Trial

KEPT_MS = 14 * DAY_MS
MOST_TRIALS = 30

KEPT = (Retention("trials of a rule", Trial, "asked_at", KEPT_MS, MOST_TRIALS),)
