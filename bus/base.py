"""What the rest of the product sees of Kafka: messages, producers, readers, topics.

`bus.kafka.KafkaBus` is the real one, `bus.memory.MemoryBus` its twin for tests. One contract test
runs against both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from bus.batch import Batch

# A topic's name and one of its partitions.
TopicPartition = tuple[str, int]

# Headers of a record, in order; a name may occur more than once.
Headers = Sequence[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """A record as read from the log. timestamp: Unix ms, the broker's append time."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class TopicSpec(NamedTuple):
    """A topic as it should be. config: Kafka's own setting names, such as `cleanup.policy`;
    may_grow: whether it may have more partitions."""

    name: str
    partitions: int
    config: Mapping[str, str]
    may_grow: bool = False

    def fits(self, partitions: int) -> bool:
        """Return whether a topic that is there may have so many partitions."""
        return partitions == self.partitions or (self.may_grow and partitions > self.partitions)


class Delivered(NamedTuple):
    """Where a record was stored. timestamp: Unix ms, the broker's append time."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class LogGap(NamedTuple):
    """A start that the log no longer (or not yet) holds. Reading continued from `got` instead."""

    topic: str
    partition: int
    requested: int
    got: int


class BusError(Exception):
    """Kafka refused something; the message says what."""


class Unavailable(BusError):
    """No broker answers, or not in time. Trying again later may help."""


class AccessRefused(BusError):
    """Kafka refuses the client.

    Trying again helps only after somebody has corrected the login or the rights. The message names
    the setting, and the topic or group.
    """


class LoginRefused(AccessRefused, Unavailable):
    """No broker accepts the login, so pending requests may or may not have arrived."""


class NotPermitted(AccessRefused):
    """The user lacks a right on a topic, a group or the cluster."""


class QueueFull(BusError):
    """The producer accepts no record at the moment: poll, then send again."""


class TooLarge(BusError):
    """A record larger than the producer or the topic allows. Trying again does not help."""


class TopicMismatch(BusError):
    """An existing topic has a different number of partitions than it should have."""


def no_answer(error: BusError) -> str:
    """Return a message for people saying why Kafka has not answered: a refusal, or no answer at
    all."""
    return str(error) if isinstance(error, AccessRefused) else f"Kafka does not answer: {error}"


class Outgoing(NamedTuple):
    """A record to send unchanged. Without a partition, its key decides."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None


# Called once for each record sent, from within `poll` or `flush`.
OnDelivery = Callable[[Delivered | BusError], None]


class Producer(Protocol):
    """Idempotent, `acks=all`, with Java's partitioner. Can be shared among threads."""

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

    def poll(self, timeout_s: float = 0) -> None:
        """Run the callbacks of finished deliveries, waiting at most `timeout_s` for the first."""

    def flush(self, timeout_s: float) -> int:
        """Wait until all records are delivered or have failed; return how many are still
        pending."""

    def send_and_wait(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        timeout_s: float = 10,
        headers: Headers = (),
        partition: int | None = None,
    ) -> Delivered:
        """Send one record and return its place in the log.

        Raises BusError. After Unavailable, the record may still have been delivered, or be
        delivered later.
        """
        outcome: list[Delivered | BusError] = []
        self.send(
            topic, key, value, headers=headers, partition=partition, on_delivery=outcome.append
        )
        end = time.monotonic() + timeout_s
        while not outcome and (left := end - time.monotonic()) > 0:
            # Another thread's poll may run our callback, so never wait long.
            self.poll(min(left, 0.02))
        if not outcome:
            raise self.unconfirmed(timeout_s)
        if isinstance(outcome[0], BusError):
            raise outcome[0]
        return outcome[0]

    def send_all(
        self, records: Iterable[Outgoing], timeout_s: float = 10
    ) -> list[Delivered | BusError | None]:
        """Send records in order, and wait for all of them.

        Return for each record its place or the error, or None if it may still arrive.
        """
        end = time.monotonic() + timeout_s
        results: dict[int, Delivered | BusError] = {}
        count = 0
        for count, record in enumerate(records, 1):
            self._send_when_room(record, partial(results.__setitem__, count), end)
        while len(results) < count and time.monotonic() < end:
            self.poll(0.02)
        return [results.get(number) for number in range(1, count + 1)]

    def _send_when_room(self, record: Outgoing, on_delivery: OnDelivery, end: float) -> None:
        """Enqueue a record, retrying while the queue is full until `end` (monotonic time, s)."""
        topic, key, value, headers, partition = record
        while True:
            try:
                self.send(
                    topic, key, value, headers=headers, partition=partition, on_delivery=on_delivery
                )
                return
            except QueueFull as full:
                if time.monotonic() > end:
                    on_delivery(full)
                    return
                self.poll(0.02)
            except BusError as error:
                on_delivery(error)
                return

    def unconfirmed(self, timeout_s: float) -> BusError:
        """Return the reason why a record is still unconfirmed after `timeout_s`."""
        return Unavailable(f"no confirmation from Kafka within {timeout_s:g} s")

    def close(self, timeout_s: float = 2) -> None:
        """Flush for `timeout_s`, then close. Undelivered records are dropped."""


class Reader(Protocol):
    """Reads given partitions without a consumer group, not waiting for open transactions.

    Not thread-safe. A lost broker is no error: `poll` returns [] until it is back. A broker that
    refuses the login or a topic is one: `poll` raises AccessRefused, and tries again on the next
    call.
    """

    gaps: list[LogGap]
    """Starts outside the log's range that were moved to its beginning, oldest first."""

    def poll(self, timeout_s: float, max_records: int = 1000) -> list[ConsumerRecord]:
        """Return the records that have arrived, waiting only for the first.

        Each partition's records are in offset order. Raises AccessRefused.
        """

    def positions(self) -> dict[TopicPartition, int]:
        """Return the next offset to read for each assigned partition."""

    def at_end(self) -> bool:
        """Return whether everything in the logs, as of the broker's last answer, has been
        returned."""

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read only these partitions, from these offsets."""

    def close(self) -> None:
        """Close the connection."""


class Batches(Protocol):
    """The log of one partition, read batch by batch."""

    def between(self, begin: int, end: int) -> Iterator[Batch]:
        """Yield, in order, the batches that contain offsets from `begin` up to, not including,
        `end`.

        Raises BusError.
        """


class Producers(Protocol):
    """One Kafka cluster to write to."""

    def producer(self, *, linger_ms: float = 5, message_timeout_s: float = 30) -> Producer:
        """Return a producer that gives up on a record `message_timeout_s` after it was sent."""


class Bus(Producers, Protocol):
    """One Kafka cluster."""

    def reader(self, starts: Mapping[TopicPartition, int], *, gather_s: float = 0) -> Reader:
        """Return a reader of these partitions. An offset out of range is reset to the earliest.

        gather_s: how long the broker may gather records before it answers, s. With 0 it answers as
        soon as there is one record, which under load means an answer for each record.
        """

    def partitions(self, topic: str, timeout_s: float = 10) -> int:
        """Return the number of partitions, 0 if the topic does not exist. Raises Unavailable."""

    def offsets(
        self, topics: Iterable[str], timeout_s: float = 10
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Return the first and the next offset of each partition, leaving out missing topics.

        Raises Unavailable.
        """

    def ends(
        self, places: Iterable[TopicPartition], timeout_s: float = 10
    ) -> dict[TopicPartition, int]:
        """Return the next offset of each of these partitions, using one request.

        Raises BusError.
        """

    def ensure_topics(
        self, specs: Iterable[TopicSpec], *, replication: int = 1, timeout_s: float = 30
    ) -> None:
        """Create the missing topics and wait until they can be written to.

        Raises TopicMismatch if a partition count differs, and Unavailable after `timeout_s`.
        """

    def topic_ids(self, topics: Iterable[str], timeout_s: float = 10) -> dict[str, str]:
        """Return the id of each topic, leaving out missing ones.

        A topic that is deleted and created again gets a new id. Raises BusError.
        """

    def settings(self, topics: Iterable[str], timeout_s: float = 10) -> dict[str, dict[str, str]]:
        """Return each topic's effective settings by Kafka's names, leaving out missing topics.

        Raises BusError if Kafka does not return them, and Unavailable after `timeout_s`.
        """

    def alter(self, topic: str, settings: Mapping[str, str], timeout_s: float = 10) -> None:
        """Change only these settings of a topic. Raises BusError."""

    def batches(
        self, place: TopicPartition, timeout_s: float = 10
    ) -> AbstractContextManager[Batches]:
        """Open the log of a partition for reading it batch by batch, as stored. Raises BusError."""

    def wait(self, timeout_s: float) -> None:
        """Wait until a broker answers. Raises Unavailable."""

    def cluster_id(self, timeout_s: float = 10) -> str:
        """Return Kafka's id of the cluster: another one has another. Raises BusError."""

    def members(self, group: str, timeout_s: float = 5) -> list[GroupMember]:
        """Return the members of a group, none if it does not exist. Raises BusError."""


# How often a member of a group sends a heartbeat, s.
HEARTBEAT_S = 0.5


# ---- groups -------------------------------------------------------------------------------------


class GroupMember(NamedTuple):
    """A member of a consumer group: the name it announces, and its assigned partitions."""

    name: str
    partitions: tuple[TopicPartition, ...]


class MemberEvents(Protocol):
    """Callbacks of a group member, called from within its `poll`."""

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Take over these partitions in addition to those already held."""

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Give up these partitions: once this returns, another member may have them."""

    def confirmed(self, asked_at: float) -> None:
        """The group still counted this member at `asked_at` (the member's clock, s)."""


class ConsumerMember(Protocol):
    """A place in a consumer group that owns partitions but reads no records.

    Not thread-safe.
    """

    def poll(self, timeout_s: float) -> None:
        """Keep the place in the group, and run the callbacks for changes."""

    def confirm(self, positions: Mapping[TopicPartition, int]) -> None:
        """Commit positions, so that the group says whether the place is still held.

        Does nothing while the answer to an earlier commit is pending.
        """

    def close(self) -> None:
        """Leave the group, so that others take over at once."""


class GroupBus(Bus, Protocol):
    """A cluster in which the program can also be a member of groups."""

    def member(
        self,
        group: str,
        topic: str,
        name: str,
        events: MemberEvents,
        *,
        session_s: float,
        clock: Callable[[], float],
        heartbeat_s: float = HEARTBEAT_S,
    ) -> ConsumerMember:
        """Join a group under a name that others can see through `members`.

        session_s: after this long without a heartbeat, the member's partitions go to others; clock:
        returns s; heartbeat_s: interval of heartbeats, with which it also learns that partitions
        move.
        """

    def dismiss(self, group: str, name: str, timeout_s: float = 5) -> bool:
        """Remove a member that is known to be dead from a group, as if it had left.

        Its partitions go to others at once instead of after its session. Return whether there was a
        member of that name. Raises BusError.
        """
