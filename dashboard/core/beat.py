"""Celery's Beat, of which one alone schedules: a second one waits for the first one's end."""

from __future__ import annotations

import fcntl
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import structlog
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django_celery_beat.schedulers import DatabaseScheduler

from config.pulse import Pulse

log = structlog.get_logger(__name__)

# How often a Beat that waits looks whether it may schedule, s.
WAIT_S = 1.0


class Lock(Protocol):
    """What one Beat has at a time; the system frees it when that one ends, however it ends."""

    def held(self) -> bool:
        """Return whether this process has it; takes it where it is free."""


class FileLock:
    """A lock on a file, for a database that is a file of this machine."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a")
        self._held = False

    def held(self) -> bool:
        """Return whether this process has it; takes it where it is free."""
        with suppress(BlockingIOError):
            if not self._held:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._held = True
        return self._held


class ServerLock:
    """A lock of PostgreSQL's, held by a connection of its own, with which it ends.

    The scheduler closes the thread's own connection between its turns.
    """

    def __init__(self) -> None:
        self._connection: BaseDatabaseWrapper | None = None
        self._fault = ""

    def held(self) -> bool:
        """Return whether this process has it; takes it where it is free, gives it up where the
        server does not answer."""
        try:
            if self._connection is None:
                self._take()
            else:
                self._ask("SELECT 1")
            self._fault = ""
        except (DatabaseError, InterfaceError) as error:
            self._note(str(error))
            self._close()
        return self._connection is not None

    def _note(self, fault: str) -> None:
        """Log a fault once, though it is met each second."""
        if fault != self._fault:
            log.warning("the lock of the schedule cannot be had", error=fault)
        self._fault = fault

    def _take(self) -> None:
        self._connection = connections.create_connection("default")
        if not self._ask("SELECT pg_try_advisory_lock(hashtext('celery'), hashtext('beat'))"):
            self._close()

    def _ask(self, sql: str) -> Any:
        assert self._connection
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchone()[0]

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(DatabaseError, InterfaceError):
                self._connection.close()
            self._connection = None


def lock_of(data_dir: Path) -> Lock:
    """Return the lock that fits the database: all who schedule by one database share one."""
    if connection.vendor == "postgresql":
        return ServerLock()
    return FileLock(data_dir / "celery" / "beat.lock")


class OneScheduler(DatabaseScheduler):
    """The schedule, from which this Beat sends tasks while it has the lock."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        data_dir = settings.TALLYBOARD.data_dir
        self._lock, self._pulse = lock_of(data_dir), Pulse(data_dir, "beat")
        self._scheduling: bool | None = None

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send what is due; return after how many seconds to look again."""
        self._pulse.beat()
        held = self._lock.held()
        if held is not self._scheduling:
            self._turn(scheduling=held)
        if not held:
            return WAIT_S
        return float(super().tick(*args, **kwargs))

    def populate_heap(self, *args: Any, **kwargs: Any) -> None:
        """Put all tasks in the order in which they are due."""
        super().populate_heap(*args, **kwargs)
        # It has every change of the schedule by now. Else the next turn would do it again, by what
        # was read before this one, and what this one sends would be sent twice.
        self._heap_invalidated = False

    def _turn(self, *, scheduling: bool) -> None:
        """Begin to schedule, by what the database says of the last one, or begin to wait."""
        log.info("beat schedules" if scheduling else "beat waits: another one schedules")
        self._scheduling = scheduling
        self._initial_read, self._heap = True, None
        self._dirty.clear()
