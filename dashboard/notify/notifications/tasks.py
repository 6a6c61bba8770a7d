"""The worker's tasks. Every task may be run twice, or be cut short and run again."""

from __future__ import annotations

from collections.abc import Callable

import structlog
from celery import shared_task

from dashboard.core.common.resumable import start_task
from dashboard.notify.notifications.decisions import decide
from dashboard.notify.notifications.delivery import deliver
from dashboard.notify.notifications.task_notices import decide_notices

log = structlog.get_logger(__name__)
STEPS: tuple[Callable[[], bool], ...] = (decide, decide_notices, deliver)


@shared_task(ignore_result=True)
def carry_on() -> bool:
    """Show the rules what happened and which tasks notified, and deliver what they send; where
    there is more to do, again at once. A step that fails hinders no other: what is in the outbox
    goes out though a rule cannot be carried out. Raises ExceptionGroup then."""
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
