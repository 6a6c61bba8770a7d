"""What an engine holds of the machine: memory, files of its own, and topics that hold its state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.stack import Product, disk_bytes, memory_mb

# Topics of the broker itself: positions of groups, transactions.
_BROKERS_OWN = "__"


@dataclass(frozen=True)
class Footprint:
    """memory_mb: of its processes; files, topics: bytes of its own files, and of its own topics."""

    memory_mb: float
    files: int
    topics: int


class TopicFolders:
    """The folders of those partitions that are new since this was made: an engine's own topics."""

    def __init__(self, copy: Product) -> None:
        self._copy = copy
        self._before = self._now()

    def new(self) -> set[Path]:
        """Return the new ones; the broker's own topics do not count."""
        return {path for path in self._now() - self._before if not is_brokers_own(path)}

    def _now(self) -> set[Path]:
        return {path.parent for path in (self._copy.folder / "broker").rglob("*.log")}


def is_brokers_own(partition: Path) -> bool:
    """Return whether the folder of a partition belongs to a topic that the broker keeps itself."""
    return partition.name.startswith(_BROKERS_OWN)


def footprint(
    copy: Product, names: Sequence[str], files: Iterable[Path], topics: Iterable[Path]
) -> Footprint:
    """Return what these processes, files and partitions hold now.

    Of a partition its segments count: its indexes have room that nothing is written to yet.
    """
    return Footprint(
        memory_mb=sum(memory_mb(copy.pid(name)) for name in names),
        files=sum(map(disk_bytes, files)),
        topics=sum(path.stat().st_size for folder in topics for path in folder.glob("*.log")),
    )
