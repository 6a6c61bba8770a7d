"""The ways to query a scenario's assets in this process: database, copies, cache, owners."""

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
# The newest record of an asset: from the database, or a newer one that this process has received.
#
# The process that listens to the states topics registers what it receives: `overlay.register`.


class NewestRecord(Protocol):
    """A state record that may be newer than the database's. row: None after a purge."""

    version: str
    row: Row | None
    value: bytes


overlay: Provider[[str, str], NewestRecord | None] = Provider(lambda _scenario, _asset: None)
"""Returns the newest record of an asset of a scenario, or None if the database has it."""


def record_of(scenario: str, asset: str) -> StateValue | None:
    """Return the newest state record of one visible asset, or None."""
    newer = overlay(scenario, asset)
    row = AssetState.objects.filter(scenario=scenario, asset=asset).first()
    if newer is not None and (row is None or newer.version > row.version):
        return state_value(newer.value) if newer.row is not None else None
    return state_value(row.record) if row and not row.purged else None


def newest_states(scenario: str, assets: Collection[str]) -> dict[str, tuple[str, str]]:
    """Return the version and state of each known asset; the state is "" after a purge."""
    newest = {name: (each.version, each.state) for name, each in kept_of(scenario, assets).items()}
    for asset in assets:
        newer = overlay(scenario, asset)
        if newer is not None and newer.version > newest.get(asset, ("", ""))[0]:
            newest[asset] = (newer.version, newer.row["state"] if newer.row else "")
    return newest


def kept_of(scenario: str, assets: Collection[str]) -> dict[str, Kept]:
    """Return what the database holds for each of these assets that it knows, by name."""
    return stored(scenario, assets) if assets else {}


# ---- scenarios -----------------------------------------------------------------------------------
# The scenarios whose states the stores keep, according to the settings.


def stored_scenarios() -> tuple[str, ...]:
    """Return the scenarios that the stores keep. Raises ValueError if the setting names an unknown
    one."""
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
# A scenario's assets as the materialiser has written them: the central database behind the stores'
# contract.

LOOK_MS = 1_000
"""For how long queries share Kafka's answer about the ends of the log."""
MOST_AHEAD = 6
"""How many ends are remembered that the database has not reached yet."""
PAUSE_MS = 5_000
"""How long Kafka is not asked again after it failed to answer."""


class Ends:
    """The ends of a scenario's log, as Kafka reported them in the last seconds. Thread-safe."""

    def __init__(self, asked: Gateway, topic: str) -> None:
        self._bus, self._topic, self._lock = asked.bus, topic, Lock()
        self._ahead: list[tuple[int, dict[int, int]]] = []
        self._as_of: int | None = None
        self._next = 0

    def as_of(self, positions: dict[int, int]) -> int | None:
        """Return the latest known time (Unix ms) at which these positions were the end of the log.

        None if no such time is known.
        """
        with self._lock:
            self._look(now_ms())
            for number, (at, ends) in reversed(list(enumerate(self._ahead))):
                if _reached(positions, ends):
                    self._as_of = at
                    del self._ahead[: number + 1]
                    break
            return self._as_of

    def _look(self, now: int) -> None:
        """Ask for the ends, once a second. The oldest ends not yet reached are kept: otherwise a
        database that lags behind would never reach any."""
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
    """The central database as a store."""

    def __init__(self, kept: Transformation) -> None:
        self._kept, self._scenario = kept, kept.scenario

    def get(self, key: str) -> One:
        """Return an asset. Raises Unreachable."""
        rows = self._rows().filter(asset=key)
        try:
            as_of = self._as_of(self._positions())  # before the read, as the database moves on
            record = rows.first() if name_ok(key) else None
        except DatabaseError as error:
            raise Unreachable("The database does not answer.") from error
        asset = None if record is None else self._kept.asset(record)
        return One(asset, connection.vendor, current(as_of), as_of)

    def all(self, after: str = "", limit: int = 100) -> Many:
        """Return the first `limit` active assets after `after`. Raises Unreachable."""
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
        """Return the database's positions in the log, without assets. Raises Unreachable."""
        try:
            positions = self._positions()
        except DatabaseError as error:
            raise Unreachable("The database does not answer.") from error
        as_of = self._as_of(positions)
        return Many([], 0, positions, connection.vendor, current(as_of), as_of)

    def count(self) -> int:
        """Return how many assets are active, from the materialiser's counts."""
        known = counts(self._scenario)
        return sum(n for state, n in known.items() if state not in self._kept.ended)

    def health(self) -> Health:
        """Return the health of the database; its lag is None if Kafka does not answer."""
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
    """Return this process's record of the ends of a topic."""
    return Ends(asked, topic)


def _reached(positions: dict[int, int], ends: dict[int, int]) -> bool:
    return all(positions.get(at, 0) >= end for at, end in ends.items())


# ---- cache ---------------------------------------------------------------------------------------
# The cache of states in Redis: who updates it, and how it is rebuilt.


class Rebuilt(NamedTuple):
    """The result of a rebuild: the number of active assets, and how long it took, s."""

    assets: int
    took_s: float


def configured() -> bool:
    """Return whether a cache is configured: a Redis, and scenarios to keep in it."""
    return settings.TALLYBOARD.redis_url is not None and bool(stored_scenarios())


def cache_table(scenario: str) -> RedisTable:
    """Return a scenario's table in the cache. A cache must be configured."""
    url, prefix = settings.TALLYBOARD.redis_url, settings.TALLYBOARD.topic_prefix
    assert url is not None
    partitions = scenarios()[scenario].partitions
    return RedisTable(url, f"{prefix}cache.", partitions, transformation_of(scenario))


class CacheKeeper:
    """Keeps the cache up to date with the log, in one thread per scenario. Not part of the
    database's transactions: the cache has a position of its own, and a Redis that is down holds
    nobody else up."""

    def __init__(self, bus: Bus) -> None:
        stop = Event()
        feeds = (_feed(bus, name, cache_table(name)) for name in stored_scenarios())
        self._followers = [Follower(feed, stop) for feed in feeds]

    def start(self) -> None:
        """Start the threads."""
        for follower in self._followers:
            follower.start()

    def stop(self, timeout_s: float = 3) -> None:
        """Stop the threads and wait for them."""
        for follower in self._followers:
            follower.stop(timeout_s)


def rebuild(bus: Bus, scenario: str) -> Rebuilt:
    """Empty a scenario's cache, read the whole log into it, and return the result.

    A keeper that runs meanwhile notices that the position has moved, and continues from there.
    Raises BusError, StoreProblem.
    """
    begun, table = time.monotonic(), cache_table(scenario)
    partitions = range(scenarios()[scenario].partitions)
    for partition in partitions:
        table.drop(partition)
    while table.level() != set(partitions):
        feed = _feed(bus, scenario, table)
        with suppress(Displaced):  # the keeper was faster: continue from its position
            while not feed.ready():
                feed.step()
        feed.close()
    return Rebuilt(table.count(partitions), time.monotonic() - begun)


def _feed(bus: Bus, scenario: str, table: RedisTable) -> TableFeed:
    return TableFeed(bus, topics().states(scenario), table, transformation_of(scenario))


# ---- ways ----------------------------------------------------------------------------------------
# The ways to query a scenario's assets in this process, by name.

Via = Literal["global", "owner", "cache", "database"]
VIAS: tuple[Via, ...] = get_args(Via)
MOST = 1_000
"""A cache size above the number of scenarios in any file."""
NO_SERVERS = (
    "No store server is configured: set TALLYBOARD_STORES, or, for servers that run elsewhere, "
    "their TALLYBOARD_STORES_SECRET."
)


@lru_cache(maxsize=MOST)
def global_store(scenario: str) -> GlobalStore:
    """Return this process's copy of a scenario; it only becomes ready after `start`.

    Raises NotRun if the stores do not keep the scenario.
    """
    check_stored(scenario)
    instance = f"{socket.gethostname()}:{settings.TALLYBOARD.http_port}"
    topic = gateway().topics.states(scenario)
    return GlobalStore(gateway().bus, topic, instance, transformation_of(scenario))


def owner_store(scenario: str) -> OwnerStore:
    """Return a scenario's store servers as one store; whether any of them runs shows when asked.

    Raises NotRun if the stores do not keep the scenario, or no server is configured: then nothing
    is asked, not even Kafka.
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
    """Return a scenario's cache in Redis. Raises NotRun if there is none."""
    check_stored(scenario)
    if settings.TALLYBOARD.redis_url is None:
        raise NotRun("No cache is configured: set TALLYBOARD_REDIS_URL.")
    topic, partitions = gateway().topics.states(scenario), scenarios()[scenario].partitions
    return CacheStore(cache_table(scenario), partitions, gateway().bus, topic)


def database_store(scenario: str) -> DatabaseStore:
    """Return a scenario's assets in the database, which holds every scenario."""
    return DatabaseStore(transformation_of(scenario))


def start() -> None:
    """Start to keep this process's copies up to date."""
    for scenario in stored_scenarios():
        global_store(scenario).start()


def stop() -> None:
    """Stop updating the copies."""
    for scenario in stored_scenarios():
        global_store(scenario).stop()


def missing_copies() -> list[str]:
    """Return which of this process's copies lack part of their topics, and why, in words."""
    whys = ((scenario, global_store(scenario).behind()) for scenario in stored_scenarios())
    return [f"copy of {scenario}: {why}" for scenario, why in whys if why]


def store(via: Via, scenario: str) -> AssetStore:
    """Return the store for this way; one that explains itself if it is not run."""
    try:
        return _STORES[via](scenario)
    except NotRun as problem:
        return NoStore(str(problem))


def forget() -> None:
    """Clear the cached stores, so that they are created again, for example for another bus."""
    for made in (global_store, _servers, cache_store, ends_of):
        made.cache_clear()


_STORES: dict[Via, Callable[[str], AssetStore]] = {
    "global": global_store,
    "owner": owner_store,
    "cache": cache_store,
    "database": database_store,
}
