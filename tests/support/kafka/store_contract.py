"""What every way to ask for orders keeps to. Test modules import these and bring a `way`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import pytest

from stores.base import AssetStore, Order, StoreProblem
from support.kafka.order_records import OrderLog, lives, purge_record, state_record
from support.run.stack import wait_until

__all__ = [
    "Way",
    "test_a_delivered_order_is_known_and_not_active",
    "test_a_purged_order_stays_away_whatever_is_replayed",
    "test_a_store_says_how_it_fares",
    "test_an_order_is_where_its_latest_vote_says",
    "test_an_unknown_order_is_none",
    "test_orders_come_by_name_a_page_at_a_time",
    "test_the_higher_version_is_kept",
    "test_what_is_listed_is_what_is_got",
]


_MARKS = count(900_000)


@dataclass
class Way:
    """A store, the log that feeds it, and what brings it level where nothing else does."""

    store: AssetStore
    log: OrderLog
    advance: Callable[[], None]

    def reach(self, version: str, order: str) -> Order:
        """Return the order once the store has this version of it."""
        wait_until(lambda: self._version(order) == version, 20, f"{order} is not at {version}")
        known = self.store.get(order).asset
        assert isinstance(known, Order)
        return known

    def gone(self, order: str) -> None:
        """Wait until the store has no such order."""
        wait_until(lambda: self._version(order) == "", 20, f"{order} is still there")

    def current(self, order: str) -> bool:
        """Whether the store says that it is not behind."""
        self.advance()
        return self.store.get(order).complete and self.store.all().complete

    def _version(self, order: str) -> str | None:
        self.advance()
        try:
            known = self.store.get(order).asset
        except StoreProblem:
            return None
        return known.version if known else ""

    def last(self) -> None:
        """Wait until the store has everything that was appended so far, in each partition."""
        offset = next(_MARKS)
        for number in range(40):
            self.log.append(state_record(f"last-{number}", "received", offset))
        for number in range(40):
            self.reach(f"1.{offset}.0", f"last-{number}")


@pytest.mark.spread(2)
def test_an_order_is_where_its_latest_vote_says(way: Way):
    way.log.append(state_record("A-1", "packing", 7, "dock-3", "shelf 9"))
    order = way.reach("1.7.0", "A-1")
    assert (order.state, order.station, order.location) == ("packing", "dock-3", "shelf 9")
    assert order.active
    way.log.append(state_record("A-1", "packing", 8, "dock-4", None))
    order = way.reach("1.8.0", "A-1")
    assert (order.station, order.location) == ("dock-4", None)
    wait_until(lambda: way.current("A-1"), 20, "it stays behind")


@pytest.mark.spread(2)
def test_an_unknown_order_is_none(way: Way):
    way.last()
    assert way.store.get("nobody's").asset is None


@pytest.mark.spread(2)
def test_a_delivered_order_is_known_and_not_active(way: Way):
    way.last()
    before = way.store.count()
    way.log.append(state_record("B-1", "shipped", 1))
    way.reach("1.1.0", "B-1")
    assert way.store.count() == before + 1
    way.log.append(state_record("B-1", "delivered", 2))
    assert not way.reach("1.2.0", "B-1").active
    assert way.store.count() == before
    assert "B-1" not in {order.name for order in way.store.all(limit=1000).assets}


@pytest.mark.spread(2)
def test_the_higher_version_is_kept(way: Way):
    way.log.append(state_record("C-1", "shipped", 9))
    way.log.append(state_record("C-1", "picking", 3))
    way.log.append(state_record("C-2", "picking", 1))
    way.last()
    assert way.reach("1.9.0", "C-1").state == "shipped"


@pytest.mark.spread(2)
def test_a_purged_order_stays_away_whatever_is_replayed(way: Way):
    way.log.append(state_record("D-1", "picking", 1))
    way.reach("1.1.0", "D-1")
    way.log.append(purge_record("D-1", 2))
    way.log.append(state_record("D-1", "picking", 1))
    way.gone("D-1")
    way.last()
    assert way.store.get("D-1").asset is None
    way.log.append(state_record("D-1", "received", 5))
    assert way.reach("1.5.0", "D-1").active


@pytest.mark.spread(2)
def test_orders_come_by_name_a_page_at_a_time(way: Way):
    for number in range(25):
        way.log.append(state_record(f"E-{number:02d}", "picking", 1))
    way.last()
    names: list[str] = []
    while page := way.store.all(after=names[-1] if names else "", limit=10).assets:
        assert len(page) <= 10
        names += [order.name for order in page]
    assert names == sorted(set(names))
    assert [name for name in names if name.startswith("E-")] == [f"E-{n:02d}" for n in range(25)]
    assert len(names) == way.store.count()


@pytest.mark.spread(2)
def test_what_is_listed_is_what_is_got(way: Way):
    for record in lives(40):
        way.log.append(record)
    way.last()
    many = way.store.all(limit=1000)
    assert many.total == len(many.assets) == way.store.count()
    assert all(way.store.get(order.name).asset == order for order in many.assets)
    way_there = {order.name for order in many.assets if order.name.startswith("order-")}
    expected = {f"order-{n:04d}" for n in range(40) if n % 3 and n % 5}
    assert way_there == expected


@pytest.mark.spread(2)
def test_a_store_says_how_it_fares(way: Way):
    way.last()
    health = way.store.health()
    assert (health.ready, health.lag) == (True, 0), health
    assert health.records == way.store.count()
    assert way.store.get("last-0").instance in health.instance
