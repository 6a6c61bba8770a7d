"""The worker's scheduled tasks. Every task may be run twice, or be cut short and run again."""

from __future__ import annotations

import structlog
from celery import shared_task

from dashboard.checkpoints.models import FoldSnapshot
from dashboard.core.times import HOUR_MS, now_ms
from dashboard.materialiser.retention import KEPT
from dashboard.reconciliation.snapshots import snapshot_now

log = structlog.get_logger(__name__)

SNAPSHOT_EVERY_MS = 23 * HOUR_MS
"""A snapshot is taken when the newest is this old: asked every hour, so once a day."""


@shared_task
def snapshot_daily() -> int:
    """Keep a snapshot of every bucket's fold, once a day. Returns how many were taken."""
    newest = FoldSnapshot.objects.order_by("-taken_at").first()
    if newest is not None and now_ms() - newest.taken_at < SNAPSHOT_EVERY_MS:
        return 0
    return snapshot_now()


@shared_task
def apply_retention() -> dict[str, int]:
    """Delete all that is past its time, or too much. Returns how many rows of each kind.

    What fails hinders nothing else. Raises ExceptionGroup of all that failed.
    """
    now, deleted, failures = now_ms(), {}, []
    for retention in KEPT:
        try:
            deleted[retention.what] = retention.apply(now)
        except Exception as error:
            log.exception("rows past their time were not deleted", what=retention.what)
            failures.append(error)
    if failures:
        raise ExceptionGroup("rows past their time were not deleted", failures)
    return {what: n for what, n in deleted.items() if n}
