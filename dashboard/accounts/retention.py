"""The time for which drafts and records of ended sessions are kept."""

from __future__ import annotations

from dashboard.accounts.models import Draft
from dashboard.accounts.sessions import forget_ended
from dashboard.core.retention import Retention, Thinning
from dashboard.core.times import DAY_MS

KEPT = (
    Retention("drafts of forms", Draft, "at", DAY_MS),
    Thinning("sessions that have ended", forget_ended),
)
