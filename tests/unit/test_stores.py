"""Parts of the stores: the fence, the ring of standbys, tables on disk."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from order_records import NOW, OrderLog, lives, purge_record, state_record

from bus.base import BusError, GroupMember, TopicSpec
from bus.memory import MemoryBus
from config.settings import Settings
from ops.processes import processes
from stores.base import Change, Order, Table, Unreachable
from stores.directory import Directory, Server, standby_for
from stores.disk_table import STALE_S, DiskTable
from stores.feed import Feed
from stores.global_store import GlobalStore
from stores.memory_table import MemoryTable
from stores.ownership import MARGIN_S, Ownership
from stores.proofs import announcement

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
    with closing(DiskTable(tmp_path)) as table:
        table.begin(2, 5)
        table.apply(2, [change("A", 1), change("A", 3), change("B", 2, active=False)], 5, 9)
    with closing(DiskTable(tmp_path)) as again:
        assert again.positions() == {2: 9}
        assert again.get(2, "A") == change("A", 3).order
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
    with closing(DiskTable(tmp_path)) as table:
        table.begin(0, 0)
        table.apply(0, [change("A", 1)], 0, 1)
    spoil(tmp_path / "orders-0.sqlite3")
    with closing(DiskTable(tmp_path)) as again:
        assert again.positions() == {}
        assert again.get(0, "A") is None


@pytest.fixture(params=["memory", "disk"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return MemoryTable() if request.param == "memory" else DiskTable(tmp_path)


def test_a_purged_order_is_remembered_for_a_while(table: Table):
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


def test_a_partition_is_dropped_alone(table: Table):
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


def level(bus: MemoryBus, table: Table) -> Feed:
    feed = Feed(bus, "orders.states", table)
    while not feed.ready():
        feed.step()
    return feed


def test_what_is_no_state_is_counted_and_passed_over(table: Table):
    bus, log = memory_log()
    log.append(state_record("A-1", "picking", 1))
    for value in (b"not json", b"{}", b"\xff"):
        bus.producer().send_and_wait("orders.states", b"A-2", value)
    log.append(purge_record("A-3", 2))
    feed = level(bus, table)
    assert feed.unreadable == 3
    assert feed.lag() == 0
    assert table.count([0]) == 1


def test_a_log_that_was_cut_off_is_read_from_where_it_begins(table: Table):
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


def test_a_copy_never_shows_a_partition_that_it_has_not_read():
    bus, log = memory_log(4)
    log.append(state_record("A-1", "picking", 1))
    store = GlobalStore(bus, "orders.states", "here:1")
    assert not store.health().ready
    assert store.health().detail
    while not store.feed.ready():
        store.feed.step()
    assert store.get("A-1").order is not None


def test_as_many_servers_are_supervised_as_are_asked_for():
    settings = Settings(_env_file=None, stores=2, stores_keep="memory", http_port=9000)  # type: ignore[call-arg]
    commands = {each.name: each.command for each in processes(settings) if "store" in each.name}
    assert commands.keys() == {"store-1", "store-2"}
    assert commands["store-2"][2:] == ("stores", "--store", "memory", "--port", "9011")
    none = Settings(_env_file=None)  # type: ignore[call-arg]
    assert not [each for each in processes(none) if "store" in each.name]
