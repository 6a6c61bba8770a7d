"""The ways to ask for a scenario's assets in this process, by name."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, get_args

from django.conf import settings

from dashboard.core.kafka_gateway import gateway
from dashboard.core.scenarios import scenarios
from dashboard.stores.cache import cache_table
from dashboard.stores.database_store import DatabaseStore, ends_of
from dashboard.stores.scenarios import check_stored, stored
from stores.base import AssetStore, NotRun
from stores.cache_store import CacheStore
from stores.directory import Directory
from stores.global_store import GlobalStore, NoStore
from stores.owner_store import OwnerStore
from stores.transformation import transformation_of

Via = Literal["global", "owner", "cache", "database"]
VIAS: tuple[Via, ...] = get_args(Via)
MOST = 1_000
"""More scenarios than any file has."""
NO_SERVERS = (
    "No store server is configured: set TALLYBOARD_STORES, or, for servers that run elsewhere, "
    "their TALLYBOARD_STORES_SECRET."
)


@lru_cache(maxsize=MOST)
def global_store(scenario: str) -> GlobalStore:
    """Return this process's copy of a scenario; it is ready only where `start` was called.

    Raises NotRun where the stores do not keep it.
    """
    check_stored(scenario)
    instance = f"{socket.gethostname()}:{settings.TALLYBOARD.http_port}"
    topic = gateway().topics.states(scenario)
    return GlobalStore(gateway().bus, topic, instance, transformation_of(scenario))


def owner_store(scenario: str) -> OwnerStore:
    """Return a scenario's store servers as one store; whether any runs is known when they are
    asked.

    Raises NotRun where the stores do not keep it, or no server is configured: then nobody is asked,
    not Kafka either.
    """
    check_stored(scenario)
    if not settings.TALLYBOARD.asks_stores:
        raise NotRun(NO_SERVERS)
    return _servers(scenario)


@lru_cache(maxsize=MOST)
def _servers(scenario: str) -> OwnerStore:
    bus, names, secret = gateway().bus, gateway().topics, settings.TALLYBOARD.store_secret()
    directory = Directory(bus, names.store_group(scenario), names.states(scenario), secret)
    return OwnerStore(directory, secret, transformation_of(scenario))


@lru_cache(maxsize=MOST)
def cache_store(scenario: str) -> CacheStore:
    """Return a scenario's cache in Redis. Raises NotRun where there is none."""
    check_stored(scenario)
    if settings.TALLYBOARD.redis_url is None:
        raise NotRun("No cache is configured: set TALLYBOARD_REDIS_URL.")
    topic, partitions = gateway().topics.states(scenario), scenarios()[scenario].partitions
    return CacheStore(cache_table(scenario), partitions, gateway().bus, topic)


def database_store(scenario: str) -> DatabaseStore:
    """Return a scenario's assets in the database, which has every scenario."""
    return DatabaseStore(transformation_of(scenario))


def start() -> None:
    """Begin to keep this process's copies."""
    for scenario in stored():
        global_store(scenario).start()


def stop() -> None:
    """Keep the copies no longer."""
    for scenario in stored():
        global_store(scenario).stop()


def missing_copies() -> list[str]:
    """Return which of this process's copies do not have all of their topics, in words."""
    whys = ((scenario, global_store(scenario).behind()) for scenario in stored())
    return [f"copy of {scenario}: {why}" for scenario, why in whys if why]


def store(via: Via, scenario: str) -> AssetStore:
    """Return the store that is asked this way."""
    try:
        return _STORES[via](scenario)
    except NotRun as problem:
        return NoStore(str(problem))


def forget() -> None:
    """Have every store made anew, as for another bus."""
    for made in (global_store, _servers, cache_store, ends_of):
        made.cache_clear()


_STORES: dict[Via, Callable[[str], AssetStore]] = {
    "global": global_store,
    "owner": owner_store,
    "cache": cache_store,
    "database": database_store,
}
