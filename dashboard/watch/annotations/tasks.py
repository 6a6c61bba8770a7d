"""The worker's tasks for label files. May be run twice, or be cut short and run again."""

from __future__ import annotations

from celery import shared_task

from dashboard.core.common.resumable import start_task
from dashboard.watch.annotations.label_files import work


@shared_task(ignore_result=True)
def carry_on() -> bool:
    """Give every open table a turn. Returns whether there is more to do.

    Then it goes on after what else waits. Queued every few seconds too, so that a table goes on
    whose worker was killed.
    """
    more = work()
    if more:
        start_task(carry_on)
    return more
