"""What a store of orders answers, and what a table keeps for it.

An `OrderStore` is a way to ask: the copy of a web process, the store servers, the cache, the
database. One contract test runs over all of them. A `Table` is where a copy or a server keeps its
share of the orders, in memory, on disk or in Redis.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

SCENARIO = "orders"
DELIVERED = "delivered"
"""The state in which an order is no longer active."""


class Order(msgspec.Struct, frozen=True, gc=False):
    """An order and where it is: what `orders.states` says, transformed.

    station: the agent of its latest vote; location: what that vote's detail calls so; changed_at:
    the time of its record's cause, Unix ms.
    """

    order: str
    state: str
    station: str | None
    location: str | None
    active: bool
    version: str
    changed_at: int


class Change(NamedTuple):
    """What a record makes of an order. version: sortable; at: Unix ms; order: None once purged."""

    key: str
    version: str
    at: int
    order: Order | None


class One(NamedTuple):
    """An order as one instance has it; None where it knows of none.

    complete: whether that instance answers for the order's partition.
    """

    order: Order | None
    instance: str
    complete: bool = True


class Many(NamedTuple):
    """Active orders by name. total: how many are active in all; positions: by partition, the next
    offset of `orders.states` that is not in them; complete: whether no partition is missing."""

    orders: list[Order]
    total: int
    positions: Mapping[int, int]
    instance: str
    complete: bool = True


class Health(NamedTuple):
    """How a store fares. records: active orders; lag: records of the log that it has not read,
    None where it cannot tell; detail: why it is not ready."""

    instance: str
    ready: bool
    records: int
    lag: int | None
    detail: str = ""


class StoreProblem(Exception):
    """A store that gives no answer just now, in words. `reason`: one of `REASONS`."""

    reason = "store-unavailable"


class NotReady(StoreProblem):
    """It has not read the whole log yet, or nobody owns the partition at the moment."""

    reason = "store-not-ready"


class Unreachable(StoreProblem):
    """What keeps it does not answer."""

    reason = "store-unreachable"


class NotRun(StoreProblem):
    """This copy of the product does not run it."""

    reason = "store-not-run"


REASONS = tuple(each.reason for each in (NotReady, Unreachable, NotRun))
"""Every reason for which a store gives no answer."""


class OrderStore(Protocol):
    """One way to ask for orders. Each method raises StoreProblem instead of guessing."""

    def get(self, key: str) -> One:
        """Return an order, delivered ones too; None for one that was purged or never was."""

    def all(self, after: str = "", limit: int = 100) -> Many:
        """Return the first `limit` active orders whose names come after `after`."""

    def count(self) -> int:
        """Return how many orders are active."""

    def health(self) -> Health:
        """Return how the store fares. Raises nothing."""


class Displaced(Exception):
    """Somebody else has moved a table's position: read on from where the table is."""


class Table(Protocol):
    """Orders by partition and key, with the position in the log that they stand for.

    One thread writes, any may read. A change whose version is not above the kept one's changes
    nothing; of a purged order its version is kept for that, and neither shown nor counted.
    """

    def apply(self, partition: int, changes: Sequence[Change], start: int, position: int) -> None:
        """Apply changes that were read from `start`; the partition is at `position` then.

        Both or neither is kept. Raises Displaced where a shared table is not at `start`, and
        Unreachable where it does not answer.
        """

    def begin(self, partition: int, position: int) -> None:
        """Be at `position` where the partition is not known yet."""

    def get(self, partition: int, key: str) -> Order | None:
        """Return an order."""

    def active(self, partitions: Collection[int], after: str, limit: int) -> list[Order]:
        """Return the first `limit` active orders past `after`, by name."""

    def count(self, partitions: Collection[int]) -> int:
        """Return how many orders of these partitions are active."""

    def positions(self) -> dict[int, int]:
        """Return the next offset to read of each partition that the table has."""

    def level(self) -> set[int]:
        """Return the partitions that have reached the end of the log."""

    def set_level(self, partition: int, reached: bool) -> None:
        """Note whether a partition has reached the end of the log."""

    def drop(self, partition: int) -> None:
        """Forget a partition, or more than that: `positions` says what is left."""

    def prune(self, before: int) -> None:
        """Forget orders that were purged before this time (Unix ms)."""

    def close(self) -> None:
        """Let go of files and connections."""
