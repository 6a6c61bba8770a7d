"""The global store: a full copy of a scenario's assets in each process that queries them."""

from __future__ import annotations

from collections.abc import Collection

from bus.base import Bus
from bus.follower import Follower
from stores.base import Health, Many, NotReady, NotRun, One, current, now_ms, oldest
from stores.feed import TableFeed
from stores.memory_table import MemoryTable
from stores.transformation import Transformation
from wire.partitioner import partition_of


class GlobalStore:
    """All partitions in memory.

    The store answers only once it has been level with the whole log. Each answer says whether it
    has fallen behind since.
    """

    def __init__(self, bus: Bus, topic: str, instance: str, kept: Transformation) -> None:
        self.instance, self._scenario = instance, kept.scenario
        self.feed = TableFeed(bus, topic, MemoryTable(), kept)
        self._follower: Follower | None = None

    def start(self) -> None:
        """Read in a new thread."""
        self._follower = Follower(self.feed)
        self._follower.start()

    def stop(self, timeout_s: float = 3) -> None:
        """End the thread, and wait for it."""
        if self._follower is not None:
            self._follower.stop(timeout_s)

    def get(self, key: str) -> One:
        """Return an asset. Raises NotReady."""
        partition = partition_of(key.encode(), len(self._level()))
        as_of = oldest(self.feed.table.as_of(), [partition])  # read first, as it moves on
        asset = self.feed.table.get(partition, key)
        return One(asset, self.instance, current(as_of), as_of)

    def all(self, after: str = "", limit: int = 100) -> Many:
        """Return the first active assets after `after`. Raises NotReady."""
        level, table = self._level(), self.feed.table
        as_of, positions = oldest(table.as_of(), level), table.positions()
        assets, total = table.active(level, after, limit), table.count(level)
        return Many(assets, total, positions, self.instance, current(as_of), as_of)

    def count(self) -> int:
        """Return the number of active assets. Raises NotReady."""
        return self.feed.table.count(self._level())

    def health(self) -> Health:
        """Return the health of the copy."""
        ready, table = self.feed.ready(), self.feed.table
        outage = self._follower.outage if self._follower is not None else None
        detail = outage.why if outage else "" if ready else "It has not read the whole log yet."
        records = table.count(table.positions().keys())
        return Health(self.instance, ready, records, self.feed.lag(), detail)

    def behind(self) -> str:
        """Return why the copy is not complete, in words; empty if it is complete or not kept."""
        if self._follower is None:
            return ""
        if not self.feed.ready():
            return "it has not read the whole log yet"
        as_of = oldest(self.feed.table.as_of(), range(self.feed.partitions()))
        if as_of is None:
            return "behind its log"
        return "" if current(as_of) else f"{(now_ms() - as_of) // 1000} s behind its log"

    def _level(self) -> Collection[int]:
        """Return all partitions once all of them are level. Raises NotReady."""
        if not self.feed.ready():
            raise NotReady(
                f"This process has not read all {self._scenario} yet: try again in a moment."
            )
        return range(self.feed.partitions())


class NoStore:
    """Takes the place of a store that this process does not run."""

    def __init__(self, why: str) -> None:
        self._why = why

    def get(self, key: str) -> One:  # noqa: ARG002 - as every store's
        """Raise NotRun."""
        raise NotRun(self._why)

    def all(self, after: str = "", limit: int = 100) -> Many:  # noqa: ARG002 - as every store's
        """Raise NotRun."""
        raise NotRun(self._why)

    def count(self) -> int:
        """Raise NotRun."""
        raise NotRun(self._why)

    def health(self) -> Health:
        """Return why the store does not answer."""
        return Health("", False, 0, None, self._why)
