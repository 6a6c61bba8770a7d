"""Which partitions a store server may answer for, and until when: its fence.

A server that has lost a partition must not answer for it, however late it learns of the loss. The
group tells a member about a revocation and waits for it. A member that is silent (stopped, cut off)
is expelled after the session timeout. Each confirmed commit is therefore a lease, since the group's
coordinator rejects commits from anyone who is no longer a member. It lasts as long as the session,
counted from when the commit was sent. The lease is checked after the value was read, so a server
that was stopped in between finds that it has expired.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from threading import Lock

MARGIN_S = 1.0
"""A lease ends this much before the session does, for clocks that run at different speeds."""


def boot_clock() -> float:
    """Return seconds since the machine started, including the time it slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Ownership:
    """The partitions of one server. Can be shared among threads."""

    def __init__(self, session_s: float, clock: Callable[[], float] = boot_clock) -> None:
        self._lease_s, self._clock = session_s - MARGIN_S, clock
        self._lock = Lock()
        self._owned: frozenset[int] = frozenset()
        self._until = 0.0

    def take(self, partitions: Collection[int]) -> None:
        """Own these partitions in addition to those already owned."""
        with self._lock:
            self._owned |= set(partitions)

    def give_up(self, partitions: Collection[int]) -> None:
        """Stop owning these partitions."""
        with self._lock:
            self._owned -= set(partitions)

    def confirm(self, asked_at: float) -> None:
        """Extend the lease: the group counted this server as a member at `asked_at` (s)."""
        with self._lock:
            self._until = max(self._until, asked_at + self._lease_s)

    def assigned(self) -> frozenset[int]:
        """Return the assigned partitions, whether or not the lease has expired."""
        with self._lock:
            return self._owned

    def owned(self) -> frozenset[int]:
        """Return the partitions that the server may answer for now."""
        with self._lock:
            return self._owned if self._clock() < self._until else frozenset()
