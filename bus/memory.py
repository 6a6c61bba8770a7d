"""Kafka's twin in memory: the same contract as `bus.kafka`, for tests without a broker."""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from bus.base import (
    HEARTBEAT_S,
    BusError,
    ConsumerRecord,
    Delivered,
    GroupMember,
    Headers,
    LogGap,
    MemberEvents,
    OnDelivery,
    Producer,
    QueueFull,
    TooLarge,
    TopicMismatch,
    TopicPartition,
    TopicSpec,
    Unavailable,
)
from bus.batch import Batch

# Largest record that a producer accepts, bytes: librdkafka's default.
MAX_RECORD = 1_000_000
# Largest number of pending records in a producer: librdkafka's default.
MAX_QUEUE = 100_000

# Settings of a topic created without them: a broker's defaults.
DEFAULTS = {"cleanup.policy": "delete", "message.timestamp.type": "CreateTime"}


@dataclass(slots=True)
class _Partition:
    begin: int = 0
    records: list[ConsumerRecord] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.begin + len(self.records)


@dataclass(slots=True)
class _Sent:
    """A record that a producer holds until the bus accepts it."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    partition: int | None
    on_delivery: OnDelivery | None
    give_up: float


@dataclass(frozen=True, slots=True)
class MemoryBatches:
    """The records of a partition, from its first offset on, as batches."""

    records: list[ConsumerRecord]
    first: int = 0

    def between(self, begin: int, end: int) -> Iterator[Batch]:
        """Yield, in order, the batches that contain offsets from `begin` up to, not including,
        `end`. Raises BusError where `begin` is before the log's beginning."""
        if begin < self.first:
            raise BusError(f"offset {begin}: OFFSET_OUT_OF_RANGE")
        for one in self.records:
            if begin <= one.offset < end:
                data = one.value or b""
                yield Batch(one.offset, one.offset, 1, one.timestamp, "none", len(data), data)


class MemoryBus:
    """Topics as lists. clock: returns the append time, Unix ms. Can be shared among threads.

    `stop()` and `start()` simulate a broker that goes away and comes back. longest_wait_s: limits
    how long a reader waits for its first record, whatever its timeout.
    """

    longest_wait_s: float = math.inf

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._topics: dict[str, list[_Partition]] = {}
        self._settings: dict[str, dict[str, str]] = {}
        self._ids: dict[str, str] = {}
        self._groups: dict[str, list[MemoryMember]] = {}
        self._unkeyed = 0
        self.cluster = "in-memory"
        self._up = True

    def stop(self) -> None:
        """Stop answering."""
        self._set_up(False)

    def start(self) -> None:
        """Answer again."""
        self._set_up(True)

    def _set_up(self, up: bool) -> None:
        with self._changed:
            self._up = up
            self._changed.notify_all()

    def alter(
        self,
        topic: str,
        settings: Mapping[str, str],
        timeout_s: float = 10,  # noqa: ARG002
    ) -> None:
        """Change only these settings of a topic."""
        with self._changed:
            self._check()
            self._settings[topic] |= settings

    @contextmanager
    def batches(
        self,
        place: TopicPartition,
        timeout_s: float = 10,  # noqa: ARG002
    ) -> Iterator[MemoryBatches]:
        """Yield the log of a partition, with each record as its own batch."""
        with self._changed:
            self._check()
            part = self._topics[place[0]][place[1]]
            yield MemoryBatches(list(part.records), part.begin)

    def delete(self, topic: str) -> None:
        """Delete a topic. A topic of the same name created later is a different one."""
        with self._changed:
            for kept in (self._topics, self._settings, self._ids):
                kept.pop(topic)

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Have a topic have so many partitions, as an admin may."""
        with self._changed:
            parts = self._topics[topic]
            parts += [_Partition() for _ in range(partitions - len(parts))]

    def truncate(self, topic: str, partition: int, before: int) -> None:
        """Delete a partition's records before an offset, as retention does."""
        with self._changed:
            part = self._topics[topic][partition]
            kept = min(max(before, part.begin), part.end)
            del part.records[: kept - part.begin]
            part.begin = kept

    def producer(
        self,
        *,
        linger_ms: float = 5,  # noqa: ARG002
        message_timeout_s: float = 30,
    ) -> MemoryProducer:
        """Return a producer that gives up on a record `message_timeout_s` after it was sent."""
        return MemoryProducer(self, message_timeout_s)

    def reader(
        self,
        starts: Mapping[TopicPartition, int],
        *,
        gather_s: float = 0,  # noqa: ARG002 - nothing is to be gathered here
    ) -> MemoryReader:
        """Return a reader of these partitions. An offset out of range is reset to the earliest."""
        return MemoryReader(self, starts)

    def partitions(
        self,
        topic: str,
        timeout_s: float = 10,  # noqa: ARG002
    ) -> int:
        """Return the number of partitions, 0 if the topic does not exist. Raises Unavailable."""
        with self._changed:
            self._check()
            return len(self._topics.get(topic, ()))

    def offsets(
        self,
        topics: Iterable[str],
        timeout_s: float = 10,  # noqa: ARG002
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Return the first and the next offset of each partition, leaving out missing topics."""
        with self._changed:
            self._check()
            return {
                (topic, at): (part.begin, part.end)
                for topic in topics
                for at, part in enumerate(self._topics.get(topic, ()))
            }

    def ends(
        self,
        places: Iterable[TopicPartition],
        timeout_s: float = 10,  # noqa: ARG002
    ) -> dict[TopicPartition, int]:
        """Return the next offset of each of these partitions. Raises Unavailable."""
        with self._changed:
            self._check()
            return {(topic, at): self._topics[topic][at].end for topic, at in places}

    def topic_ids(
        self,
        topics: Iterable[str],
        timeout_s: float = 10,  # noqa: ARG002
    ) -> dict[str, str]:
        """Return the id of each topic, leaving out missing ones."""
        with self._changed:
            self._check()
            return {name: self._ids[name] for name in topics if name in self._ids}

    def settings(
        self,
        topics: Iterable[str],
        timeout_s: float = 10,  # noqa: ARG002
    ) -> dict[str, dict[str, str]]:
        """Return each topic's effective settings by Kafka's names, leaving out missing topics."""
        with self._changed:
            self._check()
            return {name: dict(self._settings[name]) for name in topics if name in self._settings}

    def ensure_topics(
        self,
        specs: Iterable[TopicSpec],
        *,
        replication: int = 1,  # noqa: ARG002
        timeout_s: float = 30,
    ) -> None:
        """Create the missing topics. Raises TopicMismatch if a partition count differs."""
        self.wait(timeout_s)
        with self._changed:
            for spec in specs:
                name = spec.name
                self._settings.setdefault(name, {**DEFAULTS, **spec.config})
                self._ids.setdefault(name, uuid.uuid4().hex)
                new = [_Partition() for _ in range(spec.partitions)]
                made = self._topics.setdefault(name, new)
                if not spec.fits(len(made)):
                    raise TopicMismatch(
                        f"topic {name} has {len(made)} partitions, expected {spec.partitions}: "
                        "a topic's partition count is fixed"
                    )

    def members(
        self,
        group: str,
        timeout_s: float = 5,  # noqa: ARG002
    ) -> list[GroupMember]:
        """Return the members of a group, none if it does not exist. Raises Unavailable."""
        with self._changed:
            self._check()
            return [GroupMember(one.name, one.held) for one in self._groups.get(group, ())]

    def member(
        self,
        group: str,
        topic: str,
        name: str,
        events: MemberEvents,
        *,
        session_s: float,
        clock: Callable[[], float],
        heartbeat_s: float = HEARTBEAT_S,  # noqa: ARG002 - each poll is one here
    ) -> MemoryMember:
        """Join a group under a name. The member that joined first has all partitions."""
        places = tuple((topic, at) for at in range(self.partitions(topic)))
        return MemoryMember(self, self._groups.setdefault(group, []), places, name, events,
                            session_s, clock)  # fmt: skip

    def dismiss(
        self,
        group: str,
        name: str,
        timeout_s: float = 5,  # noqa: ARG002
    ) -> bool:
        """Remove a member from a group. Raises Unavailable."""
        with self._changed:
            self._check()
            listed = self._groups.get(group, [])
            dead = [one for one in listed if one.name == name]
            listed[:] = [one for one in listed if one.name != name]
            return bool(dead)

    def round(self, member: MemoryMember) -> bool:
        """Take a member's heartbeat, and remove members whose session is over. For MemoryMember.

        Return whether the partitions are the member's. Raises Unavailable while the bus is stopped.
        """
        with self._changed:
            self._check()
            listed = member.group
            listed[:] = [one for one in listed if not one.silent() or one is member]
            if member not in listed:
                listed.append(member)
            return listed[0] is member

    def wait(self, timeout_s: float) -> None:
        """Wait until the bus answers. Raises Unavailable."""
        with self._changed:
            self._changed.wait_for(lambda: self._up, timeout_s)
            self._check()

    def cluster_id(self, timeout_s: float = 10) -> str:  # noqa: ARG002
        """Return the id of the cluster."""
        with self._changed:
            self._check()
            return self.cluster

    def _check(self) -> None:
        if not self._up:
            raise Unavailable("the bus is stopped")

    def append(self, sent: _Sent) -> Delivered | BusError | None:
        """Append a record. Return None while the bus is stopped. For MemoryProducer."""
        with self._changed:
            if not self._up:
                return None
            parts = self._topics.get(sent.topic)
            at = self._place(sent, parts)
            if parts is None or not 0 <= at < len(parts):
                return BusError(f"no partition {at} of topic {sent.topic}")
            part, now = parts[at], self._clock()
            stored = (sent.topic, at, part.end, now)
            part.records.append(ConsumerRecord(*stored, sent.key, sent.value, sent.headers))
            self._changed.notify_all()
            return Delivered(*stored)

    def _place(self, sent: _Sent, parts: list[_Partition] | None) -> int:
        if sent.partition is not None or not parts:
            return sent.partition or 0
        if sent.key is not None:
            return (_murmur2(sent.key) & 0x7FFFFFFF) % len(parts)
        self._unkeyed += 1
        return self._unkeyed % len(parts)

    def read(
        self, positions: dict[TopicPartition, int], gaps: list[LogGap], timeout_s: float, most: int
    ) -> list[ConsumerRecord]:
        """Return the records at `positions`, and advance these. For MemoryReader."""
        end = time.monotonic() + min(timeout_s, self.longest_wait_s)
        with self._changed:
            while True:
                messages = self._read(positions, gaps, most) if self._up else []
                left = end - time.monotonic()
                if messages or left <= 0:
                    return messages
                self._changed.wait(left)

    def _read(
        self, positions: dict[TopicPartition, int], gaps: list[LogGap], most: int
    ) -> list[ConsumerRecord]:
        messages: list[ConsumerRecord] = []
        for (topic, at), position in positions.items():
            if at >= len(self._topics.get(topic, ())):
                continue
            part, start = self._topics[topic][at], position
            if not part.begin <= position <= part.end:
                start = part.begin
                gaps.append(LogGap(topic, at, position, start))
            taken = part.records[start - part.begin :][: most - len(messages)]
            positions[topic, at] = start + len(taken)
            messages += taken
        return messages


class MemoryProducer(Producer):
    """Appends at once; callbacks run from `poll` and `flush`, as Kafka's do."""

    def __init__(self, bus: MemoryBus, message_timeout_s: float) -> None:
        self._bus = bus
        self._timeout_s = message_timeout_s
        self._lock = threading.RLock()
        self._waiting: deque[_Sent] = deque()
        self._done: deque[Callable[[], None]] = deque()

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        headers: Headers = (),
        partition: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> None:
        """Enqueue a record. Raises QueueFull or TooLarge; other errors go to `on_delivery`."""
        if len(key or b"") + len(value or b"") > MAX_RECORD:
            raise TooLarge(f"a record of more than {MAX_RECORD} bytes")
        give_up = time.monotonic() + self._timeout_s
        with self._lock:
            if len(self._waiting) + len(self._done) >= MAX_QUEUE:
                raise QueueFull("the producer's queue is full")
            self._waiting.append(
                _Sent(topic, key, value, tuple(headers), partition, on_delivery, give_up)
            )
            self._advance()

    def _advance(self) -> None:
        """Append what the bus accepts, and give up on records that have waited too long."""
        while self._waiting:
            sent = self._waiting[0]
            outcome = self._bus.append(sent)
            if outcome is None:
                if time.monotonic() < sent.give_up:
                    return
                outcome = Unavailable("the bus is stopped")
            self._waiting.popleft()
            self._done.append(_callback(sent.on_delivery, outcome))

    def poll(self, timeout_s: float = 0) -> None:
        """Run the callbacks of finished deliveries, waiting at most `timeout_s` for the first."""
        end = time.monotonic() + timeout_s
        while not self._serve() and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.005))

    def _serve(self) -> bool:
        with self._lock:
            self._advance()
            done, self._done = self._done, deque()
        for call in done:
            call()
        return bool(done)

    def flush(self, timeout_s: float) -> int:
        """Wait until all records are delivered or have failed; return how many are still
        pending."""
        end = time.monotonic() + timeout_s
        while True:
            self._serve()
            left = len(self._waiting) + len(self._done)
            if not left or time.monotonic() >= end:
                return left
            time.sleep(0.005)

    def close(self, timeout_s: float = 2) -> None:
        """Flush for `timeout_s`, then close. Undelivered records are dropped."""
        self.flush(timeout_s)
        with self._lock:
            self._waiting.clear()


class MemoryReader:
    """Reads a MemoryBus. Not thread-safe."""

    def __init__(self, bus: MemoryBus, starts: Mapping[TopicPartition, int]) -> None:
        self.gaps: list[LogGap] = []
        self._bus = bus
        self._positions = dict(starts)

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read only these partitions, from these offsets."""
        self._positions = dict(starts)

    def poll(self, timeout_s: float, max_records: int = 1000) -> list[ConsumerRecord]:
        """Return the records that have arrived, waiting only for the first."""
        return self._bus.read(self._positions, self.gaps, timeout_s, max_records)

    def positions(self) -> dict[TopicPartition, int]:
        """Return the next offset to read for each assigned partition."""
        return dict(self._positions)

    def at_end(self) -> bool:
        """Return whether everything in the logs has been returned."""
        ends = self._bus.offsets({topic for topic, _ in self._positions})
        return all(position >= ends[place][1] for place, position in self._positions.items())

    def close(self) -> None:
        """Forget the positions; there is no connection to close."""
        self._positions = {}


class MemoryMember:
    """A place in a group of a MemoryBus. Not thread-safe."""

    def __init__(
        self,
        bus: MemoryBus,
        group: list[MemoryMember],
        places: tuple[TopicPartition, ...],
        name: str,
        events: MemberEvents,
        session_s: float,
        clock: Callable[[], float],
    ) -> None:
        self.name, self.group, self.held = name, group, tuple[TopicPartition, ...]()
        self._bus, self._places, self._events = bus, places, events
        self._session_s, self._clock = session_s, clock
        self._alive_at = clock()

    def silent(self) -> bool:
        """Return whether the session is over."""
        return self._clock() - self._alive_at > self._session_s

    def poll(self, timeout_s: float) -> None:  # noqa: ARG002 - nothing is waited for here
        """Keep the place in the group, and run the callbacks for changes."""
        if self.held and (self not in self.group or self.silent()):
            self._lose()
        if self.silent() and self in self.group:
            self.group.remove(self)
        mine = self._bus.round(self)
        self._alive_at = self._clock()
        if mine and not self.held:
            self.held = self._places
            self._events.assigned(self.held)

    def _lose(self) -> None:
        lost, self.held = self.held, ()
        self._events.revoked(lost)

    def confirm(self, positions: Mapping[TopicPartition, int]) -> None:  # noqa: ARG002
        """Let the group say whether the place is still held."""
        if self in self.group and not self.silent():
            self._events.confirmed(self._clock())

    def close(self) -> None:
        """Leave the group."""
        if self in self.group:
            self.group.remove(self)
        if self.held:
            self._lose()


def _callback(on_delivery: OnDelivery | None, outcome: Delivered | BusError) -> Callable[[], None]:
    return (lambda: None) if on_delivery is None else (lambda: on_delivery(outcome))


def _murmur2(data: bytes) -> int:
    """Return Kafka's hash of a key.

    It is repeated here because this package imports nothing from the others.
    """
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = 0x9747B28C ^ len(data)
    for at in range(0, len(data) & ~3, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ (k >> 24)) * m & mask)
    if tail := data[len(data) & ~3 :]:
        h = (h ^ int.from_bytes(tail, "little")) * m & mask
    h = (h ^ (h >> 13)) * m & mask
    return h ^ (h >> 15)
