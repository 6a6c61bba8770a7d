"""The worker's retention task. It may run twice, or be cut short."""

from __future__ import annotations

import structlog
from celery import shared_task

from dashboard.core.common.times import now_ms
from dashboard.operate.administration.retention import apply_one, kept

log = structlog.get_logger(__name__)


@shared_task
def apply_retention() -> dict[str, int]:
    """Delete everything that has expired or exceeds its limit. Returns the number of rows by kind.

    A failure for one kind does not stop the others. Raises an ExceptionGroup of all failures.
    """
    now, deleted, failures = now_ms(), {}, []
    for each in kept():
        try:
            deleted[each.what] = apply_one(each, now)
        except Exception as error:
            log.exception("expired rows were not deleted", what=each.what)
            failures.append(error)
    if failures:
        raise ExceptionGroup("expired rows were not deleted", failures)
    return {what: n for what, n in deleted.items() if n}
