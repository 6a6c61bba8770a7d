"""The worker's task for digests. It may be run twice, or be cut short and run again."""

from __future__ import annotations

from celery import shared_task

from dashboard.core.times import now_ms
from dashboard.digests.delivery import send_due


@shared_task(ignore_result=True)
def send_digests() -> int:
    """Put the digests into the outbox that are due. Returns how many."""
    return send_due(now_ms())
