"""What the worker does for the state store's page by schedule."""

from __future__ import annotations

from celery import shared_task

from dashboard.core.times import now_ms
from dashboard.state_store.queries import thin


@shared_task
def thin_readings() -> int:
    """Delete readings of the state store that are not kept any more. Returns how many."""
    return thin(now_ms())
