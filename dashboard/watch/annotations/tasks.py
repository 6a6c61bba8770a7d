"""The worker's tasks for label files. May be run twice, or be cut short and run again."""

from __future__ import annotations

from celery import shared_task

from dashboard.core.common.resumable import start_task
from dashboard.watch.annotations.label_files import work


@shared_task(ignore_result=True)
def carry_on() -> bool:
    """Apply a portion of every open table. Return whether there is more to do.

    It then continues behind other waiting tasks. Scheduled every few seconds too, which resumes
    tables whose worker was killed.
    """
    more = work()
    if more:
        start_task(carry_on)
    return more
