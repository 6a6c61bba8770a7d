"""Parts of the stores: the fence, the ring of standbys, tables on disk."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bus.base import BusError, GroupMember, TopicSpec
from bus.follower import Follower
from bus.memory import MemoryBus
from config.settings import Settings
from ops.checks import UpProblem, check_files
from ops.processes import processes
from stores.base import (
    BEHIND_MS,
    AssetRecord,
    AssetTable,
    Change,
    Order,
    Unreachable,
    current,
    now_ms,
    oldest,
)
from stores.directory import Directory, Server, standby_for
from stores.disk_table import STALE_S, DiskTable
from stores.feed import TableFeed
from stores.global_store import GlobalStore
from stores.memory_table import MemoryTable
from stores.ownership import MARGIN_S, Ownership
from stores.proofs import announcement
from stores.transformation import ORDERS, transformation_of
from support.kafka.order_records import (
    NOW,
    OrderLog,
    doubted_record,
    lives,
    purge_record,
    state_record,
)
from support.run.stack import wait_until
from wire.sink import encode_state, state_of_json

SECRET = "a secret of the tests alone"


def change(name: str, offset: int, active: bool = True) -> Change:
    order = Order(name, "picking", "dock-1", None, active, f"1.{offset}.0", NOW)
    return Change(name, f"{offset:040d}", NOW, order)


# ---- the directory ------------------------------------------------------------------------------


class YoungBroker(MemoryBus):
    """A broker whose group has no coordinator yet. refusals: how often it says so."""

    def __init__(self, refusals: int) -> None:
        super().__init__(clock=lambda: NOW)
        self.refusals = refusals

    def members(self, group: str, timeout_s: float = 5) -> list[GroupMember]:
        if self.refusals:
            self.refusals -= 1
            raise BusError("NOT_COORDINATOR")
        name = announcement(SECRET, group, "127.0.0.1:9001", NOW)
        return [GroupMember(name, (("orders.states", 0),))]


def test_a_server_that_starts_waits_for_the_coordinator_of_its_group():
    directory = Directory(YoungBroker(refusals=2), "orders.stores", "orders.states", SECRET)
    directory.wait(30)
    assert directory.owners() == {0: "127.0.0.1:9001"}


def test_without_a_coordinator_it_waits_no_longer_than_it_was_told():
    directory = Directory(YoungBroker(refusals=10_000), "orders.stores", "orders.states", SECRET)
    with pytest.raises(Unreachable, match="NOT_COORDINATOR"):
        directory.wait(0)


# ---- the fence ----------------------------------------------------------------------------------


def test_nothing_is_owned_before_the_group_has_confirmed():
    now = [100.0]
    ownership = Ownership(6, lambda: now[0])
    ownership.take([0, 1])
    assert ownership.owned() == frozenset()
    ownership.confirm(asked_at=100.0)
    assert ownership.owned() == {0, 1}


def test_a_lease_ends_before_the_session_counted_from_the_question():
    now = [100.0]
    ownership = Ownership(6, lambda: now[0])
    ownership.take([0])
    now[0] = 103.0  # so long the answer took
    ownership.confirm(asked_at=100.0)
    now[0] = 100 + 6 - MARGIN_S - 0.01
    assert ownership.owned() == {0}
    now[0] += 0.02
    assert ownership.owned() == frozenset()
    assert ownership.assigned() == {0}


def test_an_older_confirmation_does_not_shorten_a_lease():
    ownership = Ownership(6, lambda: 104.5)
    ownership.take([0])
    ownership.confirm(asked_at=100.0)
    ownership.confirm(asked_at=98.0)
    assert ownership.owned() == {0}
    ownership.give_up([0])
    assert ownership.owned() == frozenset()


# ---- standbys -----------------------------------------------------------------------------------


def test_each_server_keeps_the_one_before_it_warm():
    servers = [Server(f"h:{at}", frozenset({at})) for at in range(3)]
    assert [standby_for(f"h:{at}", servers, 1) for at in range(3)] == [{2}, {0}, {1}]
    assert standby_for("h:0", servers, 2) == {1, 2}
    assert standby_for("h:0", servers, 5) == {1, 2}
    assert standby_for("h:0", servers[:1], 1) == frozenset()
    assert standby_for("elsewhere:1", servers, 1) == frozenset()


# ---- tables -------------------------------------------------------------------------------------


def test_a_file_goes_on_where_it_was(tmp_path: Path):
    with closing(DiskTable(tmp_path, ORDERS)) as table:
        table.begin(2, 5)
        table.apply(2, [change("A", 1), change("A", 3), change("B", 2, active=False)], 5, 9)
    with closing(DiskTable(tmp_path, ORDERS)) as again:
        assert again.positions() == {2: 9}
        assert again.get(2, "A") == change("A", 3).asset
        assert again.count([2]) == 1
        assert again.level() == set(), "what has come since is not known yet"
        again.begin(2, 0)
        assert again.positions() == {2: 9}


def aged(file: Path) -> None:
    for part in file.parent.glob(f"{file.name}*"):
        os.utime(part, (part.stat().st_mtime - STALE_S - 60,) * 2)


def of_another_format(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 99")


def no_database(file: Path) -> None:
    for part in file.parent.glob(f"{file.name}-*"):
        part.unlink()
    file.write_bytes(b"not a database at all, whatever its name says")


@pytest.mark.parametrize("spoil", [aged, of_another_format, no_database])
def test_a_file_that_cannot_be_gone_on_with_is_read_anew(tmp_path: Path, spoil):
    with closing(DiskTable(tmp_path, ORDERS)) as table:
        table.begin(0, 0)
        table.apply(0, [change("A", 1)], 0, 1)
    spoil(tmp_path / "orders-0.sqlite3")
    with closing(DiskTable(tmp_path, ORDERS)) as again:
        assert again.positions() == {}
        assert again.get(0, "A") is None


@pytest.fixture(params=["memory", "disk"])
def table_of(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], AssetTable]:
    """Makes the table of a scenario."""
    if request.param == "memory":
        return lambda _scenario: MemoryTable()
    return lambda scenario: DiskTable(tmp_path, transformation_of(scenario))


@pytest.fixture
def table(table_of: Callable[[str], AssetTable]) -> AssetTable:
    return table_of("orders")


def test_a_purged_order_is_remembered_for_a_while(table: AssetTable):
    table.begin(0, 0)
    table.apply(0, [change("A", 5), Change("A", f"{6:040d}", NOW, None)], 0, 2)
    table.apply(0, [change("A", 5)], 2, 3)
    assert table.get(0, "A") is None
    table.prune(NOW)
    table.apply(0, [change("A", 5)], 3, 4)
    assert table.get(0, "A") is None
    table.prune(NOW + 1)
    table.apply(0, [change("A", 5)], 4, 5)
    assert table.get(0, "A") is not None


def test_a_partition_is_dropped_alone(table: AssetTable):
    for partition in (0, 1):
        table.begin(partition, 0)
        table.apply(partition, [change(f"A-{partition}", 1)], 0, 7)
        table.set_level(partition, True)
    table.drop(0)
    assert table.positions().get(0, 0) == 0
    assert table.level() == {1}
    assert table.get(0, "A-0") is None
    assert table.count([0, 1]) == 1


# ---- the feed -----------------------------------------------------------------------------------


def memory_log(partitions: int = 1) -> tuple[MemoryBus, OrderLog]:
    bus = MemoryBus(lambda: NOW)
    bus.ensure_topics([TopicSpec("orders.states", partitions, {})])
    return bus, OrderLog(bus)


def level(bus: MemoryBus, table: AssetTable) -> TableFeed:
    feed = TableFeed(bus, "orders.states", table, ORDERS)
    while not feed.ready():
        feed.step()
    return feed


def test_what_is_no_state_is_counted_and_passed_over(table: AssetTable):
    bus, log = memory_log()
    log.append(state_record("A-1", "picking", 1))
    for value in (b"not json", b"{}", b"\xff"):
        bus.producer().send_and_wait("orders.states", b"A-2", value)
    log.append(purge_record("A-3", 2))
    feed = level(bus, table)
    assert feed.unreadable == 3
    assert feed.lag() == 0
    assert table.count([0]) == 1


def test_a_log_that_was_cut_off_is_read_from_where_it_begins(table: AssetTable):
    bus, log = memory_log()
    for record in lives(6):
        log.append(record)
    level(bus, table).close()
    count = table.count([0])
    bus._topics["orders.states"][0].records.clear()  # as a topic that was made anew
    log.append(state_record("A-1", "picking", 1))
    feed = level(bus, table)
    assert count == 3
    assert table.count([0]) == 1
    assert feed.table.positions() == {0: 1}


def test_a_topic_that_was_created_again_is_read_from_its_beginning(
    table_of: Callable[[str], AssetTable],
):
    bus, log = memory_log()
    for record in lives(6):
        log.append(record)
    level(bus, table_of("orders")).close()
    bus.delete("orders.states")
    bus.ensure_topics([TopicSpec("orders.states", 1, {})])
    log.append(state_record("A-new", "picking", 1))
    for record in lives(9):  # longer than the old one
        log.append(record)
    table = table_of("orders")
    level(bus, table)
    assert table.get(0, "A-new") is not None
    assert table.log() == bus.topic_ids(["orders.states"])["orders.states"]


def test_a_table_that_has_lost_a_partition_is_filled_again_though_nothing_more_arrives(
    table: AssetTable,
):
    bus, log = memory_log()
    log.append(state_record("A-1", "picking", 1))
    feed = Follower(TableFeed(bus, "orders.states", table, ORDERS))
    feed.start()
    try:
        wait_until(lambda: table.as_of() and table.level() == {0}, 20, "not filled")
        table.drop(0)
        wait_until(lambda: table.level() == {0}, 20, "not filled again")
        assert table.count([0]) == 1
    finally:
        feed.stop()


def test_a_copy_never_shows_a_partition_that_it_has_not_read():
    bus, log = memory_log(4)
    log.append(state_record("A-1", "picking", 1))
    store = GlobalStore(bus, "orders.states", "here:1", ORDERS)
    assert not store.health().ready
    assert store.health().detail
    while not store.feed.ready():
        store.feed.step()
    assert store.get("A-1").asset is not None


def test_a_copy_says_why_it_does_not_read_and_goes_on():
    bus = MemoryBus(lambda: NOW)
    store = GlobalStore(bus, "orders.states", "here:1", ORDERS)
    store.start()
    try:
        wait_until(lambda: "no topic orders.states" in store.health().detail, 10, "it says nothing")
        bus.ensure_topics([TopicSpec("orders.states", 1, {})])
        wait_until(lambda: store.health() == ("here:1", True, 0, 0, ""), 10, "it does not go on")
    finally:
        store.stop()


# ---- behind -------------------------------------------------------------------------------------


class StillBus(MemoryBus):
    """A bus that says nothing of the ends of its logs while it stands still."""

    stands_still = False

    def offsets(self, topics: Iterable[str], timeout_s: float = 10) -> Any:
        if self.stands_still:
            raise BusError("it stands still")
        return super().offsets(topics, timeout_s)


def test_a_copy_that_has_not_seen_the_end_of_its_log_for_a_while_says_since_when(
    monkeypatch: pytest.MonkeyPatch,
):
    bus = StillBus(lambda: NOW)
    bus.ensure_topics([TopicSpec("orders.states", 1, {})])
    OrderLog(bus).append(state_record("A-1", "picking", 1))
    store = GlobalStore(bus, "orders.states", "here:1", ORDERS)
    begun = now_ms()
    while not store.feed.ready():
        store.feed.step()
    one = store.get("A-1")
    assert one.complete
    assert one.as_of is not None
    assert begun <= one.as_of <= now_ms()
    bus.stands_still = True
    OrderLog(bus).append(state_record("A-1", "shipped", 2))
    later = now_ms() + BEHIND_MS + 1_000
    monkeypatch.setattr("stores.base.now_ms", lambda: later)
    for answer in (store.get("A-1"), store.all(), store.get("nobody's")):
        assert (answer.complete, answer.as_of) == (False, one.as_of)


def test_a_copy_that_reads_on_is_not_behind(table: AssetTable):
    bus, log = memory_log(2)
    feed = level(bus, table)
    before = table.as_of()
    log.append(state_record("A-1", "picking", 1))
    wait_until(lambda: [feed.step(), table.as_of()[0] > before[0]][1], 20, "no later time")
    assert table.as_of().keys() == {0, 1}
    assert table.count([0, 1]) == 1


def test_a_copy_that_always_runs_a_little_behind_knows_by_how_much(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("stores.feed.BATCH", 1)
    monkeypatch.setattr("stores.feed.LOOK_S", 0.0)
    bus, log = memory_log()
    for offset in range(4):
        log.append(state_record("A-1", "picking", offset))
    feed = TableFeed(bus, "orders.states", MemoryTable(), ORDERS)
    times = set()
    for offset in range(4, 40):
        feed.step()
        log.append(state_record("A-1", "picking", offset))
        times |= set(feed.table.as_of().values())
        assert feed.lag() == 3 or offset < 6
        time.sleep(0.002)  # so that two looks differ in their time
    assert len(times) > 5


def test_a_partition_of_which_nothing_is_known_leaves_the_whole_without_a_time():
    assert oldest({0: 7, 1: 5}, [0, 1]) == 5
    assert oldest({0: 7}, [0, 1]) is None
    assert oldest({0: 7}, []) is None
    assert not current(None)


# ---- other scenarios ----------------------------------------------------------------------------


def test_the_record_of_any_other_scenario_is_kept_whole(table_of: Callable[[str], AssetTable]):
    bus = MemoryBus(lambda: NOW)
    bus.ensure_topics([TopicSpec("attack.states", 1, {})])
    doubted = doubted_record("shop", 7)
    OrderLog(bus, "attack.states").append(doubted)
    table = table_of("attack")
    feed = TableFeed(bus, "attack.states", table, transformation_of("attack"))
    while not feed.ready():
        feed.step()
    kept = table.get(0, "shop")
    assert isinstance(kept, AssetRecord)
    assert (kept.name, kept.active, kept.version) == ("shop", True, "1.7.0")
    assert bytes(kept.record) == encode_state(doubted)
    assert state_of_json(bytes(kept.record)) == doubted
    assert table.active([0], "", 10) == [kept]


def test_files_of_two_scenarios_share_a_folder(tmp_path: Path):
    for scenario, position in (("orders", 3), ("orders-2", 5)):
        with closing(DiskTable(tmp_path, transformation_of(scenario))) as table:
            table.begin(0, position)
    with closing(DiskTable(tmp_path, ORDERS)) as table:
        assert table.positions() == {0: 3}


# ---- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (None, ["orders", "attack"]),
        ("attack , clients", ["attack", "clients"]),
        ("all", ["attack", "clients", "orders"]),
        ("none", []),
    ],
)
def test_the_stores_keep_the_scenarios_that_are_named(given: str | None, stored: list[str]):
    settings = Settings(_env_file=None, stores_scenarios=given)  # type: ignore[call-arg]
    assert settings.stored(["attack", "clients", "orders"]) == stored


@pytest.mark.parametrize("given", ["orders,atack", "", "orders,"])
def test_an_unknown_scenario_is_refused_with_those_that_are_known(given: str):
    settings = Settings(_env_file=None, stores_scenarios=given)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match=r"TALLYBOARD_STORES_SCENARIOS.*attack, orders") as refused:
        settings.stored(["attack", "orders"])
    assert repr(given.rsplit(",", maxsplit=1)[-1]) in str(refused.value)


def test_an_unknown_scenario_is_refused_before_anything_starts():
    settings = Settings(_env_file=None, stores_scenarios="orders,atack")  # type: ignore[call-arg]
    with pytest.raises(UpProblem, match="TALLYBOARD_STORES_SCENARIOS names 'atack'"):
        check_files(settings)


def test_as_many_servers_are_supervised_as_are_asked_for():
    settings = Settings(_env_file=None, stores=2, stores_keep="memory", http_port=9000)  # type: ignore[call-arg]
    commands = {each.name: each.command for each in processes(settings) if "store" in each.name}
    assert commands.keys() == {"store-1", "store-2"}
    assert commands["store-2"][2:] == ("stores", "--store", "memory", "--port", "9011")
    none = Settings(_env_file=None)  # type: ignore[call-arg]
    assert not [each for each in processes(none) if "store" in each.name]
