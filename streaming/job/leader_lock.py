"""The lock that a leader holds, and the wait for one's turn."""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from config import leadership as records
from config.leadership import Leader, boot_id
from config.settings import Settings

# ---- leader lock ---------------------------------------------------------------------------------
# The lock on the checkpoints: whoever writes there holds it, and the kernel frees it at its end.
#
# The driver holds one byte of it, its JVM, which commits, another. They are locks of POSIX: each
# belongs to one process, ends with it however it ends, and tells everybody whose it is. So who
# takes over knows for certain that nobody writes any more, and whom to kill where somebody might. A
# third byte is held by a standby that is ready.

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("streaming.job.leader_lock")

LOCK = "leader.lock"
DRIVER, JVM, STANDBY = 0, 1, 2
SOMEBODY = -1
# struct flock of Linux on 64 bits: type, whence, start, length, pid.
_FLOCK = struct.Struct("hhqqi4x")


class LockHeld(Exception):
    """Another process holds the lock; the message says which."""


class LeaderLock:
    """The lock on one folder of checkpoints, for one process."""

    def __init__(self, folder: Path) -> None:
        """folder: of all checkpoints; it is made. Raises OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / LOCK
        # The only descriptor of this process: closing another would free the lock.
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        self._jvms: list[Any] = []

    def holder(self, byte: int) -> int:
        """Return the id of the other process that holds a byte; 0 where none does, and SOMEBODY
        where it has no id here, as in another container."""
        request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
        kind, *_, pid = _FLOCK.unpack(fcntl.fcntl(self._file, fcntl.F_GETLK, request))
        if kind == fcntl.F_UNLCK:
            return 0
        return int(pid) if pid > 0 else SOMEBODY

    def free(self) -> bool:
        """Return whether no other process holds the driver's byte."""
        return not self.holder(DRIVER)

    def stood_by(self) -> bool:
        """Return whether another process is ready to lead."""
        return bool(self.holder(STANDBY))

    def stand_by(self) -> None:
        """Record that this process is ready to lead, or that another one already is."""
        self._take(STANDBY)

    def take(self) -> bool:
        """Lock the driver's byte. Return whether no other process holds it or the JVM's byte.

        A leader gives up its place as a standby.
        """
        if not self._take(DRIVER) or self.holder(JVM):
            return False
        self._release(STANDBY)
        return True

    def release(self) -> None:
        """Free the driver's byte, before this process ends: its JVM has ended."""
        self._release(DRIVER)

    def _take(self, byte: int) -> bool:
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except OSError:
            return False
        return True

    def _release(self, byte: int) -> None:
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)

    def bind(self, spark: SparkSession) -> None:
        """Have Spark's JVM lock the other byte for as long as it lives. Raises LockHeld.

        Call this only while holding the driver's byte.
        """
        file = spark._jvm.java.io.RandomAccessFile(str(self.path), "rw")  # type: ignore[union-attr]  # noqa: SLF001
        held = file.getChannel().tryLock(JVM, 1, False)
        if held is None:
            file.close()
            raise LockHeld(f"process {self.holder(JVM)} still works on the checkpoints")
        self._jvms += [file, held]  # the JVM frees what nobody refers to

    def end_orphan(self) -> bool:
        """Kill a JVM whose driver is gone. Return whether there was one.

        Call this only while holding the driver's byte, which proves that the driver is gone.
        """
        return _kill(self.holder(JVM), "a JVM without a driver")

    def fence(self, leader: Leader) -> bool:
        """Kill whoever holds the lock, on this machine; return whether there was somebody.

        leader: who leads by the file. One on another machine is left alone: its id means nothing
        here.
        """
        if not leader.boot or leader.boot != boot_id():
            return False
        killed = [
            _kill(pid, "a leader that the group has put out")
            for byte in (DRIVER, JVM)
            if (pid := self.holder(byte)) in (leader.driver, leader.jvm)
        ]
        return any(killed)


def _kill(pid: int, what: str, kill: Callable[[int, int], None] = os.kill) -> bool:
    if pid <= 0:
        return False
    log.warning("%s is ended: process %d", what, pid)
    with suppress(ProcessLookupError, PermissionError):
        kill(pid, signal.SIGKILL)
    return True


# ---- turn ----------------------------------------------------------------------------------------
# Before a standby warms up: wait until the machine is free for it, or it is needed at once.
#
# It imports little, so that a process which waits beside a leader that has just begun costs
# nothing.

LOOK_S = 0.1
# How long a leader has the machine for itself once its queries run.
SETTLE_S = 5.0
# How long a standby waits for a first leader.
FIRST_S = 60.0


def await_turn(
    settings: Settings,
    lock: LeaderLock,
    stop: threading.Event,
    beat: Callable[[], None],
    *,
    second: bool,
) -> bool:
    """Return once this process should start Spark: whether a leader was there until now.

    second: it comes after another one, which it lets go first. A leader that ends is a reason to
    start at once, unless a standby is ready to take over.
    """
    path, begun = records.file_of(settings.checkpoint_dir), time.monotonic()
    patience_s = FIRST_S if second else 0.0
    seen, settled_at = False, 0.0
    while not stop.wait(LOOK_S):
        beat()
        now = time.monotonic()
        leading = not lock.free()
        if not leading and not lock.stood_by() and (seen or now - begun >= patience_s):
            return False
        seen = seen or leading
        running = leading and records.read(path).running
        settled_at = (settled_at or now) if running else 0.0
        if running and now - settled_at > SETTLE_S:
            return True
    return False
