"""Where a query keeps its checkpoint: one folder per epoch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from bus.base import TopicPartition
from streaming.state.storage import StoragePath
from wire.job import Checkpoint

# The file, in a query's folder, of the highest epoch that its log has shown.
FLOOR = "floor"

# The folder, in the main job's, of the checkpoints of named jobs: config/settings.py.
JOBS = "jobs"


class Epoch(NamedTuple):
    """A checkpoint of a query. Its number is part of every version that rests on it."""

    number: int
    path: StoragePath


class LogProblem(Exception):
    """The log does not hold what a checkpoint goes on from; the message says where."""


class LogReplaced(LogProblem):
    """A topic was deleted and created again since a checkpoint was made; the message says which."""

    def __init__(self, topics: Sequence[str]) -> None:
        super().__init__(
            f"{', '.join(topics)}: deleted and created again: what the job had read of it is gone"
        )
        self.topics = topics


def current_epoch(home: StoragePath) -> Epoch:
    """Return the newest epoch below `home`, a query's folder, or else one above all others."""
    number = max(_epochs(home), default=0) or _highest(home.parent) + 1
    return Epoch(number, home / f"epoch-{number}")


def begin_epochs(homes: Iterable[StoragePath]) -> None:
    """Begin a first epoch, of one number, for those of a job's queries that have none yet.

    One by one, each would get the number above those that the others have begun.
    """
    new = [home for home in homes if not _epochs(home)]
    for number, home in [(_highest(home.parent) + 1, home) for home in new]:
        (home / f"epoch-{number}").make()


def raise_epoch(home: StoragePath) -> Epoch:
    """Begin a new epoch, above those of all queries next to `home`.

    The query's next start reads its topics from their beginning.
    """
    epoch = next_epoch(home)
    epoch.path.make()
    return epoch


def next_epoch(home: StoragePath) -> Epoch:
    """Return the epoch to come, above those of all queries next to `home`.

    Nothing of it is there yet.
    """
    number = _highest(home.parent) + 1
    epoch = Epoch(number, home / f"epoch-{number}")
    with suppress(OSError):
        start_folder(epoch).delete()  # of one that did not come about
    return epoch


def start_folder(epoch: Epoch) -> StoragePath:
    """Return where it is kept how an epoch begins: see streaming/fold/epochs.py."""
    return epoch.path.with_name(f"start-{epoch.number}")


def drop_old(home: StoragePath) -> None:
    """Delete all epochs of a query but the current one and the one before it."""
    for number in sorted(_epochs(home))[:-2]:
        old = Epoch(number, home / f"epoch-{number}")
        with suppress(OSError):
            start_folder(old).delete()
            old.path.delete()


def read_floor(home: StoragePath) -> int | None:
    """Return the epoch above which each new one of a query begins, as far as its folder says."""
    try:
        return int((home / FLOOR).read_bytes())
    except (OSError, ValueError):
        return None


def raise_floor(home: StoragePath, number: int) -> None:
    """Have each new epoch of a query begin above this number. Raises OSError."""
    floor = read_floor(home)
    if floor is None or number > floor:
        (home / FLOOR).write_whole(str(number).encode())


def _highest(homes: StoragePath) -> int:
    return max((number for name in homes.names() for number in _known(homes / name)), default=0)


def _known(home: StoragePath) -> list[int]:
    return [*_epochs(home), read_floor(home) or 0]


def _epochs(home: StoragePath) -> list[int]:
    names = [name.removeprefix("epoch-") for name in home.names() if name.startswith("epoch-")]
    return [int(name) for name in names if name.isdigit()]


def folders_beside(own: StoragePath, *, named: bool) -> list[StoragePath]:
    """Return the checkpoint folders of the other jobs that keep theirs where this job does.

    own: this job's folder; named: whether the job has a name, and its folder is below the main
    job's.
    """
    main = own.parent.parent if named else own
    others = [main / JOBS / name for name in sorted((main / JOBS).names())]
    return [folder for folder in (main, *others) if folder != own]


def drop_uncommitted(checkpoint: StoragePath) -> None:
    """Empty a checkpoint without a committed batch: Spark refuses the remains of its first one.

    The folder stays: it is what says which epoch this is.
    """
    if not _batches(checkpoint / "commits"):
        for name in checkpoint.names():
            (checkpoint / name).delete()


def positions(checkpoint: StoragePath) -> dict[TopicPartition, int]:
    """Return the next offset that a query reads from each partition.

    Empty before its first batch.
    """
    commits = _batches(checkpoint / "commits")
    if not commits:
        return {}
    lines = (checkpoint / "offsets" / str(max(commits))).read_bytes().decode().splitlines()
    # A version, the query's settings, then one line per source.
    return {
        (topic, int(partition)): offset
        for line in lines[2:]
        if line.startswith("{")
        for topic, offsets in json.loads(line).items()
        for partition, offset in offsets.items()
    }


def measure(checkpoint: StoragePath) -> Checkpoint | None:
    """Return the last committed batch, its time (Unix ms) and the size (bytes) of the checkpoint.

    None before the first batch.
    """
    commits = _batches(checkpoint / "commits")
    if not commits:
        return None
    try:
        at = (checkpoint / "commits" / str(max(commits))).modified_ms()
    except OSError:  # Spark tidies up meanwhile
        return None
    return Checkpoint(max(commits), at, checkpoint.size())


def is_committed(checkpoint: StoragePath, batch: int) -> bool:
    """Return whether the checkpoint still has this batch: later ones have Spark drop it."""
    return batch in _batches(checkpoint / "commits")


def _batches(folder: StoragePath) -> list[int]:
    return [int(name) for name in folder.names() if name.isdigit()]


def replaced_topics(known: Mapping[str, str], present: Mapping[str, str]) -> list[str]:
    """Return the topics that have another id than is known, in order.

    One without an id is left out: a broker that has just started may not name a topic yet.
    """
    both = known.keys() & present.keys()
    return sorted(topic for topic in both if known[topic] != present[topic])


def check_logs(known: Mapping[str, str], present: Mapping[str, str]) -> None:
    """Raise LogReplaced unless the topics have the ids that a checkpoint knows, as far as it
    does."""
    if other := replaced_topics(known, present):
        raise LogReplaced(other)


def gaps(
    reached: Mapping[TopicPartition, int],
    edges: Mapping[TopicPartition, tuple[int, int]],
    read: set[TopicPartition],
) -> list[str]:
    """Return what a query that has `reached` these offsets will pass over, in words.

    edges: first and next offset of each partition; read: the partitions that are still read.
    Raises LogProblem where a log ends before the place that was reached.
    """
    notes = []
    for place, offset in sorted(reached.items()):
        name = f"{place[0]}/{place[1]}"
        begin, end = edges.get(place, (0, 0))
        if place not in read:
            notes.append(f"{name}: no longer read")
        elif end < offset:
            raise LogProblem(f"{name}: the log ends at {end}, the checkpoint at {offset}")
        elif begin > offset:
            notes.append(f"{name}: offsets {offset} to {begin - 1} are lost")
    return notes
