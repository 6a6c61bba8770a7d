"""Stores of a million orders: `python -m bench.stores`.

- restore: from an empty table until it is level with the log, and once more after a restart.
- get: one order by name; list: the first hundred active orders; count: how many are active.

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
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

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
from stores.base import OrderStore, Table
from stores.cache_store import CacheStore
from stores.directory import Directory
from stores.disk_table import DiskTable
from stores.feed import Feed
from stores.global_store import GlobalStore
from stores.owner_store import OwnerStore
from stores.redis_table import RedisTable
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
Way = Callable[[Product, int], dict[str, float]]


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
    found: dict[str, dict[str, float]] = {}
    with product(SCENARIOS, Engine("kernel")) as copy:
        took = fill(copy.bus, copy.topics.states(SCENARIO), orders(options.orders), options.orders)
        say(f"stores: {options.orders:,} orders written in {took:.0f} s")
        for part in options.parts:
            found[part] = WAYS[part](copy, options.orders)
            say(f"  {part}: {found[part]}")
    return rows_of(options.orders, found), [found]


def rows_of(number: int, found: dict[str, dict[str, float]]) -> list[Row]:
    """Return a row for each figure of each store."""
    return [
        Row(
            f"{part}: {what}",
            what.rpartition(", ")[2],
            {"": figure},
            command=module_command("stores", f"--orders={number}", f"--parts={part}"),
        )
        for part, figures in found.items()
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


def global_way(copy: Product, number: int) -> dict[str, float]:
    """Restore and ask a copy in this process."""
    before = resident_mb_of_this()
    store = GlobalStore(copy.bus, copy.topics.states(SCENARIO), "here:1")
    restored = level_s(store.feed)
    held = {"memory, MB": resident_mb_of_this() - before}
    return {"restore, s": restored, **held, **asked(store, number)}


def disk_way(copy: Product, number: int) -> dict[str, float]:
    """Restore and ask files."""
    return table_way(copy, number, lambda: DiskTable(copy.folder / "stores"))


def redis_way(copy: Product, number: int) -> dict[str, float]:
    """Restore and ask a Redis that one server keeps its share in."""
    with redis_server(copy.folder) as url:
        return table_way(copy, number, lambda: RedisTable(url, "server.", 4))


def table_way(copy: Product, number: int, opened: Callable[[], Table]) -> dict[str, float]:
    """Restore a table from nothing and again from what it holds then; ask it in this process."""
    topic, seconds = copy.topics.states(SCENARIO), []
    for _ in range(2):
        with closing(opened()) as table:
            seconds.append(level_s(Feed(copy.bus, topic, table)))
    store = GlobalStore(copy.bus, topic, "here:1")
    store.feed = Feed(copy.bus, topic, opened())
    level_s(store.feed)
    figures = asked(store, number)
    store.feed.table.close()
    return {"restore, s": seconds[0], "restart, s": seconds[1], **figures}


def owner_way(copy: Product, number: int) -> dict[str, float]:
    """Restore a store server, and ask it over HTTP."""
    port, begun = free_port(), time.monotonic()
    copy.start("store", "-m", "stores", "--store", "memory", "--port", str(port))
    topic = copy.topics.states(SCENARIO)
    kept = copy.folder / "stores-secret"
    copy.wait(kept.exists, 30, "the store server")
    secret = kept.read_text()
    directory = Directory(copy.bus, copy.topics.store_group(SCENARIO), topic, secret)
    store = OwnerStore(directory, secret)
    copy.wait(lambda: store.health().ready, 180, "the store server to be level")
    restored = time.monotonic() - begun
    held = {"memory, MB": resident_mb(copy.pid("store"))}
    figures = {"restore, s": restored, **held, **asked(store, number)}
    copy.stop("store")
    return figures


def cache_way(copy: Product, number: int) -> dict[str, float]:
    """Rebuild the cache, and ask it."""
    topic = copy.topics.states(SCENARIO)
    with redis_server(copy.folder) as url, closing(RedisTable(url, "cache.", 4)) as table:
        restored = level_s(Feed(copy.bus, topic, table))
        return {"restore, s": restored, **asked(CacheStore(table, 4, copy.bus, topic), number)}


def database_way(copy: Product, number: int) -> dict[str, float]:
    """Materialise the log into an empty database, and ask that."""
    scenarios: dict[str, Scenario] = copy.scenarios
    worker = prepare(copy.folder / "web", copy.bus, scenarios)  # type: ignore[arg-type]
    from dashboard.core.kafka_gateway import use
    from dashboard.orders.database_store import DatabaseStore

    seconds, _ = drain(worker)
    with use(copy.bus, copy.topics):
        return {"restore, s": seconds, **asked(DatabaseStore(), number)}


WAYS: dict[str, Way] = {
    "global": global_way,
    "disk": disk_way,
    "redis": redis_way,
    "owner": owner_way,
    "cache": cache_way,
    "database": database_way,
}


# ---- figures ------------------------------------------------------------------------------


def level_s(feed: Feed) -> float:
    """Return how long a feed took to be level with the log, s."""
    begun = time.monotonic()
    while not feed.ready():
        feed.step()
    feed.close()
    return time.monotonic() - begun


def asked(store: OrderStore, number: int) -> dict[str, float]:
    """Return how long its answers take, ms. Raises BenchProblem for a wrong one."""
    chance = Random(1)
    names = [f"order-{chance.randrange(number):08d}" for _ in range(1000)]
    for name in names[:20]:
        one = store.get(name)
        if one.order is None or one.order.location != "bay 7":
            raise BenchProblem(f"{name}: {one}")
    active = number - -(-number // ONE_IN)
    if store.count() != active:
        raise BenchProblem(f"{store.count():,} orders are active of {active:,}")
    gets = sorted(timed_ms(partial(store.get, name)) for name in names)
    lists = sorted(timed_ms(partial(store.all, name, 100)) for name in names[:30])
    counts = sorted(timed_ms(store.count) for _ in range(30))
    return {
        "get p50, ms": percentile(gets, 50),
        "get p99, ms": percentile(gets, 99),
        "list of 100 p50, ms": percentile(lists, 50),
        "count p50, ms": percentile(counts, 50),
    }


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
