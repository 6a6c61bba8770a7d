"""Every way to ask for orders keeps one contract, on a real broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bus.base import TopicSpec
from bus.follower import Follower
from bus.kafka import KafkaBus
from dashboard.core.common.kafka import gateway, use
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.core.states.stores import DatabaseStore
from dashboard.serve.materialiser.worker import Materialiser
from stores.base import KeptAsset, NotReady, Order, Unreachable
from stores.cache_store import CacheStore
from stores.feed import TableFeed
from stores.global_store import GlobalStore
from stores.redis_table import RedisTable
from stores.transformation import ORDERS
from support.kafka.order_records import OrderLog, lives, state_record
from support.kafka.store_contract import *  # noqa: F403
from support.kafka.store_contract import Way
from support.kafka.store_servers import StoreServers, redis_server
from support.run.stack import wait_until
from wire.topics import Topics

pytestmark = pytest.mark.django_db


def own_topics(bus: KafkaBus) -> Topics:
    """The topics of orders under a prefix of their own."""
    topics = Topics(f"orders-{uuid.uuid4().hex[:8]}.")
    bus.ensure_topics(TopicSpec(*spec) for spec in topics.specs([scenarios()["orders"]]))
    return topics


@contextmanager
def global_way(bus: KafkaBus, _folder: Path) -> Iterator[Way]:
    topic = own_topics(bus).states("orders")
    store = GlobalStore(bus, topic, "here:1", ORDERS)
    store.start()
    yield Way(store, OrderLog(bus, topic), lambda: None)
    store.stop()


@contextmanager
def database_way(bus: KafkaBus, _folder: Path) -> Iterator[Way]:
    """The database; a materialiser of each test's own writes it, in the test's transaction."""
    topics = own_topics(bus)
    with use(bus, topics):
        yield Way(DatabaseStore(ORDERS), OrderLog(bus, topics.states("orders")), lambda: None)


def owner_way(keeps: str) -> Any:
    @contextmanager
    def way(bus: KafkaBus, folder: Path) -> Iterator[Way]:
        """Two servers that share the partitions."""
        topics = own_topics(bus)
        bootstrap = bus._options["bootstrap.servers"]
        with ExitStack() as stack:
            redis = stack.enter_context(redis_server(folder)) if keeps == "redis" else ""
            servers = StoreServers(bootstrap, topics.prefix, folder, keeps=keeps, redis=redis)
            stack.callback(servers.stop)
            servers.start()
            servers.start()
            servers.wait(2)
            yield Way(servers.store, OrderLog(bus, topics.states("orders")), lambda: None)

    return way


@contextmanager
def cache_way(bus: KafkaBus, folder: Path) -> Iterator[Way]:
    """A Redis, and what keeps it in step with the log."""
    topic = own_topics(bus).states("orders")
    with redis_server(folder) as url:
        table = RedisTable(url, "test.", 4, ORDERS)
        keeper = Follower(TableFeed(bus, topic, table, ORDERS))
        keeper.start()
        yield Way(CacheStore(table, 4, bus, topic), OrderLog(bus, topic), lambda: None)
        keeper.stop()


WAYS = {
    "global": global_way,
    "database": database_way,
    "owner-memory": owner_way("memory"),
    "owner-disk": owner_way("disk"),
    "owner-redis": owner_way("redis"),
    "cache": cache_way,
}


@pytest.fixture(scope="module", params=WAYS)
def run_way(
    request: pytest.FixtureRequest, bus: KafkaBus, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Way]:
    with WAYS[request.param](bus, tmp_path_factory.mktemp(request.param)) as way:
        yield way


@pytest.fixture
def way(run_way: Way, bus: KafkaBus) -> Iterator[Way]:
    if not isinstance(run_way.store, DatabaseStore):
        yield run_way
        return
    materialiser = Materialiser(bus, gateway().topics, {"orders": scenarios()["orders"]}, now_ms)
    yield replace(run_way, advance=lambda: written(materialiser))
    materialiser.close()


def written(materialiser: Materialiser) -> None:
    """Have the materialiser write what there is."""
    while materialiser.step():
        pass


# ---- a copy that is built again -----------------------------------------------------------------


def copy_of(bus: KafkaBus, topic: str) -> GlobalStore:
    """A copy that has read all there is."""
    store = GlobalStore(bus, topic, "anew", ORDERS)
    store.start()
    wait_until(lambda: store.health().ready, 20, "the copy is not ready")
    return store


def content(store: GlobalStore) -> dict[str, KeptAsset]:
    """Everything that a copy shows, delivered orders too."""
    names = [f"order-{number:04d}" for number in range(60)]
    return {name: order for name in names if (order := store.get(name).asset)}


def test_a_copy_built_again_equals_the_live_one(bus: KafkaBus):
    topic = own_topics(bus).states("orders")
    live, log = copy_of(bus, topic), OrderLog(bus, topic)
    for record in lives(60):
        log.append(record)
    wait_until(lambda: live.health().lag == 0 and live.count() == 32, 20, "not all is read")
    again = copy_of(bus, topic)
    assert content(again) == content(live)
    assert again.all(limit=1000).assets == live.all(limit=1000).assets
    # KAFKA-7663: what a restore past the processor would have put there is no order at all.
    assert all(isinstance(order, Order) for order in content(again).values())
    assert {order.station for order in content(again).values() if isinstance(order, Order)} == {
        "dock-1",
        "van-1",
    }
    for store in (live, again):
        store.stop()


def test_a_copy_answers_nothing_before_it_has_read_all(bus: KafkaBus):
    topic = own_topics(bus).states("orders")
    OrderLog(bus, topic).append(state_record("F-1", "picking", 1))
    store = GlobalStore(bus, topic, "here:1", ORDERS)
    for ask in (lambda: store.get("F-1"), store.all, store.count):
        with pytest.raises(NotReady, match="not read all orders"):
            ask()
    assert not store.health().ready
    store.start()
    wait_until(lambda: store.health().ready, 20, "the copy is not ready")
    assert store.count() == 1
    store.stop()


# ---- the cache ----------------------------------------------------------------------------------


def test_a_cache_that_lost_everything_is_filled_again(bus: KafkaBus, tmp_path: Path):
    topic = own_topics(bus).states("orders")
    log = OrderLog(bus, topic)
    for record in lives(60):
        log.append(record)
    with redis_server(tmp_path) as url, ExitStack() as stack:
        table, other = RedisTable(url, "test.", 4, ORDERS), RedisTable(url, "test.", 4, ORDERS)
        cache = CacheStore(table, 4, bus, topic)
        # Two who keep it, as two materialisers do: what one has read the other need not.
        for each in (table, other):
            keeper = Follower(TableFeed(bus, topic, each, ORDERS))
            keeper.start()
            stack.callback(keeper.stop)
        wait_until(lambda: cache.health().ready and cache.count() == 32, 20, "not filled")
        # Time for both to reach the end of the log, where nothing more arrives.
        filled = table.as_of()[0]
        wait_until(lambda: table.as_of()[0] > filled + 3_000, 20, "nobody reads on")
        before = cache.all(limit=1000)._replace(as_of=None)
        for partition in range(4):
            table.drop(partition)
        wait_until(lambda: cache.health().ready, 20, "not filled again")
        assert cache.all(limit=1000)._replace(as_of=None) == before


def test_a_cache_answers_nothing_while_it_is_rebuilt(bus: KafkaBus, tmp_path: Path):
    topic = own_topics(bus).states("orders")
    OrderLog(bus, topic).append(state_record("G-1", "picking", 1))
    with redis_server(tmp_path) as url:
        table = RedisTable(url, "test.", 4, ORDERS)
        cache = CacheStore(table, 4, bus, topic)
        for ask in (lambda: cache.get("G-1"), cache.all, cache.count):
            with pytest.raises(NotReady, match="rebuilt"):
                ask()
        feed = TableFeed(bus, topic, table, ORDERS)
        while not feed.ready():
            feed.step()
        assert cache.get("G-1").asset is not None
        feed.close()
    assert not cache.health().ready
    with pytest.raises(Unreachable, match="Redis does not answer"):
        cache.get("G-1")
