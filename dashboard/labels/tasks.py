"""The worker's tasks for label files. May be run twice, or be cut short and run again."""

from __future__ import annotations

from celery import shared_task

from dashboard.core.resumable import wake
from dashboard.labels.imports import work


@shared_task(ignore_result=True)
def carry_on() -> bool:
    """Give every open table a turn. Returns whether there is more to do.

    Then it goes on after what else waits. Queued every few seconds too, so that a table goes on
    whose worker was killed.
    """
    more = work()
    if more:
        wake(carry_on)
    return more
