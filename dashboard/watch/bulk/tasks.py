"""The worker's tasks for runs. Every task may be run twice, or be cut short and run again."""

from __future__ import annotations

from celery import shared_task

from dashboard.core.common.resumable import start_task
from dashboard.watch.bulk.execution import work


@shared_task(ignore_result=True)
def carry_on() -> bool:
    """Send a portion of every open run; with more to do, queue again behind other tasks.

    Scheduled every few seconds too, which resumes runs whose worker was killed.
    """
    more = work()
    if more:
        start_task(carry_on)
    return more
