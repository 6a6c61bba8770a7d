"""The cache of states in Redis: who keeps it, and how it is built again."""

from __future__ import annotations

import time
from contextlib import suppress
from threading import Event, Thread
from typing import NamedTuple

from django.conf import settings

from bus.base import Bus
from dashboard.core.scenarios import scenarios, topics
from dashboard.stores.scenarios import stored
from stores.base import Displaced
from stores.feed import Feed
from stores.redis_table import RedisTable
from stores.transformation import transformation_of


class Rebuilt(NamedTuple):
    """What a rebuild of a scenario came to: active assets, and how long it took."""

    assets: int
    took_s: float


def configured() -> bool:
    """Return whether this copy of the product has a cache: a Redis, and what to keep there."""
    return settings.TALLYBOARD.redis_url is not None and bool(stored())


def cache_table(scenario: str) -> RedisTable:
    """Return the cache's table of a scenario, where one is configured."""
    url, prefix = settings.TALLYBOARD.redis_url, settings.TALLYBOARD.topic_prefix
    assert url is not None
    partitions = scenarios()[scenario].partitions
    return RedisTable(url, f"{prefix}cache.", partitions, transformation_of(scenario))


class CacheKeeper:
    """A thread for each scenario, which brings the cache in step with the log. Not part of the
    database's transaction: the cache has a position of its own, and a Redis that is down holds
    nobody else up."""

    def __init__(self, bus: Bus) -> None:
        self._stop = Event()
        self._threads = [
            Thread(
                target=_feed(bus, name, cache_table(name)).run,
                args=(self._stop,),
                name=f"cache-{name}",
                daemon=True,
            )
            for name in stored()
        ]

    def start(self) -> None:
        """Keep the cache, in threads of its own."""
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float = 3) -> None:
        """End the threads, and wait for them."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout_s)


def rebuild(bus: Bus, scenario: str) -> Rebuilt:
    """Empty a scenario's cache and read the whole log into it. Raises BusError, StoreProblem.

    Whoever keeps it meanwhile sees that the position has moved, and goes on from there.
    """
    begun, table = time.monotonic(), cache_table(scenario)
    partitions = range(scenarios()[scenario].partitions)
    for partition in partitions:
        table.drop(partition)
    while table.level() != set(partitions):
        feed = _feed(bus, scenario, table)
        with suppress(Displaced):  # the keeper was faster: go on from where it is
            while not feed.ready():
                feed.step()
        feed.close()
    return Rebuilt(table.count(partitions), time.monotonic() - begun)


def _feed(bus: Bus, scenario: str, table: RedisTable) -> Feed:
    return Feed(bus, topics().states(scenario), table, transformation_of(scenario))
