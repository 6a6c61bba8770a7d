"""The interfaces of stores and of the tables behind them.

An `AssetStore` is a way to query the assets of one scenario: the copy in a web process, the store
servers, the cache, the database. One contract test runs against all of them. An `AssetTable` is
where a copy or a server keeps its share of the assets: in memory, on disk or in Redis.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from bus.follower import Moved

SCENARIO = "orders"
DELIVERED = "delivered"
"""The state in which an order is no longer active."""
BEHIND_MS = 5_000
"""A store that has not reached the end of its log for this long is behind, and says so."""


class KeptAsset(Protocol):
    """What a store keeps of an asset. changed_at: the time of its record's cause, Unix ms."""

    @property
    def name(self) -> str:
        """The asset's name, which is the key of its record."""

    @property
    def active(self) -> bool:
        """Whether the asset is listed and counted."""

    @property
    def version(self) -> str:
        """The version of its record."""

    @property
    def changed_at(self) -> int:
        """The time of its record's cause, Unix ms."""


class Order(msgspec.Struct, frozen=True, gc=False):
    """An order and where it is: a record of `orders.states`, transformed.

    station: the agent of its latest vote; location: the `location` in that vote's detail;
    changed_at: the time of its record's cause, Unix ms.
    """

    order: str
    state: str
    station: str | None
    location: str | None
    active: bool
    version: str
    changed_at: int

    @property
    def name(self) -> str:
        """The order's name."""
        return self.order


class AssetRecord(msgspec.Struct, frozen=True, gc=False):
    """An asset of any other scenario: its complete state record, with votes and doubts.

    record: the JSON of the topic; changed_at: the time of its cause, Unix ms.
    """

    name: str
    version: str
    changed_at: int
    record: msgspec.Raw

    @property
    def active(self) -> bool:
        """Always True: everything that is not purged is on the board."""
        return True


class Change(NamedTuple):
    """The change that a record makes to an asset.

    version: sortable; at: Unix ms; asset: None once purged.
    """

    key: str
    version: str
    at: int
    asset: KeptAsset | None


class One(NamedTuple):
    """An asset as one instance has it, or None if the instance does not know it.

    complete: whether the instance answers for the asset's partition, and is not behind; as_of: when
    it last had everything in the log, Unix ms, None if it cannot tell.
    """

    asset: KeptAsset | None
    instance: str
    complete: bool = True
    as_of: int | None = None


class Many(NamedTuple):
    """Active assets by name.

    total: number of all active assets; positions: by partition, the offset of the first state not
    included; complete: whether no partition is missing or behind; as_of: as in `One`.
    """

    assets: Sequence[KeptAsset]
    total: int
    positions: Mapping[int, int]
    instance: str
    complete: bool = True
    as_of: int | None = None


class Health(NamedTuple):
    """The health of a store.

    records: number of active assets; lag: number of records in the log that it has not read, None
    if it cannot tell; detail: why it is not ready.
    """

    instance: str
    ready: bool
    records: int
    lag: int | None
    detail: str = ""


class StoreProblem(Exception):
    """A store cannot answer now; the message says why. reason: one of `REASONS`."""

    reason = "store-unavailable"


class NotReady(StoreProblem):
    """The store has not read the whole log yet, or nobody owns the partition at the moment."""

    reason = "store-not-ready"


class Unreachable(StoreProblem):
    """The server or database behind the store does not answer."""

    reason = "store-unreachable"


class NotRun(StoreProblem):
    """This installation of the product does not run the store."""

    reason = "store-not-run"


REASONS = tuple(each.reason for each in (NotReady, Unreachable, NotRun))
"""Every reason for which a store does not answer."""


class AssetStore(Protocol):
    """One way to query a scenario's assets. Methods raise StoreProblem instead of guessing."""

    def get(self, key: str) -> One:
        """Return an asset, even a delivered order; None if it was purged or never existed."""

    def all(self, after: str = "", limit: int = 100) -> Many:
        """Return the first `limit` active assets whose names come after `after`."""

    def count(self) -> int:
        """Return the number of active assets."""

    def health(self) -> Health:
        """Return the health of the store. Raises nothing."""


class Displaced(Moved):
    """A table's position was moved by another writer, or lost: continue reading from there."""


class AssetTable(Protocol):
    """Assets by partition and key, with the position in the log that they correspond to.

    One thread writes, any may read. A change is ignored unless its version is higher than the
    stored one. For that, the version of a purged asset is kept, but the asset is neither shown nor
    counted.
    """

    def apply(self, partition: int, changes: Sequence[Change], start: int, position: int) -> None:
        """Apply changes read from `start` on, and move the partition to `position`.

        Both are stored, or neither. Raises Displaced if a shared table is not at `start`, and
        Unreachable if it does not answer.
        """

    def begin(self, partition: int, position: int) -> None:
        """Set the position of a partition that is not known yet."""

    def get(self, partition: int, key: str) -> KeptAsset | None:
        """Return an asset, or None."""

    def active(self, partitions: Collection[int], after: str, limit: int) -> Sequence[KeptAsset]:
        """Return the first `limit` active assets after `after`, by name."""

    def count(self, partitions: Collection[int]) -> int:
        """Return the number of active assets in these partitions."""

    def positions(self) -> dict[int, int]:
        """Return the next offset to read for each partition in the table."""

    def log(self) -> str:
        """Return the id of the topic that the positions are of, "" where unknown."""

    def set_log(self, log: str) -> None:
        """Record the id of the topic."""

    def level(self) -> set[int]:
        """Return the partitions that have reached the end of the log."""

    def set_level(self, partition: int, reached: bool) -> None:
        """Set whether a partition has reached the end of the log."""

    def as_of(self) -> dict[int, int]:
        """Return when each partition last had everything in the log, Unix ms, where known."""

    def set_as_of(self, partitions: Collection[int], at: int) -> None:
        """Record that these partitions had everything in the log at a time (Unix ms)."""

    def drop(self, partition: int) -> None:
        """Forget a partition, and possibly more: `positions` returns what is left."""

    def prune(self, before: int) -> None:
        """Forget assets that were purged before this time (Unix ms)."""

    def close(self) -> None:
        """Close files and connections."""


def oldest(as_of: Mapping[int, int], partitions: Collection[int]) -> int | None:
    """Return the oldest as-of time of these partitions, Unix ms, or None if one is unknown."""
    if not partitions or not as_of.keys() >= set(partitions):
        return None
    return min(as_of[partition] for partition in partitions)


def current(as_of: int | None) -> bool:
    """Return whether a store with this as-of time (Unix ms) is not behind now."""
    return as_of is not None and now_ms() - as_of <= BEHIND_MS


def now_ms() -> int:
    """Return the current time, Unix ms."""
    return time.time_ns() // 1_000_000
