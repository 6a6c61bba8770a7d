"""The worker's scheduled tasks. Every task may run twice, or be interrupted and run again."""

from __future__ import annotations

import subprocess
import sys

from celery import shared_task
from django.conf import settings

from dashboard.core.common.times import HOUR_MS, now_ms
from dashboard.core.rules.log_replay import snapshot_now
from dashboard.core.rules.models import BucketJudgement
from dashboard.core.states.models import FoldSnapshot

SNAPSHOT_EVERY_MS = 23 * HOUR_MS
"""Minimum age of the newest snapshot before another is taken: checked hourly, so once a day."""


@shared_task
def snapshot_daily() -> int:
    """Take a snapshot of every bucket's fold, once a day, and return how many were taken."""
    newest = FoldSnapshot.objects.order_by("-taken_at", "-pk").first()
    if newest is not None and now_ms() - newest.taken_at < SNAPSHOT_EVERY_MS:
        return 0
    return snapshot_now()


@shared_task(ignore_result=True)
def judge_daily() -> bool:
    """Start a process that judges a sample of buckets, once a day. Returns whether it was started.

    It takes minutes, and the worker runs one task at a time.
    """
    newest = BucketJudgement.objects.order_by("-begun_at", "-pk").first()
    if newest is not None and now_ms() - newest.begun_at < SNAPSHOT_EVERY_MS:
        return False
    manage = str(settings.BASE_DIR / "manage.py")
    subprocess.Popen([sys.executable, manage, "reconcile", "--sample"])
    return True
