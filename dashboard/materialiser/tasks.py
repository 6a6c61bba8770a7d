"""What the worker does by schedule. Every task may be run twice, or be cut short and run again."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from django.db.models import QuerySet

from dashboard.checkpoints.models import FoldSnapshot
from dashboard.console import samples
from dashboard.core.clock import now_ms
from dashboard.core.scenarios import scenarios
from dashboard.dead_letters.retention import thin
from dashboard.job import retention as job_retention
from dashboard.labels.writer import forget, labelled
from dashboard.reconciliation.snapshots import snapshot_now
from dashboard.states.models import Answer, AssetState, Transition
from dashboard.states.retention import HIDDEN_KEPT_MS, HISTORY_KEPT_MS

PORTION = 900
"""Rows deleted in one transaction."""
SNAPSHOT_EVERY_MS = 23 * 3_600_000
"""A snapshot is taken when the newest is this old: asked every hour, so once a day."""


@shared_task
def snapshot_daily() -> int:
    """Keep a snapshot of every bucket's fold, once a day. Returns how many were taken."""
    newest = FoldSnapshot.objects.order_by("-taken_at").first()
    if newest is not None and now_ms() - newest.taken_at < SNAPSHOT_EVERY_MS:
        return 0
    return snapshot_now()


@shared_task
def forget_purged() -> int:
    """Delete the rows of assets that were purged more than a week ago. Returns how many.

    Their labels go with them.
    """
    rows = AssetState.objects.filter(purged=True, purged_at__lt=now_ms() - HIDDEN_KEPT_MS)
    for scenario in scenarios():
        names = rows.filter(scenario=scenario).values_list("asset", flat=True)
        while portion := list(names.filter(asset__in=labelled(scenario))[:PORTION]):
            forget(scenario, portion)
    return _delete(rows)


@shared_task
def prune_history() -> int:
    """Delete transitions and answers older than 90 days. Returns how many."""
    before = now_ms() - HISTORY_KEPT_MS
    return _delete(Transition.objects.filter(at__lt=before)) + _delete(
        Answer.objects.filter(at__lt=before)
    )


@shared_task
def thin_dead_letters() -> int:
    """Delete dead letters that are older than 30 days, or over the bound. Returns how many."""
    return thin(now_ms())


@shared_task
def thin_progress() -> int:
    """Thin out what the job told of itself: kept for 30 days, ever less of it. Returns how many."""
    return job_retention.thin(now_ms()) + samples.thin(now_ms())


def _delete(rows: QuerySet[Any]) -> int:
    """Delete a portion at a time, so that nobody waits long for the lock. Returns how many."""
    total = 0
    while portion := list(rows.values_list("pk", flat=True)[:PORTION]):
        total += rows.filter(pk__in=portion).delete()[0]
    return total
