"""What the worker does of runs. Every task may be run twice, or be cut short and run again."""

from __future__ import annotations

import structlog
from celery import shared_task
from kombu.exceptions import KombuError

from dashboard.bulk import retention
from dashboard.bulk.carrying import work
from dashboard.commands.sending import now_ms

log = structlog.get_logger(__name__)


@shared_task(ignore_result=True)
def carry_on() -> bool:
    """Give every open run a turn; where there is more to do, again after what else waits.

    Asked for every few seconds too, so that a run goes on whose worker was killed.
    """
    more = work()
    if more:
        wake()
    return more


@shared_task
def thin_runs() -> int:
    """Delete runs older than 90 days, reviews that nobody confirmed. Returns how many."""
    return retention.thin(now_ms())


def wake() -> None:
    """Have the worker look at the runs now. Where it cannot be told, it looks by itself soon."""
    try:
        carry_on.apply_async(retry=False, expires=30)
    except (KombuError, OSError) as error:
        log.warning("the worker could not be told of a bulk run", error=str(error))
