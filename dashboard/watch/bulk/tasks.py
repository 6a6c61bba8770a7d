"""The worker's tasks for runs. Every task may be run twice, or be cut short and run again."""

from __future__ import annotations

from celery import shared_task

from dashboard.core.common.resumable import start_task
from dashboard.watch.bulk.execution import work


@shared_task(ignore_result=True)
def carry_on() -> bool:
    """Give every open run a turn; where there is more to do, again after other waiting tasks.

    Called every few seconds too, so that a run goes on whose worker was killed.
    """
    more = work()
    if more:
        start_task(carry_on)
    return more
