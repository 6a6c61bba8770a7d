"""The worker told that there is something to do, rather than left to find it by its schedule."""

from __future__ import annotations

from typing import Any

import structlog
from kombu.exceptions import KombuError

log = structlog.get_logger(__name__)

EXPIRES_S = 30
"""What a worker has not got to by then, its schedule has asked for meanwhile."""


def wake(task: Any) -> None:
    """Have the worker carry out a scheduled Celery task now; where it cannot be told, it does so by
    its schedule."""
    try:
        task.apply_async(retry=False, expires=EXPIRES_S)
    except (KombuError, OSError) as error:
        log.warning("the worker could not be told", task=task.name, error=str(error))
