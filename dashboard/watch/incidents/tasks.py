"""The worker's task for maintenance windows. It may run twice, or be cut short and run again."""

from __future__ import annotations

from celery import shared_task

from dashboard.core.common.times import now_ms
from dashboard.watch.incidents.maintenance import keep


@shared_task(ignore_result=True)
def keep_windows() -> int:
    """Begin, follow and close the windows that are due. Returns how many were processed."""
    return keep(now_ms())
