"""Records that a query cannot read: set aside, and skipped."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import NamedTuple
from uuid import uuid4

import msgspec

from bus.base import Bus, TopicPartition
from bus.batch import UNREADABLE, Batch
from domain.quarantine import QuarantinedRange
from domain.records import SET_ASIDE
from streaming.state.buckets import of_other_scenarios
from streaming.state.checkpoint import drop_uncommitted, positions
from streaming.state.storage import StoragePath
from wire.sink import DeadRecord, encode_dead_letter

# ---- quarantine ----------------------------------------------------------------------------------
# Batches of the log that crash every JVM which reads them: detected, set aside, remembered.
#
# A batch of some kilobytes may come to gigabytes once it is unpacked. It lies in the log for good,
# and Spark's source has no way round it: the job dies, is started again, and dies at the same
# place. So each start notes where it begins. After `MOST_STARTS` at one place the log behind it is
# looked through, batch by batch and in bounded memory, and what no reader could bear is set aside:
# a dead letter, a line in a file next to the checkpoints, and from then on nobody reads it: the
# query steps over it (streaming/state/quarantine.py). A batch is the least that Kafka's clients
# can pass over, so records that share it are set aside with it: one producer sent them all.

log = logging.getLogger("streaming.state.quarantine")

# Bytes that the records of a batch may come to. A record may have 64 KiB, and producers put a
# megabyte into a batch.
MOST_UNPACKED = 8 << 20
# Starts at one place, each ended before a batch was committed, until the log is looked through.
MOST_STARTS = 2

# Buckets that the job's page names at most.
NAMED = 5

FILE, STARTS = "asides.json", "starts.json"
# By bucket, as `attack/0`, in order.
Asides = dict[str, list[QuarantinedRange]]

# Names the bucket that reads a partition.
Namer = Callable[[TopicPartition], str]

_WRITING = Lock()  # each engine has a driver of its own


def known(folder: StoragePath) -> Asides:
    """Return all that were set aside. folder: of all checkpoints.

    Raises OSError, and ValueError for a file that cannot be read: without it, states would be
    others.
    """
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=Asides)
    except FileNotFoundError:
        return {}
    except msgspec.MsgspecError as error:
        raise ValueError(f"UnreadableStart: {folder / FILE}: {error}") from None


def remember(folder: StoragePath, more: Mapping[str, Iterable[QuarantinedRange]]) -> None:
    """Keep these besides. Raises OSError and ValueError."""
    with _WRITING:
        after = known(folder)
        for name, spans in more.items():
            after[name] = sorted({*after.get(name, ()), *spans})
        (folder / FILE).write_whole(msgspec.json.encode(after))


def forget(folder: StoragePath, scenarios: Iterable[str]) -> None:
    """Drop what was set aside of scenarios whose log is another one now. Raises OSError and
    ValueError."""
    with _WRITING:
        before = known(folder)
        kept = of_other_scenarios(before, scenarios)
        if kept != before:
            (folder / FILE).write_whole(msgspec.json.encode(kept))


def look(
    bus: Bus, reached: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, list[tuple[Batch, int]]]:
    """Return what cannot be read between these offsets, each with what it comes to (bytes).

    Raises BusError.
    """
    unreadable: dict[TopicPartition, list[tuple[Batch, int]]] = {}
    for place, begin in sorted(reached.items()):
        with bus.batches(place) as batches:
            for batch in batches.between(begin, ends[place]):
                size = batch.unpacked(MOST_UNPACKED)
                if size == UNREADABLE or size > MOST_UNPACKED:
                    unreadable.setdefault(place, []).append((batch, size))
    return unreadable


def write_dead_letter(bus: Bus, topic: str, place: TopicPartition, batch: Batch, size: int) -> None:
    """Write the dead letter of a batch. topic: of dead letters. Raises BusError."""
    why = "cannot be unpacked" if size == UNREADABLE else f"over {MOST_UNPACKED} bytes unpacked"
    log.warning("%s/%d: %d to %d set aside: %s", *place, batch.first, batch.last, why)
    description = {
        "first": batch.first,
        "last": batch.last,
        "records": batch.records,
        "codec": batch.codec,
        "bytes": batch.size,
        "why": why,
    }
    value = json.dumps(description).encode()
    dead = DeadRecord(SET_ASIDE, place[0], place[1], batch.first, batch.timestamp, None, value)
    key, value_, headers = encode_dead_letter(dead)
    producer = bus.producer()
    try:
        producer.send_and_wait(topic, key, value_, headers=headers)
    finally:
        producer.close()


def set_aside(
    bus: Bus, letters: str, folder: StoragePath, begun: Mapping[TopicPartition, int], name: Namer
) -> None:
    """Set aside what cannot be read behind the offsets where the last starts began.

    letters: the topic of dead letters; folder: of all checkpoints; begun: the next offset of each
    partition; name: of the bucket that reads one. Raises BusError, OSError and ValueError.
    """
    edges = bus.offsets({topic for topic, _ in begun})
    ends = {place: end for place, (_, end) in edges.items()}
    there = {place: max(offset, edges[place][0]) for place, offset in begun.items()}
    held = known(folder)
    for place, unreadable in look(bus, there, ends).items():
        for batch, size in unreadable:
            span = (batch.first, batch.last)
            if span not in held.get(name(place), ()):
                write_dead_letter(bus, letters, place, batch, size)
                remember(folder, {name(place): [span]})


def in_words(asides: Mapping[str, Iterable[QuarantinedRange]]) -> list[str]:
    """Return what was set aside, the newest of each bucket, for the job's page."""
    lines = []
    for name, spans in sorted(asides.items()):
        held = sorted(spans)
        more = f", and {len(held) - 1} before" if len(held) > 1 else ""
        first, last = held[-1]
        lines.append(f"{name}: offsets {first} to {last} are set aside{more}: see Dead letters")
    return lines[:NAMED]


class Starts:
    """How often in a row a query was started at one place, and never got anywhere."""

    def __init__(self, home: StoragePath) -> None:
        """home: the query's folder."""
        self._path = home / STARTS

    def record(self, place: str) -> int:
        """Record a start at this place. Return how many came before it in a row.

        Raises OSError.
        """
        before = self._read()
        count = before[1] if before[0] == place else 0
        self._path.write_whole(json.dumps([place, count + 1]).encode())
        return count

    def forget(self) -> None:
        """Forget the starts, as the query ended on request or got further. Raises OSError."""
        self._path.delete()

    def _read(self) -> tuple[str, int]:
        try:
            place, count = json.loads(self._path.read_bytes())
            return str(place), int(count)
        except (OSError, ValueError, TypeError):
            return "", 0


# ---- quarantine bypass ---------------------------------------------------------------------------
# The way of a query round what was set aside: up to it, and on behind it, batch by batch.
#
# Spark's source reads from one offset to another and leaves nothing out. But a micro-batch goes
# from where the last one ended to where the checkpoint's write-ahead log says; so an entry is
# written there that ends before what was set aside, its batch is carried out alone, and then its
# end is moved behind: the next one begins there.

# Records of one batch: a long way comes in many.
MOST = 500_000


# Records that Kafka's consumer unpacks at once, also behind where it is to stop.
AHEAD = 500


class BoundedBatch(NamedTuple):
    """A micro-batch that ends at these offsets, in each partition.

    jumps: where those go on that end at what was set aside; close: some end so near to it that the
    records have to be unpacked one by one.
    """

    ends: dict[TopicPartition, int]
    jumps: dict[TopicPartition, int]
    close: bool


def next_bounded_batch(
    reached: Mapping[TopicPartition, int],
    ranges: Mapping[TopicPartition, Iterable[QuarantinedRange]],
) -> BoundedBatch | None:
    """Return the next one from the offsets that were reached; None: nothing is in the way."""
    ahead = {
        place: min(span for span in ranges[place] if span[1] >= reached[place])
        for place in reached.keys() & ranges.keys()
        if any(last >= reached[place] for _, last in ranges[place])
    }
    if not ahead:
        return None
    ends, jumps = dict(reached), dict[TopicPartition, int]()
    for place, (first, last) in ahead.items():
        begin, far = reached[place], first - AHEAD
        ends[place] = min(far, begin + MOST // len(ahead)) if begin < far else max(begin, first)
        if ends[place] >= first:
            jumps[place] = last + 1
    return BoundedBatch(ends, jumps, close=bool(jumps))


def plan_batch(checkpoint: StoragePath, ends: Mapping[TopicPartition, int], metadata: str) -> None:
    """Have the next batch of a checkpoint end at these offsets. Raises OSError.

    metadata: of the first batch of all, as Spark has it.
    """
    drop_uncommitted(checkpoint)
    done = committed(checkpoint)
    if done is None:
        _name(checkpoint)
    else:
        metadata = _lines(checkpoint, done)[1]
    _write(checkpoint, 0 if done is None else done + 1, metadata, ends)


def _name(checkpoint: StoragePath) -> None:
    """Write the query's id into a new checkpoint; without it Spark refuses a planned batch."""
    (checkpoint / "metadata").write_whole(json.dumps({"id": str(uuid4())}).encode())


def jump(checkpoint: StoragePath, ends: Mapping[TopicPartition, int]) -> None:
    """Have the last committed batch end at these offsets: the next one begins there.

    Raises OSError.
    """
    done = committed(checkpoint)
    assert done is not None
    _write(checkpoint, done, _lines(checkpoint, done)[1], ends)


def ends_at(checkpoint: StoragePath, ends: Mapping[TopicPartition, int]) -> bool:
    """Return whether the last committed batch ends there: what was planned has been carried out."""
    return positions(checkpoint) == ends


def committed(checkpoint: StoragePath) -> int | None:
    """Return the number of the last committed batch, None before the first."""
    names = (checkpoint / "commits").names()
    return max((int(name) for name in names if name.isdigit()), default=None)


def _lines(checkpoint: StoragePath, number: int) -> list[str]:
    return (checkpoint / "offsets" / str(number)).read_bytes().decode().splitlines()


def _write(
    checkpoint: StoragePath, number: int, metadata: str, ends: Mapping[TopicPartition, int]
) -> None:
    """Write an entry of the write-ahead log, the last one from then on."""
    folder = checkpoint / "offsets"
    for name in folder.names():
        if name.isdigit() and int(name) > number:
            (folder / name).delete()
    offsets: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(ends.items()):
        offsets.setdefault(topic, {})[str(partition)] = offset
    (folder / f".{number}.crc").delete()  # of what it held before
    entry = "\n".join(["v1", metadata, json.dumps(offsets)])
    (folder / str(number)).write_whole(entry.encode())
