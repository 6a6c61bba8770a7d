"""The distributed cache: one Redis, maintained by the materialiser's process and read by all."""

from __future__ import annotations

from bus.base import Bus, BusError
from stores.base import Health, Many, NotReady, One, StoreProblem, current, oldest
from stores.redis_table import RedisTable
from wire.partitioner import partition_of


class CacheStore:
    """Reads the cache, except partitions not level with the log, as during a rebuild."""

    def __init__(self, table: RedisTable, partitions: int, bus: Bus, topic: str) -> None:
        self.table, self._partitions = table, range(partitions)
        self._bus, self._topic = bus, topic

    def get(self, key: str) -> One:
        """Return an asset. Raises NotReady, Unreachable."""
        partition = partition_of(key.encode(), len(self._partitions))
        level, asset, as_of = self.table.read(partition, key)
        if not level:
            raise NotReady(f"The cache is being rebuilt (partition {partition}).")
        return One(asset, self.table.instance, current(as_of), as_of)

    def all(self, after: str = "", limit: int = 100) -> Many:
        """Return the first active assets after `after`. Raises NotReady, Unreachable."""
        as_of = oldest(self.table.as_of(), self._partitions)  # read first, as it moves on
        assets = self.table.active(self._partitions, after, limit)
        total, positions = self.count(), self.table.positions()
        return Many(assets, total, positions, self.table.instance, current(as_of), as_of)

    def count(self) -> int:
        """Return the number of active assets. Raises NotReady, Unreachable."""
        total = self.table.count(self._partitions)
        self._check()  # after the count: the cache may just have been emptied
        return total

    def health(self) -> Health:
        """Return the health of the cache."""
        instance = self.table.instance
        try:
            self._check()
            return Health(instance, True, self.table.count(self._partitions), self._lag())
        except StoreProblem as problem:
            return Health(instance, False, 0, None, str(problem))

    def _check(self) -> None:
        missing = set(self._partitions) - self.table.level()
        if missing:
            named = ", ".join(map(str, sorted(missing)))
            raise NotReady(f"The cache is being rebuilt (partition {named}).")

    def _lag(self) -> int | None:
        try:
            ends = self._bus.offsets([self._topic], timeout_s=1)
        except BusError:
            return None
        at = self.table.positions()
        return sum(max(0, end - at.get(partition, 0)) for (_, partition), (_, end) in ends.items())
