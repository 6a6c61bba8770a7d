"""Stores of a million orders: `python -m bench.stores`.

- restore: from an empty table until it is level with the log, and once more after a restart.
- get: one order by name; list: the first hundred active orders; count: how many are active. Once
  all are restored they are asked by turns, the same question each.

The log is filled first, in four partitions. global: a copy in the memory of the process that asks;
disk, redis: the other tables of a store server, asked in its process; owner: a store server that
keeps all in memory, asked over HTTP; cache: Redis, asked from outside; database: SQLite, as the
materialiser writes it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from operator import methodcaller
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from bench.command import Measured, module_command, parser_of, run
from bench.figures import percentile
from bench.load import Keyed, fill
from bench.materialise import drain, prepare
from bench.results import Row
from bench.scale import resident_mb
from bench.stack import BenchProblem, Engine, Product, product, say
from domain.records import Cause, StateRecord, Vote
from domain.scenario import Scenario
from domain.version import Version
from ops.ports import free_port
from stores.base import AssetStore, AssetTable, Order
from stores.cache_store import CacheStore
from stores.directory import Directory
from stores.disk_table import DiskTable
from stores.feed import TableFeed
from stores.global_store import GlobalStore
from stores.owner_store import OwnerStore
from stores.redis_table import RedisTable
from stores.transformation import ORDERS
from wire.sink import encode_state

SCENARIO = "orders"
START = 1_790_000_000_000
ONE_IN = 10
"""One order in so many is delivered."""
PARTS = ("global", "disk", "redis", "owner", "cache", "database")
SCENARIOS = """
[orders]
title = "Orders"
noun = "order"
partitions = 4
vocabulary = "open"
severity = "none"
states = [{ name = "picking", label = "Picking", colour = "blue", icon = "box" }]
rule = { kind = "latest" }
"""


class Restored(NamedTuple):
    """A store that is level with the log, and how that went, by figure."""

    store: AssetStore
    figures: dict[str, float]


Way = Callable[[Product], AbstractContextManager[Restored]]


def main() -> None:
    """Measure as the options say."""
    parser = parser_of(__doc__, engines=False)
    parser.add_argument("--orders", type=int, default=1_000_000, help="in the log (1,000,000)")
    parser.add_argument("--parts", type=_parts, default=PARTS, help=f"{','.join(PARTS)} (all)")
    run("stores", parser, measure)


def _parts(text: str) -> tuple[str, ...]:
    parts = tuple(text.split(","))
    if not set(parts) <= set(PARTS):
        raise argparse.ArgumentTypeError(f"expected some of {','.join(PARTS)}")
    return parts


def measure(options: argparse.Namespace) -> Measured:
    """Fill the log, and restore and ask each store."""
    if {"redis", "cache"} & set(options.parts) and shutil.which("redis-server") is None:
        raise BenchProblem("redis-server is not installed: leave redis and cache out of --parts")
    by_part: dict[str, dict[str, float]] = {}
    with product(SCENARIOS, Engine("kernel")) as copy, ExitStack() as stack:
        took = fill(copy.bus, copy.topics.states(SCENARIO), orders(options.orders), options.orders)
        say(f"stores: {options.orders:,} orders written in {took:.0f} s")
        stores: dict[str, AssetStore] = {}
        for part in options.parts:
            stores[part], by_part[part] = stack.enter_context(WAYS[part](copy))
            say(f"  {part}: {by_part[part]}")
        for part, figures in asked(stores, options.orders).items():
            by_part[part] |= figures
            say(f"  {part}: {figures}")
    return rows_of(options, by_part), [by_part]


def rows_of(options: argparse.Namespace, by_part: dict[str, dict[str, float]]) -> list[Row]:
    """Return a row for each figure of each store."""
    return [
        Row(
            f"{part}: {what}",
            what.rpartition(", ")[2],
            {"": figure},
            command=module_command("stores", f"--orders={options.orders}", f"--parts={part}"),
        )
        for part, figures in by_part.items()
        for what, figure in figures.items()
    ]


def orders(number: int) -> Iterator[Keyed]:
    """Yield the record of each order. Encoded twice in all: names and offsets are put in."""
    picking, delivered = (_template(state) for state in ("picking", "delivered"))
    for at in range(number):
        name = b"order-%08d" % at
        template = picking if at % ONE_IN else delivered
        yield name, template.replace(b"NAME", name).replace(b"1.1.0", b"1.%d.0" % at)


def _template(state: str) -> bytes:
    votes = (
        Vote("desk-1", "received", START, START, 0, START + 1, 1, '{"location": "desk"}'),
        Vote("dock-3", state, START, START, 1, START + 1, 1, '{"location": "bay 7"}'),
    )
    cause = Cause("report", 0, 1, START, agent="dock-3")
    return encode_state(
        StateRecord("NAME", state, None, START, False, Version(1, 1, 0), cause, votes)
    )


# ---- ways ---------------------------------------------------------------------------------


@contextmanager
def global_way(copy: Product) -> Iterator[Restored]:
    """Restore a copy in this process."""
    before = resident_mb_of_this()
    store = GlobalStore(copy.bus, copy.topics.states(SCENARIO), "here:1", ORDERS)
    restored = level_s(store.feed)
    held = {"memory, MB": resident_mb_of_this() - before}
    yield Restored(store, {"restore, s": restored, **held})


@contextmanager
def disk_way(copy: Product) -> Iterator[Restored]:
    """Restore files."""
    with table_way(copy, lambda: DiskTable(copy.folder / "stores", ORDERS)) as restored:
        yield restored


@contextmanager
def redis_way(copy: Product) -> Iterator[Restored]:
    """Restore a Redis that one server keeps its share in."""
    with (
        redis_server(copy.folder) as url,
        table_way(copy, lambda: RedisTable(url, "server.", 4, ORDERS)) as restored,
    ):
        yield restored


@contextmanager
def table_way(copy: Product, opened: Callable[[], AssetTable]) -> Iterator[Restored]:
    """Restore a table from nothing and again from what it holds then; it is asked in this
    process."""
    topic, seconds = copy.topics.states(SCENARIO), []
    for _ in range(2):
        with closing(opened()) as table:
            seconds.append(level_s(TableFeed(copy.bus, topic, table, ORDERS)))
    store = GlobalStore(copy.bus, topic, "here:1", ORDERS)
    with closing(opened()) as table:
        store.feed = TableFeed(copy.bus, topic, table, ORDERS)
        level_s(store.feed)
        yield Restored(store, {"restore, s": seconds[0], "restart, s": seconds[1]})


@contextmanager
def owner_way(copy: Product) -> Iterator[Restored]:
    """Restore a store server, which is asked over HTTP."""
    port, begun = free_port(), time.monotonic()
    copy.start("store", "-m", "stores", "--store", "memory", "--port", str(port))
    topic = copy.topics.states(SCENARIO)
    kept = copy.folder / "stores-secret"
    copy.wait(kept.exists, 30, "the store server")
    secret = kept.read_text()
    directory = Directory(copy.bus, copy.topics.store_group(SCENARIO), topic, secret)
    store = OwnerStore(directory, secret, ORDERS)
    copy.wait(lambda: store.health().ready, 180, "the store server to be level")
    restored = time.monotonic() - begun
    held = {"memory, MB": resident_mb(copy.pid("store"))}
    yield Restored(store, {"restore, s": restored, **held})
    copy.stop("store")


@contextmanager
def cache_way(copy: Product) -> Iterator[Restored]:
    """Rebuild the cache."""
    topic = copy.topics.states(SCENARIO)
    with redis_server(copy.folder) as url, closing(RedisTable(url, "cache.", 4, ORDERS)) as table:
        restored = level_s(TableFeed(copy.bus, topic, table, ORDERS))
        yield Restored(CacheStore(table, 4, copy.bus, topic), {"restore, s": restored})


@contextmanager
def database_way(copy: Product) -> Iterator[Restored]:
    """Materialise the log into an empty database."""
    scenarios: dict[str, Scenario] = copy.scenarios
    worker = prepare(copy.folder / "web", copy.bus, scenarios)  # type: ignore[arg-type]
    from dashboard.core.common.kafka import use
    from dashboard.core.states.stores import DatabaseStore

    seconds, _ = drain(worker)
    with use(copy.bus, copy.topics):
        yield Restored(DatabaseStore(ORDERS), {"restore, s": seconds})


WAYS: dict[str, Way] = {
    "global": global_way,
    "disk": disk_way,
    "redis": redis_way,
    "owner": owner_way,
    "cache": cache_way,
    "database": database_way,
}


# ---- figures ------------------------------------------------------------------------------


def level_s(feed: TableFeed) -> float:
    """Return how long a feed took to be level with the log, s."""
    begun = time.monotonic()
    while not feed.ready():
        feed.step()
    feed.close()
    return time.monotonic() - begun


def asked(stores: Mapping[str, AssetStore], number: int) -> dict[str, dict[str, float]]:
    """Return how long each store's answers take, ms. Raises BenchProblem for a wrong one.

    They are asked by turns, so that whatever else the machine does holds up each alike.
    """
    chance = Random(1)
    names = [f"order-{chance.randrange(number):08d}" for _ in range(1000)]
    for store in stores.values():
        check(store, names[:20], number)
    gets = by_turns(stores, [methodcaller("get", name) for name in names])
    lists = by_turns(stores, [methodcaller("all", name, 100) for name in names[:30]])
    counts = by_turns(stores, [methodcaller("count")] * 30)
    return {
        part: {
            "get p50, ms": percentile(gets[part], 50),
            "get p99, ms": percentile(gets[part], 99),
            "list of 100 p50, ms": percentile(lists[part], 50),
            "count p50, ms": percentile(counts[part], 50),
        }
        for part in stores
    }


def check(store: AssetStore, names: Sequence[str], number: int) -> None:
    """Raise BenchProblem unless a store has these orders, and counts those that are active."""
    for name in names:
        one = store.get(name)
        if not isinstance(one.asset, Order) or one.asset.location != "bay 7":
            raise BenchProblem(f"{name}: {one}")
    active = number - -(-number // ONE_IN)
    if store.count() != active:
        raise BenchProblem(f"{store.count():,} orders are active of {active:,}")


def by_turns(
    stores: Mapping[str, AssetStore], questions: Sequence[Callable[[AssetStore], Any]]
) -> dict[str, list[float]]:
    """Return how long each store took for each question, ms, sorted."""
    took: dict[str, list[float]] = {part: [] for part in stores}
    for question in questions:
        for part, store in stores.items():
            took[part].append(timed_ms(partial(question, store)))
    return {part: sorted(times) for part, times in took.items()}


def timed_ms(ask: Callable[[], Any]) -> float:
    """Return how long an answer took, ms."""
    begun = time.perf_counter()
    ask()
    return (time.perf_counter() - begun) * 1000


def resident_mb_of_this() -> float:
    """Return this process's resident memory, MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Yield the URL of an empty Redis, which is gone afterwards."""
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    server = subprocess.Popen([*command, "--dir", str(folder)], stdout=subprocess.DEVNULL)
    ping = ["redis-cli", "-p", str(port), "ping"]
    end = time.monotonic() + 10
    while subprocess.call(ping, stdout=subprocess.DEVNULL) != 0:
        if time.monotonic() > end:
            raise BenchProblem("redis-server does not answer")
    try:
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait(20)


if __name__ == "__main__":
    main()
