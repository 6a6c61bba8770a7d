"""The worker's tasks. Every task may run twice, or be interrupted and run again."""

from __future__ import annotations

from collections.abc import Callable

import structlog
from celery import shared_task

from dashboard.core.common.resumable import start_task
from dashboard.notify.notifications.decisions import decide
from dashboard.notify.notifications.deferral import carry_deferred
from dashboard.notify.notifications.delivery import Deliveries, alarm
from dashboard.notify.notifications.task_notices import decide_notices

log = structlog.get_logger(__name__)
DELIVERIES = Deliveries()
STEPS: tuple[Callable[[], bool], ...] = (
    decide, decide_notices, carry_deferred, DELIVERIES.start, alarm,
)  # fmt: skip


@shared_task(ignore_result=True)
def carry_on() -> bool:
    """Apply the rules to events and task runs, and deliver the outbox. Return whether there is
    more; if so, the task is started again at once.

    A failing step does not stop the others: the outbox is delivered even if a rule fails. Raises
    ExceptionGroup if any step failed.
    """
    more, faults = False, []
    for step in STEPS:
        try:
            more = step() or more
        except Exception as error:
            log.exception("notifications: a step failed", step=step.__name__)
            faults.append(error)
    if faults:
        raise ExceptionGroup("notifications", faults)
    if more:
        start_task(carry_on)
    return more
