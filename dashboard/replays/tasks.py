"""The worker's tasks for replays. May be run twice, or be cut short and run again."""

from __future__ import annotations

import subprocess
import sys

from celery import shared_task
from django.conf import settings

from dashboard.core.times import now_ms
from dashboard.replays.verification import claim, due


@shared_task(ignore_result=True)
def judge_ended() -> int:
    """Start the comparison of each replay that has ended, in its own process. Returns how many.

    A long log takes minutes, and the worker has one task at a time.
    """
    now = now_ms()
    taken = [row for row in due(now) if claim(row, now)]
    for row in taken:
        manage = str(settings.BASE_DIR / "manage.py")
        subprocess.Popen([sys.executable, manage, "judge_replay", str(row.pk)])
    return len(taken)
