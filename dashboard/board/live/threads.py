"""Threads and turns: reading the database for sockets, waking them, and what all of them get at a
time.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import TypeVar
from weakref import WeakKeyDictionary

import msgspec
from django.db import DatabaseError, connection

from dashboard.board.live.live_view import LiveView, live_view
from dashboard.core.common.scenarios import scenarios
from dashboard.core.job.freshness import board_problems, find_problems
from dashboard.watch.annotations.row_marks import Badge
from domain.scenario import Scenario

# ---- wakeups -------------------------------------------------------------------------------------
# Waking tasks of an event loop from another thread.


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


# ---- database threads ----------------------------------------------------------------------------
# Reading the database for sockets: in two threads whose connections stay open.
#
# To open a connection for each of some hundred readings a second costs more than the readings.

T = TypeVar("T")

# Most readings at a time: a third would wait for the same processor anyway.
READERS = 2


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(READERS, thread_name_prefix="reader")


async def read_in_thread(look: Callable[[], T]) -> T:
    """Return what `look` returns, called in one of the threads. Raises what it raises."""
    return await asyncio.get_running_loop().run_in_executor(_pool(), _guarded, look)


def _guarded(look: Callable[[], T]) -> T:
    try:
        return look()
    except DatabaseError:
        connection.close()  # it may be of no more use
        raise


def close() -> None:
    """Wait for what is being read, and let the threads and their connections go."""
    pool = _pool()
    _pool.cache_clear()
    pool.shutdown(wait=True, cancel_futures=True)


def per_loop(make: Callable[[], T]) -> Callable[[], T]:
    """Return a function that returns one `make()` for each event loop: that of the running one."""
    known: WeakKeyDictionary[asyncio.AbstractEventLoop, T] = WeakKeyDictionary()
    return partial(_of_loop, known, make)


def _of_loop(known: WeakKeyDictionary[asyncio.AbstractEventLoop, T], make: Callable[[], T]) -> T:
    loop = asyncio.get_running_loop()
    if loop not in known:
        known[loop] = make()
    return known[loop]


# ---- turns ---------------------------------------------------------------------------------------
# Turns: when the sockets of a page are sent what waits for them, together.

# So many times in a pause it is the turn of some pages.
SPREAD = 64


class Turns:
    """The turns of the pages that the sockets of a loop show: one timer for all of a page."""

    def __init__(self) -> None:
        self._coming: dict[Hashable, asyncio.Event] = {}

    async def wait(self, page: Hashable, pause: float) -> None:
        """Wait for the next turn of a page. Turns are a pause apart, s."""
        coming = self._coming.get(page)
        if coming is None:
            coming = self._coming[page] = asyncio.Event()
            wait = until_turn_s(pause, hash(page), time.monotonic())
            asyncio.get_running_loop().call_later(wait, self._come, page)
        await coming.wait()

    def _come(self, page: Hashable) -> None:
        self._coming.pop(page).set()


turns = per_loop(Turns)


def until_turn_s(pause: float, page: int, now: float) -> float:
    """Return how long it is to the next turn of a page, s.

    page: a number of its own, which spreads pages over the pause. now: of a clock that only rises.
    """
    turn = page % SPREAD / SPREAD * pause
    return pause - (now - turn) % pause


# ---- heartbeats ----------------------------------------------------------------------------------
# The message to every open board each two seconds, worked out once for each scenario.

# What was worked out so long ago at the most is told to another socket.
SHARED_MS = 250


class Beats:
    """The messages for the sockets of one event loop."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, bytes]] = {}

    def message(self, scenario: str, now: int) -> bytes:
        """Return the message at `now` (Unix ms) for a socket that shows this scenario."""
        made, body = self._known.get(scenario, (0, b""))
        if now - made > SHARED_MS:
            body = _body(live_view(), scenarios(), scenario, now)
            self._known[scenario] = (now, body)
        return body[:-1] + b',"now":%d}' % now


def _body(view: LiveView, known: dict[str, Scenario], current: str, now: int) -> bytes:
    badges = {  # of others the tab keeps what it shows
        name: Badge.of(known[name], numbers)
        for name, numbers in view.figure("unhandled").items()
        if name in known and not known[name].life_cycle
    }
    tabs = {pk: badge for each in view.figure("tabs").values() for pk, badge in each.items()}
    facts, boards = view.signs.facts(), list(known.values())
    return msgspec.json.encode(
        {
            "type": "beat",
            "heartbeat_at": view.heartbeat_at,
            "badges": badges,
            "tabs": tabs,
            "problems": find_problems(facts, boards, current, now),
            "board_problems": board_problems(facts, boards, now),
        }
    )


beats = per_loop(Beats)
