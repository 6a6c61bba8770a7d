"""Reading the database for sockets: in two threads whose connections stay open.

To open a connection for each of some hundred readings a second costs more than the readings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import TypeVar
from weakref import WeakKeyDictionary

from django.db import DatabaseError, connection

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
