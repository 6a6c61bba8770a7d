"""A table in memory, for web processes and for store servers that need not persist anything."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice
from threading import Lock

from sortedcontainers import SortedSet

from stores.base import Change, KeptAsset


@dataclass(slots=True)
class _Share:
    """The assets of one partition.

    purged: time of each purge, Unix ms; active: names; as_of: when it last had everything in the
    log, Unix ms.
    """

    position: int = 0
    level: bool = False
    as_of: int | None = None
    versions: dict[str, str] = field(default_factory=dict)
    assets: dict[str, KeptAsset] = field(default_factory=dict)
    purged: dict[str, int] = field(default_factory=dict)
    active: SortedSet[str] = field(default_factory=SortedSet)


class MemoryTable:
    """Assets in dictionaries. Can be shared among threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._shares: dict[int, _Share] = {}
        self._log = ""

    def apply(
        self,
        partition: int,
        changes: Sequence[Change],
        start: int,  # noqa: ARG002 - nobody else moves it
        position: int,
    ) -> None:
        """Apply changes, and move the partition to `position`."""
        with self._lock:
            share = self._shares[partition]
            for change in changes:
                if change.version > share.versions.get(change.key, ""):
                    _apply(share, change)
            share.position = position

    def log(self) -> str:
        """Return the id of the topic that the positions are of, "" where unknown."""
        return self._log

    def set_log(self, log: str) -> None:
        """Record the id of the topic."""
        self._log = log

    def begin(self, partition: int, position: int) -> None:
        """Set the position of a partition that is not known yet."""
        with self._lock:
            self._shares.setdefault(partition, _Share(position))

    def get(self, partition: int, key: str) -> KeptAsset | None:
        """Return an asset, or None."""
        with self._lock:
            share = self._shares.get(partition)
            return share.assets.get(key) if share else None

    def active(self, partitions: Collection[int], after: str, limit: int) -> list[KeptAsset]:
        """Return the first `limit` active assets after `after`, by name."""
        with self._lock:
            shares = [share for at, share in self._shares.items() if at in partitions]
            later = [_past(share, after) for share in shares]
            return list(islice(merge(*later, key=lambda asset: asset.name), limit))

    def count(self, partitions: Collection[int]) -> int:
        """Return the number of active assets in these partitions."""
        with self._lock:
            return sum(len(each.active) for at, each in self._shares.items() if at in partitions)

    def positions(self) -> dict[int, int]:
        """Return the next offset to read for each partition in the table."""
        with self._lock:
            return {at: share.position for at, share in self._shares.items()}

    def level(self) -> set[int]:
        """Return the partitions that have reached the end of the log."""
        with self._lock:
            return {at for at, share in self._shares.items() if share.level}

    def set_level(self, partition: int, reached: bool) -> None:
        """Set whether a partition has reached the end of the log."""
        with self._lock:
            if partition in self._shares:
                self._shares[partition].level = reached

    def as_of(self) -> dict[int, int]:
        """Return when each partition last had everything in the log, Unix ms, where known."""
        with self._lock:
            return {at: each.as_of for at, each in self._shares.items() if each.as_of is not None}

    def set_as_of(self, partitions: Collection[int], at: int) -> None:
        """Record that these partitions had everything in the log at a time (Unix ms)."""
        with self._lock:
            for partition in self._shares.keys() & set(partitions):
                self._shares[partition].as_of = at

    def drop(self, partition: int) -> None:
        """Forget a partition."""
        with self._lock:
            self._shares.pop(partition, None)

    def prune(self, before: int) -> None:
        """Forget assets that were purged before this time (Unix ms)."""
        with self._lock:
            for share in self._shares.values():
                for key in [key for key, at in share.purged.items() if at < before]:
                    del share.purged[key], share.versions[key]

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._shares.clear()


def _apply(share: _Share, change: Change) -> None:
    share.versions[change.key] = change.version
    share.purged.pop(change.key, None)
    if change.asset is None:
        share.assets.pop(change.key, None)
        share.purged[change.key] = change.at
    else:
        share.assets[change.key] = change.asset
    if change.asset is not None and change.asset.active:
        share.active.add(change.key)
    else:
        share.active.discard(change.key)


def _past(share: _Share, after: str) -> Iterator[KeptAsset]:
    """Iterate over a partition's active assets after `after`, by name."""
    return (share.assets[key] for key in share.active.irange(after, inclusive=(False, True)))
