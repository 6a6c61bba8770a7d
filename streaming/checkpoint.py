"""Where a query keeps its checkpoint: one folder per epoch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from bus.base import TopicPartition


class Epoch(NamedTuple):
    """A checkpoint of a query. Its number is part of every version that rests on it."""

    number: int
    path: Path


def current_epoch(home: Path) -> Epoch:
    """The newest epoch below `home`, a query's folder; the first one where there is none."""
    numbers = [
        int(path.name.removeprefix("epoch-"))
        for path in home.glob("epoch-*")
        if path.name.removeprefix("epoch-").isdigit()
    ]
    number = max(numbers, default=1)
    return Epoch(number, home / f"epoch-{number}")


def raise_epoch(home: Path) -> Epoch:
    """Begin a new epoch: the query's next start reads its topics from their beginning."""
    number = current_epoch(home).number + 1
    path = home / f"epoch-{number}"
    path.mkdir(parents=True)
    return Epoch(number, path)


def positions(checkpoint: Path) -> dict[TopicPartition, int]:
    """The next offset that a query reads from each partition; empty before its first batch."""
    commits = _batches(checkpoint / "commits")
    if not commits:
        return {}
    lines = (checkpoint / "offsets" / str(max(commits))).read_text().splitlines()
    # A version, the query's settings, then one line per source.
    return {
        (topic, int(partition)): offset
        for line in lines[2:]
        if line.startswith("{")
        for topic, offsets in json.loads(line).items()
        for partition, offset in offsets.items()
    }


def _batches(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.glob("*") if path.name.isdigit()]
