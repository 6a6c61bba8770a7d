"""What the worker does for what-if by schedule."""

from __future__ import annotations

from celery import shared_task

from dashboard.core.times import now_ms
from dashboard.what_if.queries import thin


@shared_task
def thin_trials() -> int:
    """Delete trials that are not kept any more. Returns how many."""
    return thin(now_ms())
