"""The ways to ask for a scenario's assets in this process: database, copies, cache, owners."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import lru_cache
from threading import Event, Lock
from typing import Literal, NamedTuple, Protocol, get_args

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models import QuerySet

from bus.base import Bus, BusError
from bus.follower import Follower
from dashboard.core.common.extension_point import Provider
from dashboard.core.common.kafka import Gateway, gateway
from dashboard.core.common.scenarios import scenarios, topics
from dashboard.core.states.board_rows import Row
from dashboard.core.states.models import AssetState, SinkOffset
from dashboard.core.states.queries import Kept, counts, stored
from domain.names import name_ok
from stores.base import (
    AssetStore,
    Displaced,
    Health,
    Many,
    NotRun,
    One,
    Unreachable,
    current,
    now_ms,
)
from stores.cache_store import CacheStore
from stores.directory import Directory
from stores.feed import TableFeed
from stores.global_store import GlobalStore, NoStore
from stores.owner_store import OwnerStore
from stores.redis_table import RedisTable
from stores.transformation import Transformation, transformation_of
from wire.sink import StateValue, state_value

# ---- newest --------------------------------------------------------------------------------------
# The newest of one asset: what the database has, and what this process has heard beyond it.
#
# The process that listens to the states topics registers what it has heard: `overlay.register`.


class NewestRecord(Protocol):
    """A state record that may be newer than the database's. row: None after a purge."""

    version: str
    row: Row | None
    value: bytes


overlay: Provider[[str, str], NewestRecord | None] = Provider(lambda _scenario, _asset: None)
"""Returns the newest record of an asset of a scenario, or None where the database has it."""


def record_of(scenario: str, asset: str) -> StateValue | None:
    """Return the newest state record of one visible asset, or None."""
    newer = overlay(scenario, asset)
    row = AssetState.objects.filter(scenario=scenario, asset=asset).first()
    if newer is not None and (row is None or newer.version > row.version):
        return state_value(newer.value) if newer.row is not None else None
    return state_value(row.record) if row and not row.purged else None


def newest_states(scenario: str, assets: Collection[str]) -> dict[str, tuple[str, str]]:
    """Return version and state of each known asset; the state is "" once it is purged."""
    newest = {name: (each.version, each.state) for name, each in kept_of(scenario, assets).items()}
    for asset in assets:
        newer = overlay(scenario, asset)
        if newer is not None and newer.version > newest.get(asset, ("", ""))[0]:
            newest[asset] = (newer.version, newer.row["state"] if newer.row else "")
    return newest


def kept_of(scenario: str, assets: Collection[str]) -> dict[str, Kept]:
    """Return what the database has of those of these assets that it knows."""
    return stored(scenario, assets) if assets else {}


# ---- scenarios -----------------------------------------------------------------------------------
# Of which scenarios the stores keep the states, as the settings have it.


def stored_scenarios() -> tuple[str, ...]:
    """Return the scenarios that the stores keep. Raises ValueError for a setting that names an
    unknown one."""
    return tuple(settings.TALLYBOARD.stored(scenarios()))


def check_stored(scenario: str) -> None:
    """Raise NotRun unless the stores keep this scenario."""
    if scenario not in stored_scenarios():
        kept = ", ".join(stored_scenarios()) or "none"
        raise NotRun(
            f"The stores keep no states of {scenario}: add it to TALLYBOARD_STORES_SCENARIOS "
            f"(now {kept}), or ask the database."
        )


# ---- database store ------------------------------------------------------------------------------
# A scenario's assets as the materialiser has written them: the central database, under the stores'
# contract.

LOOK_MS = 1_000
"""Questions within so long of each other share what Kafka says of the ends of the log."""
MOST_AHEAD = 6
"""So many ends are remembered that the database has not reached yet."""
PAUSE_MS = 5_000
"""So long Kafka is not asked again after it has not answered."""


class Ends:
    """The ends of a scenario's log, as Kafka told them in the last seconds. Safe to share."""

    def __init__(self, asked: Gateway, topic: str) -> None:
        self._bus, self._topic, self._lock = asked.bus, topic, Lock()
        self._ahead: list[tuple[int, dict[int, int]]] = []
        self._as_of: int | None = None
        self._next = 0

    def as_of(self, positions: dict[int, int]) -> int | None:
        """Return the latest time known at which the log had no more than what is before these
        positions, Unix ms; None where none is known."""
        with self._lock:
            self._look(now_ms())
            for number, (at, ends) in reversed(list(enumerate(self._ahead))):
                if _reached(positions, ends):
                    self._as_of = at
                    del self._ahead[: number + 1]
                    break
            return self._as_of

    def _look(self, now: int) -> None:
        """Ask for the ends, once a second. The oldest that were not reached yet stay: else what
        runs behind would reach none."""
        if now < self._next:
            return
        try:
            ends = self._bus.offsets([self._topic], timeout_s=1)
        except BusError:
            self._next = now_ms() + PAUSE_MS
            return
        del self._ahead[MOST_AHEAD - 1 :]
        self._ahead.append((now, {at: end for (_, at), (_, end) in ends.items()}))
        self._next = now + LOOK_MS


class DatabaseStore:
    """One database for all who ask."""

    def __init__(self, kept: Transformation) -> None:
        self._kept, self._scenario = kept, kept.scenario

    def get(self, key: str) -> One:
        """Return an asset. Raises Unreachable."""
        rows = self._rows().filter(asset=key)
        try:
            as_of = self._as_of(self._positions())  # before it is read: it moves on
            record = rows.first() if name_ok(key) else None
        except DatabaseError as error:
            raise Unreachable("The database does not answer.") from error
        asset = None if record is None else self._kept.asset(record)
        return One(asset, connection.vendor, current(as_of), as_of)

    def all(self, after: str = "", limit: int = 100) -> Many:
        """Return the first active assets past `after`. Raises Unreachable."""
        try:
            place = self.place()
            active = self._rows().exclude(state__in=self._kept.ended)
            records = list(active.filter(asset__gt=after).order_by("asset")[:limit])
            count = self.count()
        except DatabaseError as error:
            raise Unreachable("The database does not answer.") from error
        assets = [self._kept.asset(record) for record in records]
        return Many(assets, count, place.positions, place.instance, place.complete, place.as_of)

    def place(self) -> Many:
        """Return how far the database has come, without any asset. Raises Unreachable."""
        try:
            positions = self._positions()
        except DatabaseError as error:
            raise Unreachable("The database does not answer.") from error
        as_of = self._as_of(positions)
        return Many([], 0, positions, connection.vendor, current(as_of), as_of)

    def count(self) -> int:
        """Return how many assets are active, as the materialiser counts them."""
        known = counts(self._scenario)
        return sum(n for state, n in known.items() if state not in self._kept.ended)

    def health(self) -> Health:
        """Return how the database fares; its lag is unknown where Kafka does not answer."""
        try:
            return Health(connection.vendor, True, self.count(), self._lag())
        except DatabaseError:
            return Health(connection.vendor, False, 0, None, "The database does not answer.")

    def _rows(self) -> QuerySet[AssetState, str]:
        rows = AssetState.objects.filter(scenario=self._scenario, purged=False)
        return rows.values_list("record", flat=True)

    def _as_of(self, positions: dict[int, int]) -> int | None:
        return ends_of(gateway(), self._topic()).as_of(positions)

    def _topic(self) -> str:
        return gateway().topics.states(self._scenario)

    def _positions(self) -> dict[int, int]:
        rows = SinkOffset.objects.filter(topic=self._topic())
        return dict(rows.values_list("partition", "next_offset"))

    def _lag(self) -> int | None:
        at = self._positions()
        try:
            ends = gateway().bus.offsets([self._topic()], timeout_s=1)
        except BusError:
            return None
        return sum(max(0, end - at.get(partition, 0)) for (_, partition), (_, end) in ends.items())


@lru_cache(maxsize=100)
def ends_of(asked: Gateway, topic: str) -> Ends:
    """Return what this process knows of the ends of a topic."""
    return Ends(asked, topic)


def _reached(positions: dict[int, int], ends: dict[int, int]) -> bool:
    return all(positions.get(at, 0) >= end for at, end in ends.items())


# ---- cache ---------------------------------------------------------------------------------------
# The cache of states in Redis: who keeps it, and how it is built again.


class Rebuilt(NamedTuple):
    """What a rebuild of a scenario came to: active assets, and how long it took."""

    assets: int
    took_s: float


def configured() -> bool:
    """Return whether this copy of the product has a cache: a Redis, and what to keep there."""
    return settings.TALLYBOARD.redis_url is not None and bool(stored_scenarios())


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
        stop = Event()
        feeds = (_feed(bus, name, cache_table(name)) for name in stored_scenarios())
        self._followers = [Follower(feed, stop) for feed in feeds]

    def start(self) -> None:
        """Keep the cache, in threads of its own."""
        for follower in self._followers:
            follower.start()

    def stop(self, timeout_s: float = 3) -> None:
        """End the threads, and wait for them."""
        for follower in self._followers:
            follower.stop(timeout_s)


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


def _feed(bus: Bus, scenario: str, table: RedisTable) -> TableFeed:
    return TableFeed(bus, topics().states(scenario), table, transformation_of(scenario))


# ---- ways ----------------------------------------------------------------------------------------
# The ways to ask for a scenario's assets in this process, by name.

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
    for scenario in stored_scenarios():
        global_store(scenario).start()


def stop() -> None:
    """Keep the copies no longer."""
    for scenario in stored_scenarios():
        global_store(scenario).stop()


def missing_copies() -> list[str]:
    """Return which of this process's copies do not have all of their topics, in words."""
    whys = ((scenario, global_store(scenario).behind()) for scenario in stored_scenarios())
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
