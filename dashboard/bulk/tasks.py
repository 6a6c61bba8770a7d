"""The worker's tasks for runs. Every task may be run twice, or be cut short and run again."""

from __future__ import annotations

from celery import shared_task

from dashboard.bulk.execution import work
from dashboard.core.resumable import wake


@shared_task(ignore_result=True)
def carry_on() -> bool:
    """Give every open run a turn; where there is more to do, again after other waiting tasks.

    Called every few seconds too, so that a run goes on whose worker was killed.
    """
    more = work()
    if more:
        wake(carry_on)
    return more
