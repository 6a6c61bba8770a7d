"""What an engine holds of the machine: memory, the durable copy of its state, and other files.

The durable copy is what its state is restored from where all else is lost: a checkpoint, or a
changelog, which is a topic. The other files are its stores, and what it puts aside while it works.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.stack import Product, disk_bytes, memory_of


@dataclass(frozen=True)
class Footprint:
    """memory_mb: of its processes; durable, working: bytes of the durable copy, of other files."""

    memory_mb: float
    durable: int
    working: int


def footprint(
    copy: Product, names: Sequence[str], saved: Path, other: Path, topics: Iterable[str] = ()
) -> Footprint:
    """Return what these processes hold now.

    saved: the folder of the checkpoint. other: that of its other files; the checkpoint may lie in
    it. topics: of the changelog.
    """
    checkpoint, by_topic = disk_bytes(saved), segments(copy)
    changelog = sum(path.stat().st_size for topic in topics for path in by_topic.get(topic, ()))
    return Footprint(
        memory_mb=memory_of(copy, names),
        durable=checkpoint + changelog,
        working=disk_bytes(other) - (checkpoint if saved.is_relative_to(other) else 0),
    )


def segments(copy: Product) -> dict[str, list[Path]]:
    """Return the files of each topic's records; indexes are none, as they reserve room."""
    by_topic = defaultdict[str, list[Path]](list)
    for path in (copy.folder / "broker" / "log").glob("*/*.log"):
        by_topic[path.parent.name.rpartition("-")[0]].append(path)
    return by_topic
