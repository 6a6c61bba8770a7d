"""Work in portions, which any worker can resume.

A row in the database records the progress. A worker may be killed at any point: each portion begins
with a conditional update whose row count says whether this worker does it, so no portion is done
twice.
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
"""How long a task runs before another gets its turn, s."""
MAX_PROBLEM = 300
"""Longest text about what holds up a task, characters."""

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
        """Return the row, or nothing if this worker may no longer change it."""

    @abstractmethod
    def step(self) -> bool:
        """Do the next portion. Returns whether there may be another one at once."""

    @abstractmethod
    def log_stopped(self, why: str) -> None:
        """Record in the audit that the task was stopped."""

    def claim(self) -> bool:
        """Claim the task. Returns whether no other worker has it."""
        return True

    def release(self) -> None:
        """Release the task for other workers."""

    def pause_s(self, took_s: float) -> float:  # noqa: ARG002 - for those that pause
        """Return how long to wait after a portion that took `took_s`, s."""
        return 0.0

    def move(self, **fields: Any) -> bool:
        """Store progress. Returns whether the task still belongs to this worker."""
        return self._update(self.held(), **fields)

    def stop_if_lapsed(self, user_id: int | None, name: str) -> bool:
        """Stop the task if its user may no longer send commands. Returns whether it was stopped."""
        why = lapsed(user_id, name, "command")
        unchanged = self.held().filter(status=self.row.status)
        if why and self._update(unchanged, status="stopped", problem=why[:MAX_PROBLEM]):
            self.log_stopped(why)
            log.warning("stopped", task=self.kind, id=str(self.row.pk), why=why)
        return bool(why)

    def take_turn(self) -> bool:
        """Work on the task for TURN_S unless another worker has it. Returns whether it can go on.

        A fault is stored as the task's problem: other tasks continue, and this one is tried again.
        """
        if not self.claim():
            return False
        try:
            return self._work()
        except self.row.DoesNotExist:  # deleted by its user
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
    """Run one turn of each task. Returns whether any can continue at once."""
    more = [task.take_turn() for task in tasks]
    return any(more)


EXPIRES_S = 30
"""By then the schedule has requested again whatever a worker has not started."""


def start_task(task: Any) -> None:
    """Have the worker run a scheduled Celery task now.

    If the worker cannot be reached, the task runs when its schedule says so.
    """
    try:
        task.apply_async(retry=False, expires=EXPIRES_S)
    except (KombuError, OSError) as error:
        log.warning("the worker could not be reached", task=task.name, error=str(error))
