"""The worker's scheduled tasks. Every task may be run twice, or be cut short and run again."""

from __future__ import annotations

from celery import shared_task

from dashboard.core.common.times import HOUR_MS, now_ms
from dashboard.core.rules.log_replay import snapshot_now
from dashboard.core.states.models import FoldSnapshot

SNAPSHOT_EVERY_MS = 23 * HOUR_MS
"""A snapshot is taken when the newest is this old: asked every hour, so once a day."""


@shared_task
def snapshot_daily() -> int:
    """Keep a snapshot of every bucket's fold, once a day. Returns how many were taken."""
    newest = FoldSnapshot.objects.order_by("-taken_at").first()
    if newest is not None and now_ms() - newest.taken_at < SNAPSHOT_EVERY_MS:
        return 0
    return snapshot_now()
