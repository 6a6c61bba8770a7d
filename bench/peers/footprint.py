"""What an engine holds of the machine: memory, the durable copy of its state, and other files.

The durable copy is what its state is restored from where all else is lost: a checkpoint, or a
changelog, which is a topic. The other files are its stores, and what it puts aside while it works.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.stack import Product, disk_bytes, memory_mb

# Topics of the broker itself: positions of groups, transactions.
_BROKERS_OWN = "__"


@dataclass(frozen=True)
class Footprint:
    """memory_mb: of its processes; durable, working: bytes of the durable copy, of other files."""

    memory_mb: float
    durable: int
    working: int


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
    copy: Product, names: Sequence[str], saved: Path, other: Path, topics: Iterable[Path] = ()
) -> Footprint:
    """Return what these processes hold now.

    saved: the folder of the checkpoint. other: that of its other files; the checkpoint may lie in
    it. topics: folders of partitions, of which the segments count: an index reserves room.
    """
    checkpoint = disk_bytes(saved)
    changelog = sum(path.stat().st_size for folder in topics for path in folder.glob("*.log"))
    return Footprint(
        memory_mb=sum(memory_mb(copy.pid(name)) for name in names),
        durable=checkpoint + changelog,
        working=disk_bytes(other) - (checkpoint if saved.is_relative_to(other) else 0),
    )
