"""What a store of states answers, and what a table keeps for it.

An `AssetStore` is a way to ask for the assets of one scenario: the copy of a web process, the store
servers, the cache, the database. One contract test runs over all of them. An `AssetTable` is where
a copy or a server keeps its share of them, in memory, on disk or in Redis.
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
"""What has not been at the end of its log for so long is behind, and says so."""


class KeptAsset(Protocol):
    """What a store keeps of an asset. changed_at: the time of its record's cause, Unix ms."""

    @property
    def name(self) -> str:
        """Return the asset's name, the key of its record."""

    @property
    def active(self) -> bool:
        """Return whether it is among those that are listed and counted."""

    @property
    def version(self) -> str:
        """Return the version of its record."""

    @property
    def changed_at(self) -> int:
        """Return the time of its record's cause, Unix ms."""


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

    @property
    def name(self) -> str:
        """Return the order's name."""
        return self.order


class AssetRecord(msgspec.Struct, frozen=True, gc=False):
    """An asset of any other scenario: its state record, whole, with its votes and doubts.

    record: the JSON of the topic; changed_at: the time of its cause, Unix ms.
    """

    name: str
    version: str
    changed_at: int
    record: msgspec.Raw

    @property
    def active(self) -> bool:
        """Return True: what is not purged is on the board."""
        return True


class Change(NamedTuple):
    """What a record makes of an asset. version: sortable; at: Unix ms; asset: None once purged."""

    key: str
    version: str
    at: int
    asset: KeptAsset | None


class One(NamedTuple):
    """An asset as one instance has it; None where it knows of none.

    complete: whether that instance answers for the asset's partition, and is not behind; as_of:
    when it last had all that the log had, Unix ms, None where it cannot tell.
    """

    asset: KeptAsset | None
    instance: str
    complete: bool = True
    as_of: int | None = None


class Many(NamedTuple):
    """Active assets by name. total: how many are active in all; positions: by partition, the next
    offset of the states that is not in them; complete: whether no partition is missing or behind;
    as_of: as in `One`."""

    assets: Sequence[KeptAsset]
    total: int
    positions: Mapping[int, int]
    instance: str
    complete: bool = True
    as_of: int | None = None


class Health(NamedTuple):
    """How a store fares. records: active assets; lag: records of the log that it has not read,
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


class AssetStore(Protocol):
    """One way to ask for a scenario's assets. Each method raises StoreProblem instead of
    guessing."""

    def get(self, key: str) -> One:
        """Return an asset, a delivered order too; None for one that was purged or never was."""

    def all(self, after: str = "", limit: int = 100) -> Many:
        """Return the first `limit` active assets whose names come after `after`."""

    def count(self) -> int:
        """Return how many assets are active."""

    def health(self) -> Health:
        """Return how the store fares. Raises nothing."""


class Displaced(Moved):
    """Somebody else has moved a table's position: read on from where the table is."""


class AssetTable(Protocol):
    """Assets by partition and key, with the position in the log that they stand for.

    One thread writes, any may read. A change whose version is not above the kept one's changes
    nothing; of a purged asset its version is kept for that, and neither shown nor counted.
    """

    def apply(self, partition: int, changes: Sequence[Change], start: int, position: int) -> None:
        """Apply changes that were read from `start`; the partition is at `position` then.

        Both or neither is kept. Raises Displaced where a shared table is not at `start`, and
        Unreachable where it does not answer.
        """

    def begin(self, partition: int, position: int) -> None:
        """Be at `position` where the partition is not known yet."""

    def get(self, partition: int, key: str) -> KeptAsset | None:
        """Return an asset."""

    def active(self, partitions: Collection[int], after: str, limit: int) -> Sequence[KeptAsset]:
        """Return the first `limit` active assets past `after`, by name."""

    def count(self, partitions: Collection[int]) -> int:
        """Return how many assets of these partitions are active."""

    def positions(self) -> dict[int, int]:
        """Return the next offset to read of each partition that the table has."""

    def level(self) -> set[int]:
        """Return the partitions that have reached the end of the log."""

    def set_level(self, partition: int, reached: bool) -> None:
        """Note whether a partition has reached the end of the log."""

    def as_of(self) -> dict[int, int]:
        """Return when each partition had all that the log had, Unix ms, where that is known."""

    def set_as_of(self, partitions: Collection[int], at: int) -> None:
        """Note that these partitions have all that the log had at a time (Unix ms)."""

    def drop(self, partition: int) -> None:
        """Forget a partition, or more than that: `positions` says what is left."""

    def prune(self, before: int) -> None:
        """Forget assets that were purged before this time (Unix ms)."""

    def close(self) -> None:
        """Let go of files and connections."""


def oldest(as_of: Mapping[int, int], partitions: Collection[int]) -> int | None:
    """Return since when none of these partitions is known to lack anything, Unix ms; None where
    that is not known of each."""
    if not partitions or not as_of.keys() >= set(partitions):
        return None
    return min(as_of[partition] for partition in partitions)


def current(as_of: int | None) -> bool:
    """Return whether what had all of the log at that time (Unix ms) is not behind now."""
    return as_of is not None and now_ms() - as_of <= BEHIND_MS


def now_ms() -> int:
    """Return the time, Unix ms."""
    return time.time_ns() // 1_000_000
