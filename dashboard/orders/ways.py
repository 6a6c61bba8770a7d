"""The ways to ask for orders in this process, by name."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, get_args

from django.conf import settings

from dashboard.core.kafka_gateway import gateway
from dashboard.core.scenarios import scenarios
from dashboard.orders.cache import cache_table, configured
from dashboard.orders.database_store import DatabaseStore
from stores.base import SCENARIO, NotRun, OrderStore
from stores.cache_store import CacheStore
from stores.directory import Directory
from stores.global_store import GlobalStore, NoStore
from stores.owner_store import OwnerStore

Via = Literal["global", "owner", "cache", "database"]
VIAS: tuple[Via, ...] = get_args(Via)
NO_SERVERS = (
    "No store server is configured: set TALLYBOARD_STORES, or, for servers that run elsewhere, "
    "their TALLYBOARD_STORES_SECRET."
)


@lru_cache(maxsize=1)
def global_store() -> GlobalStore:
    """Return this process's copy of all orders; it is ready only where `start` was called."""
    instance = f"{socket.gethostname()}:{settings.TALLYBOARD.http_port}"
    return GlobalStore(gateway().bus, gateway().topics.states(SCENARIO), instance)


def owner_store() -> OwnerStore:
    """Return the store servers as one store; whether any runs is known when they are asked.

    Raises NotRun where none is configured: then nobody is asked, not Kafka either.
    """
    if not settings.TALLYBOARD.asks_stores:
        raise NotRun(NO_SERVERS)
    return _servers()


@lru_cache(maxsize=1)
def _servers() -> OwnerStore:
    bus, names, secret = gateway().bus, gateway().topics, settings.TALLYBOARD.store_secret()
    directory = Directory(bus, names.store_group(SCENARIO), names.states(SCENARIO), secret)
    return OwnerStore(directory, secret)


@lru_cache(maxsize=1)
def cache_store() -> OrderStore:
    """Return the cache in Redis, where one is configured."""
    if not configured():
        return NoStore("No cache is configured: set TALLYBOARD_REDIS_URL.")
    topic, partitions = gateway().topics.states(SCENARIO), scenarios()[SCENARIO].partitions
    return CacheStore(cache_table(), partitions, gateway().bus, topic)


def start() -> None:
    """Begin to keep this process's copy, where orders are watched at all."""
    if SCENARIO in scenarios():
        global_store().start()


def stop() -> None:
    """Keep the copy no longer."""
    if SCENARIO in scenarios():
        global_store().stop()


def store(via: Via) -> OrderStore:
    """Return the store that is asked this way."""
    return _STORES[via]()


def forget() -> None:
    """Have every store made anew, as for another bus."""
    for made in (global_store, _servers, cache_store):
        made.cache_clear()


def _owners() -> OrderStore:
    try:
        return owner_store()
    except NotRun as problem:
        return NoStore(str(problem))


_STORES: dict[Via, Callable[[], OrderStore]] = {
    "global": global_store,
    "owner": _owners,
    "cache": cache_store,
    "database": DatabaseStore,
}
