"""Celery on one machine: a queue in files, and a lock that lets one Beat schedule."""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty
from typing import Any, Protocol

import structlog
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django_celery_beat.schedulers import DatabaseScheduler
from kombu.exceptions import ChannelError
from kombu.transport import filesystem, virtual
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import dumps, loads

from config.pulse import Pulse

# ---- file queue ----------------------------------------------------------------------------------
# Celery's queue as files of a folder, on one machine without Redis: kombu's transport, made safe.
#
# kombu's own writes a message where it is read: whoever lists the folder meanwhile takes half of
# it, ends with a JSONDecodeError, and the message is gone. Its table of bindings is emptied before
# it is locked. Here whatever is written is written aside and renamed, so a file is whole or not
# there.

log = structlog.get_logger(__name__)

MOST_WAITING = 20_000
"""Messages of one queue: where nobody takes them, a schedule would fill the disk."""
Bindings = list[filesystem.exchange_queue_t]


def put_whole(path: Path, text: str) -> None:
    """Write a file that appears under its name once all of it is there. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid.uuid4()}")
    try:
        draft.write_text(text)
        draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)


class FolderChannel(filesystem.Channel):
    """Messages in the folder `data_folder_in`, in the order in which they came.

    A message is taken by renaming it: of several workers one has it. It is gone then, as with
    kombu's own: what a killed worker had taken is not sent again.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._listed: dict[str, deque[str]] = {}

    @property
    def folder(self) -> Path:
        """Return where the messages lie."""
        return Path(self.data_folder_in)

    # ---- messages ----

    def _put(self, queue: str, payload: Any, **_kwargs: Any) -> None:  # type: ignore[override]
        """Append a message. Raises ChannelError when it cannot be written, or too many wait."""
        if self._size(queue) >= MOST_WAITING:
            raise ChannelError(f"{queue}: {MOST_WAITING:,} messages wait, and no worker takes them")
        path = self.folder / f"{time.time_ns():020d}_{uuid.uuid4()}.{queue}.msg"
        try:
            put_whole(path, dumps(payload))
        except OSError as error:
            raise ChannelError(f"Cannot add a message to {self.folder}: {error}") from error

    def _get(self, queue: str, timeout: float | None = None) -> Any:  # noqa: ARG002 - kombu's form
        """Remove and return the oldest message. Raises Empty."""
        for name in self._waiting(queue):
            payload = self._take(name)
            if payload is not None:
                return payload
        raise Empty

    def _waiting(self, queue: str) -> Iterator[str]:
        """Yield the names of the messages that wait, some of which another worker may have taken.

        The folder is listed once for many of them.
        """
        listed = self._listed.get(queue) or self._list(queue)
        self._listed[queue] = listed
        while listed:
            yield listed.popleft()

    def _list(self, queue: str) -> deque[str]:
        try:
            names = os.listdir(self.folder)  # noqa: PTH208 - thousands of names, no paths
        except FileNotFoundError:  # nothing was ever sent
            return deque()
        ending = f"{queue}.msg"
        return deque(sorted(name for name in names if name.partition(".")[2] == ending))

    def _take(self, name: str) -> Any:
        """Remove a message from the queue. Return None if it is gone or cannot be read."""
        taken = self.folder / f".{name}.taken"
        try:
            (self.folder / name).rename(taken)
        except FileNotFoundError:
            return None
        try:
            return loads(bytes_to_str(taken.read_bytes()))
        except ValueError:  # as a disk that was full left it
            log.exception("a message to the worker cannot be read", kept=f"{name}.unreadable")
            taken.rename(self.folder / f"{name}.unreadable")
            return None
        finally:
            taken.unlink(missing_ok=True)

    def _size(self, queue: str) -> int:
        """Return how many messages wait."""
        return len(self._list(queue))

    def _purge(self, queue: str) -> int:
        """Drop what waits. Returns how many messages."""
        return sum(self._take(name) is not None for name in self._list(queue))

    # ---- which queues hear an exchange ----

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        """Bind a queue. Raises ChannelError when that cannot be kept."""
        bound = filesystem.exchange_queue_t(routing_key or "", pattern or "", queue or "")
        self._change(exchange, lambda table: [bound, *(row for row in table if row != bound)])

    def _delete(
        self, queue: str, exchange: str, routing_key: str, pattern: str, *args: Any, **kwargs: Any
    ) -> None:
        """Drop a queue with what waits in it. Raises ChannelError when that cannot be kept."""
        virtual.Channel._delete(self, queue, *args, **kwargs)  # noqa: SLF001 - kombu's form
        gone = filesystem.exchange_queue_t(routing_key or "", pattern or "", queue or "")
        self._change(exchange, lambda table: [row for row in table if row != gone])

    def _change(self, exchange: str, changed: Callable[[Bindings], Bindings]) -> None:
        path = self._exchange_file(exchange)
        try:
            with _locked(path):
                before = self.get_table(exchange)
                after = changed(before)
                if after != before:
                    put_whole(path, dumps(after))
        except OSError as error:
            raise ChannelError(f"Cannot change {path}: {error}") from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a file's lock, which is a file of its own, as the locked one is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Transport(filesystem.Transport):
    """Files of a folder, as kombu's; by its settings of the same names."""

    Channel = FolderChannel


# ---- beat ----------------------------------------------------------------------------------------
# Celery's Beat, of which one alone schedules: a second one waits for the first one's end.

# How often a Beat that waits looks whether it may schedule, s.
WAIT_S = 1.0


class BeatLock(Protocol):
    """What one Beat has at a time; the system frees it when that one ends, however it ends."""

    def held(self) -> bool:
        """Return whether this process holds it, after trying to acquire it."""


class FileLock:
    """A lock on a file, for a database that is a file of this machine."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a")
        self._held = False

    def held(self) -> bool:
        """Return whether this process holds it, after trying to acquire it."""
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
        """Return whether this process holds it, after trying to acquire it. Releases it if the
        server does not answer."""
        try:
            if self._connection is None:
                self._take()
            else:
                self._ask("SELECT 1")
            self._fault = ""
        except (DatabaseError, InterfaceError) as error:
            self._log_fault(str(error))
            self._close()
        return self._connection is not None

    def _log_fault(self, fault: str) -> None:
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


def lock_of(data_dir: Path) -> BeatLock:
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
        """Begin to schedule from the state in the database, or begin to wait."""
        log.info("beat schedules" if scheduling else "beat waits: another one schedules")
        self._scheduling = scheduling
        self._initial_read, self._heap = True, None
        self._dirty.clear()
