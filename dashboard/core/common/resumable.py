"""Work in portions, which any worker can resume.

How far it has come stands in a row of the database. A worker may be killed at any point: each
portion begins with a conditional update whose row count says whether this worker does it, so that
none is done twice.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, ClassVar, Generic, TypeVar

import structlog
from django.db.models import Model, QuerySet
from kombu.exceptions import KombuError

from dashboard.core.common.access import lapsed
from dashboard.core.common.times import Clock, now_ms

log = structlog.get_logger(__name__)

TURN_S = 10.0
"""How long a task is carried on before another has its turn, s."""
MAX_PROBLEM = 300
"""Longest text of what holds a task up, characters."""

M = TypeVar("M", bound=Model)


class ResumableTask(ABC, Generic[M]):
    """One worker's turn at the task that `row` describes; the row has a `status` and a `problem`.

    kind: what such a task is called in the log.
    """

    kind: ClassVar[str]

    def __init__(self, row: M, clock: Clock = now_ms) -> None:
        self.row: Any = row
        self.clock = clock

    @abstractmethod
    def held(self) -> QuerySet[M]:
        """Return the row, or nothing where this worker may not change it any more."""

    @abstractmethod
    def step(self) -> bool:
        """Do the next portion. Returns whether there may be another one at once."""

    @abstractmethod
    def log_stopped(self, why: str) -> None:
        """Log in the audit that the task was stopped."""

    def claim(self) -> bool:
        """Return whether no other worker has the task."""
        return True

    def release(self) -> None:
        """Let other workers have the task."""

    def pause_s(self, took_s: float) -> float:  # noqa: ARG002 - for those that pause
        """Return how long to wait after a portion that took so long, s."""
        return 0.0

    def move(self, **fields: Any) -> bool:
        """Store progress. Returns whether the task is still this worker's."""
        return self._update(self.held(), **fields)

    def stop_if_lapsed(self, user_id: int | None, name: str) -> bool:
        """Stop the task if its user may no longer send commands. Return whether it was stopped."""
        why = lapsed(user_id, name, "command")
        unchanged = self.held().filter(status=self.row.status)
        if why and self._update(unchanged, status="stopped", problem=why[:MAX_PROBLEM]):
            self.log_stopped(why)
            log.warning("stopped", task=self.kind, id=str(self.row.pk), why=why)
        return bool(why)

    def take_turn(self) -> bool:
        """Carry the task on for TURN_S, unless another worker does. Returns whether it can go on.

        A fault is stored as the task's problem: other tasks go on, and this one is tried again.
        """
        if not self.claim():
            return False
        try:
            return self._work()
        except self.row.DoesNotExist:  # its user has thrown it away
            return False
        except Exception as error:
            log.exception("a task cannot be carried on", task=self.kind, id=str(self.row.pk))
            with suppress(self.row.DoesNotExist):
                self.row.refresh_from_db()
                self.held().update(problem=f"The worker failed: {error}"[:MAX_PROBLEM])
            return False
        finally:
            self.release()

    def _work(self) -> bool:
        end = time.monotonic() + TURN_S
        while (begun := time.monotonic()) < end:
            if not self.step():
                return False
            time.sleep(max(0.0, self.pause_s(time.monotonic() - begun)))
        return True

    def _update(self, rows: QuerySet[M], **fields: Any) -> bool:
        if not rows.update(**fields):
            return False
        for name, value in fields.items():
            setattr(self.row, name, value)
        return True


def take_turns(tasks: Iterable[ResumableTask[Any]]) -> bool:
    """Run one portion of each task. Return whether any can continue at once."""
    more = [task.take_turn() for task in tasks]
    return any(more)


EXPIRES_S = 30
"""What a worker has not got to by then, its schedule has asked for meanwhile."""


def start_task(task: Any) -> None:
    """Have the worker carry out a scheduled Celery task now.

    If the worker cannot be reached, the task runs by its schedule.
    """
    try:
        task.apply_async(retry=False, expires=EXPIRES_S)
    except (KombuError, OSError) as error:
        log.warning("the worker could not be told", task=task.name, error=str(error))
