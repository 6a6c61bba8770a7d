"""Waking tasks of an event loop from another thread."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import lru_cache


class Wakeups:
    """Sets events of a loop from other threads: one call of the loop for all that come together.

    Each call lets go of the interpreter's lock, and the loop may keep that for milliseconds: a
    thread that called for each of a thousand sockets would be kept waiting as often.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._events: deque[asyncio.Event] = deque()
        self._called = False

    def set(self, event: asyncio.Event) -> None:
        """Have the loop set an event soon."""
        self._events.append(event)
        if not self._called:
            self._called = True
            self._loop.call_soon_threadsafe(self._set_all)

    def _set_all(self) -> None:
        self._called = False  # first: what comes from here on calls again
        while self._events:
            self._events.popleft().set()


@lru_cache(maxsize=1)
def wakeups_of(loop: asyncio.AbstractEventLoop) -> Wakeups:
    """Return what all sockets of a loop share."""
    return Wakeups(loop)
