"""Celery on one machine: a queue in files, and a lock so that only one Beat schedules."""

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
# Celery's queue as files in a folder, on one machine without Redis: kombu's transport, made safe.
#
# kombu's own transport writes a message where it is read: a reader that lists the folder meanwhile
# takes half of it and fails with a JSONDecodeError, and the message is lost. Its table of bindings
# is truncated before it is locked. Here everything is written to another file and renamed, so a
# file is either complete or absent.

log = structlog.get_logger(__name__)

MOST_WAITING = 20_000
"""Most messages in a queue: if no worker takes them, a schedule would fill the disk."""
Bindings = list[filesystem.exchange_queue_t]


def put_whole(path: Path, text: str) -> None:
    """Write a file that appears under its name only once it is complete. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid.uuid4()}")
    try:
        draft.write_text(text)
        draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)


class FolderChannel(filesystem.Channel):
    """Messages in the folder `data_folder_in`, in the order in which they arrived.

    A message is taken by renaming it, so only one of several workers gets it. It is then gone, as
    with kombu's own transport: what a killed worker had taken is not sent again.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._listed: dict[str, deque[str]] = {}

    @property
    def folder(self) -> Path:
        """Return the folder of the messages."""
        return Path(self.data_folder_in)

    # ---- messages ----

    def _put(self, queue: str, payload: Any, **_kwargs: Any) -> None:  # type: ignore[override]
        """Append a message. Raises ChannelError if it cannot be written or too many are waiting."""
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
        """Yield the names of the waiting messages; another worker may have taken some of them.

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
        """Remove and return a message, or return None if it is gone or cannot be read."""
        taken = self.folder / f".{name}.taken"
        try:
            (self.folder / name).rename(taken)
        except FileNotFoundError:
            return None
        try:
            return loads(bytes_to_str(taken.read_bytes()))
        except ValueError:  # left like this by a full disk
            log.exception("a message to the worker cannot be read", kept=f"{name}.unreadable")
            taken.rename(self.folder / f"{name}.unreadable")
            return None
        finally:
            taken.unlink(missing_ok=True)

    def _size(self, queue: str) -> int:
        """Return how many messages are waiting."""
        return len(self._list(queue))

    def _purge(self, queue: str) -> int:
        """Drop the waiting messages. Returns how many."""
        return sum(self._take(name) is not None for name in self._list(queue))

    # ---- which queues hear an exchange ----

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        """Bind a queue. Raises ChannelError if the binding cannot be stored."""
        bound = filesystem.exchange_queue_t(routing_key or "", pattern or "", queue or "")
        self._change(exchange, lambda table: [bound, *(row for row in table if row != bound)])

    def _delete(
        self, queue: str, exchange: str, routing_key: str, pattern: str, *args: Any, **kwargs: Any
    ) -> None:
        """Drop a queue and its messages. Raises ChannelError if that cannot be stored."""
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
    """Hold a file's lock, which is a separate file, as the locked file itself is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Transport(filesystem.Transport):
    """Files in a folder, like kombu's transport and with its settings."""

    Channel = FolderChannel


# ---- beat ----------------------------------------------------------------------------------------
# Celery's Beat: only one schedules, and a second one waits until the first has ended.

# How often a waiting Beat checks whether it may schedule, s.
WAIT_S = 1.0


class BeatLock(Protocol):
    """A lock that only one Beat holds; the system releases it however that Beat ends."""

    def held(self) -> bool:
        """Try to acquire the lock. Returns whether this process holds it."""


class FileLock:
    """A lock on a file, for a database that is a file on this machine."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a")
        self._held = False

    def held(self) -> bool:
        """Try to acquire the lock. Returns whether this process holds it."""
        with suppress(BlockingIOError):
            if not self._held:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._held = True
        return self._held


class ServerLock:
    """A PostgreSQL lock, held by a connection of its own and released with it.

    The scheduler closes the thread's own connection between its turns.
    """

    def __init__(self) -> None:
        self._connection: BaseDatabaseWrapper | None = None
        self._fault = ""

    def held(self) -> bool:
        """Try to acquire the lock. Returns whether this process holds it.

        Releases it if the server does not answer.
        """
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
        """Log a fault once, although it recurs every second."""
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
    """Return the lock that fits the database; all schedulers of one database share one."""
    if connection.vendor == "postgresql":
        return ServerLock()
    return FileLock(data_dir / "celery" / "beat.lock")


class OneScheduler(DatabaseScheduler):
    """The schedule, from which this Beat sends tasks while it holds the lock."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        data_dir = settings.TALLYBOARD.data_dir
        self._lock, self._pulse = lock_of(data_dir), Pulse(data_dir, "beat")
        self._scheduling: bool | None = None

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send the tasks that are due. Returns after how many seconds to check again."""
        self._pulse.beat()
        held = self._lock.held()
        if held is not self._scheduling:
            self._turn(scheduling=held)
        if not held:
            return WAIT_S
        return float(super().tick(*args, **kwargs))

    def populate_heap(self, *args: Any, **kwargs: Any) -> None:
        """Order all tasks by when they are due."""
        super().populate_heap(*args, **kwargs)
        # It now has every change to the schedule. Otherwise the next turn would repeat this with
        # what was read before this turn, and send again what this turn sends.
        self._heap_invalidated = False

    def _turn(self, *, scheduling: bool) -> None:
        """Start to schedule from the state in the database, or start to wait."""
        log.info("beat schedules" if scheduling else "beat waits: another one schedules")
        self._scheduling = scheduling
        self._initial_read, self._heap = True, None
        self._dirty.clear()
