"""What the worker does for annotations by schedule."""

from __future__ import annotations

from celery import shared_task

from dashboard.annotations import retention
from dashboard.core.clock import now_ms


@shared_task
def thin_annotations() -> int:
    """Delete annotations that are past their time. Returns how many."""
    return retention.thin(now_ms())
