"""The worker's scheduled tasks. Every task may run twice, or be interrupted and run again."""

from __future__ import annotations

from celery import shared_task

from dashboard.core.common.times import HOUR_MS, now_ms
from dashboard.core.rules.log_replay import snapshot_now
from dashboard.core.states.models import FoldSnapshot

SNAPSHOT_EVERY_MS = 23 * HOUR_MS
"""Minimum age of the newest snapshot before another is taken: checked hourly, so once a day."""


@shared_task
def snapshot_daily() -> int:
    """Take a snapshot of every bucket's fold, once a day, and return how many were taken."""
    newest = FoldSnapshot.objects.order_by("-taken_at").first()
    if newest is not None and now_ms() - newest.taken_at < SNAPSHOT_EVERY_MS:
        return 0
    return snapshot_now()
