"""The cache of orders in Redis: who keeps it, and how it is built again."""

from __future__ import annotations

import time
from contextlib import suppress
from threading import Event, Thread
from typing import NamedTuple

from django.conf import settings

from bus.base import Bus
from dashboard.core.scenarios import scenarios, topics
from stores.base import SCENARIO, Displaced
from stores.feed import Feed
from stores.redis_table import RedisTable


class Rebuilt(NamedTuple):
    """What a rebuild came to: active orders, and how long it took."""

    orders: int
    took_s: float


def configured() -> bool:
    """Return whether this copy of the product has a cache: a Redis, and orders."""
    return settings.TALLYBOARD.redis_url is not None and SCENARIO in scenarios()


def cache_table() -> RedisTable:
    """Return the cache's table, where one is configured."""
    url, prefix = settings.TALLYBOARD.redis_url, settings.TALLYBOARD.topic_prefix
    assert url is not None
    return RedisTable(url, f"{prefix}cache.", scenarios()[SCENARIO].partitions)


class CacheKeeper:
    """A thread that brings the cache in step with the log. Not part of the database's transaction:
    the cache has a position of its own, and a Redis that is down holds nobody else up."""

    def __init__(self, bus: Bus) -> None:
        self._feed = Feed(bus, topics().states(SCENARIO), cache_table())
        self._stop = Event()
        self._thread = Thread(target=self._feed.run, args=(self._stop,), name="cache", daemon=True)

    def start(self) -> None:
        """Keep the cache in a thread of its own."""
        self._thread.start()

    def stop(self, timeout_s: float = 3) -> None:
        """End the thread, and wait for it."""
        self._stop.set()
        self._thread.join(timeout_s)


def rebuild(bus: Bus) -> Rebuilt:
    """Empty the cache and read the whole log into it. Raises BusError, StoreProblem.

    Whoever keeps it meanwhile sees that the position has moved, and goes on from there.
    """
    begun, table = time.monotonic(), cache_table()
    partitions = range(scenarios()[SCENARIO].partitions)
    for partition in partitions:
        table.drop(partition)
    while table.level() != set(partitions):
        feed = Feed(bus, topics().states(SCENARIO), table)
        with suppress(Displaced):  # the keeper was faster: go on from where it is
            while not feed.ready():
                feed.step()
        feed.close()
    return Rebuilt(table.count(partitions), time.monotonic() - begun)
