"""What the rest of the product sees of Kafka: messages, producers, readers, topics.

`bus.kafka.KafkaBus` is the real one, `bus.memory.MemoryBus` its twin for tests. One contract test
runs over both.
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
    """A record as it was read. `timestamp`: Unix ms, the broker's append time."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


class TopicSpec(NamedTuple):
    """A topic as it should be; `config` holds Kafka's own names, such as `cleanup.policy`."""

    name: str
    partitions: int
    config: Mapping[str, str]


class Delivered(NamedTuple):
    """Where a record went. `timestamp`: Unix ms, the broker's append time."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class LogGap(NamedTuple):
    """A start that the log no longer (or not yet) holds: reading went on from `got` instead."""

    topic: str
    partition: int
    wanted: int
    got: int


class BusError(Exception):
    """Something that Kafka refused, in words."""


class Unavailable(BusError):
    """No broker answers, or not in time. Trying again later may help."""


class AccessRefused(BusError):
    """Kafka refuses who asks. Trying again helps once somebody has put the login or rights right;
    the words name the setting, and the topic or group."""


class LoginRefused(AccessRefused, Unavailable):
    """No broker takes the login, so what was under way may have arrived or not."""


class NotPermitted(AccessRefused):
    """The user lacks a right on a topic, a group or the cluster."""


class QueueFull(BusError):
    """The producer takes no record just now: poll, and send again."""


class TooLarge(BusError):
    """A record larger than the producer or the topic takes. Trying again does not help."""


class TopicMismatch(BusError):
    """A topic that exists with another number of partitions than it should have."""


def no_answer(error: BusError) -> str:
    """Return why Kafka has not answered, for people: that it does not, or what it refuses."""
    return str(error) if isinstance(error, AccessRefused) else f"Kafka does not answer: {error}"


class Outgoing(NamedTuple):
    """A record to be sent as it is; without a partition its key decides."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None


# Called once for each record sent, from within `poll` or `flush`.
OnDelivery = Callable[[Delivered | BusError], None]


class Producer(Protocol):
    """Idempotent, `acks=all`, and with Java's partitioner. Safe to share among threads."""

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
        """Enqueue a record. Raises QueueFull or TooLarge; all else comes to `on_delivery`."""

    def poll(self, timeout_s: float = 0) -> None:
        """Call what deliveries are due, waiting at most `timeout_s` for the first."""

    def flush(self, timeout_s: float) -> int:
        """Wait until all is delivered or has failed; the number of records still under way."""

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
        """Send one record and wait for its place in the log.

        Raises BusError. After Unavailable the record may still have been delivered, or be so later.
        """
        outcome: list[Delivered | BusError] = []
        self.send(
            topic, key, value, headers=headers, partition=partition, on_delivery=outcome.append
        )
        end = time.monotonic() + timeout_s
        while not outcome and (left := end - time.monotonic()) > 0:
            # Another thread's poll may serve our delivery, so never wait for long.
            self.poll(min(left, 0.02))
        if not outcome:
            raise self.unconfirmed(timeout_s)
        if isinstance(outcome[0], BusError):
            raise outcome[0]
        return outcome[0]

    def send_all(
        self, records: Iterable[Outgoing], timeout_s: float = 10
    ) -> list[Delivered | BusError | None]:
        """Send records in their order, and wait for all of them.

        Returns for each its place or why it was refused; None for one that may still arrive.
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
        """Enqueue a record; a full queue empties meanwhile, until `end`, monotonic."""
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
        """Return why a record is not confirmed after this long."""
        return Unavailable(f"no confirmation from Kafka within {timeout_s:g} s")

    def close(self, timeout_s: float = 2) -> None:
        """Flush for `timeout_s` and let go; what is still undelivered then is dropped."""


class Reader(Protocol):
    """Reads the partitions it is given, without a consumer group, committed records only.

    For one thread. A lost broker is no error: `poll` returns [] until it is back. One that refuses
    the login or a topic is: then `poll` raises Refused, and asks again when it is called again.
    """

    gaps: list[LogGap]
    """Starts out of the log's range that were moved to its beginning, oldest first."""

    def poll(self, timeout_s: float, max_records: int = 1000) -> list[ConsumerRecord]:
        """Return the messages that have arrived; waits for the first only.

        Each partition's are in order of offset. Raises Refused.
        """

    def positions(self) -> dict[TopicPartition, int]:
        """Return the next offset to read, per assigned partition."""

    def at_end(self) -> bool:
        """Return whether all has been returned that the logs held when the broker last answered."""

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets, and no others."""

    def close(self) -> None:
        """Let go of the connection."""


class Batches(Protocol):
    """The log of one partition, batch by batch."""

    def between(self, begin: int, end: int) -> Iterator[Batch]:
        """Yield the batches that hold records of offsets from `begin` to before `end`, in order.

        Raises BusError.
        """


class Producers(Protocol):
    """One Kafka cluster to write to."""

    def producer(self, *, linger_ms: float = 5, message_timeout_s: float = 30) -> Producer:
        """Return a producer that gives a record up `message_timeout_s` after it was sent."""


class Bus(Producers, Protocol):
    """One Kafka cluster."""

    def reader(self, starts: Mapping[TopicPartition, int], *, gather_s: float = 0) -> Reader:
        """Return a reader of these partitions; an offset out of range goes to the earliest.

        gather_s: how long the broker may gather records before it answers, s; 0: it answers with
        the first, which under load is an answer for each record.
        """

    def partitions(self, topic: str, timeout_s: float = 10) -> int:
        """Return how many partitions the topic has, 0 where it is missing. Raises Unavailable."""

    def offsets(
        self, topics: Iterable[str], timeout_s: float = 10
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Return the first and the next offset of each partition; a missing topic is left out.

        Raises Unavailable.
        """

    def ends(
        self, places: Iterable[TopicPartition], timeout_s: float = 10
    ) -> dict[TopicPartition, int]:
        """Return the next offset of each of these partitions, with one request.

        Raises BusError.
        """

    def ensure_topics(
        self, specs: Iterable[TopicSpec], *, replication: int = 1, timeout_s: float = 30
    ) -> None:
        """Create what is missing and wait until it can be written to.

        Raises TopicMismatch where a partition count differs, Unavailable when time is up.
        """

    def topic_ids(self, topics: Iterable[str], timeout_s: float = 10) -> dict[str, str]:
        """Return each topic's id, another after it was deleted and made again; a missing topic is
        left out.

        Raises BusError.
        """

    def settings(self, topics: Iterable[str], timeout_s: float = 10) -> dict[str, dict[str, str]]:
        """Return each topic's settings in force, by Kafka's own names; a missing topic is left out.

        Raises BusError where Kafka does not give them, Unavailable when time is up.
        """

    def alter(self, topic: str, settings: Mapping[str, str], timeout_s: float = 10) -> None:
        """Change these of a topic's settings, and no others. Raises BusError."""

    def batches(
        self, place: TopicPartition, timeout_s: float = 10
    ) -> AbstractContextManager[Batches]:
        """Open the log of a partition, to be read batch by batch as it is. Raises BusError."""

    def wait(self, timeout_s: float) -> None:
        """Return once a broker answers. Raises Unavailable."""

    def members(self, group: str, timeout_s: float = 5) -> list[GroupMember]:
        """Return who is in a group; nobody where there is no such group. Raises BusError."""


# How often a member of a group gives a sign of life, s.
HEARTBEAT_S = 0.5


# ---- groups -------------------------------------------------------------------------------------


class GroupMember(NamedTuple):
    """A member of a consumer group under the name that it announces, and what it is assigned."""

    name: str
    partitions: tuple[TopicPartition, ...]


class MemberEvents(Protocol):
    """What a member of a group is told, from within its `poll`."""

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Take these partitions, beside those that it has."""

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Give these partitions up: once this returns, another member may have them."""

    def confirmed(self, asked_at: float) -> None:
        """Note that the group still counted it as a member at `asked_at` (the clock's, s)."""


class ConsumerMember(Protocol):
    """A place in a consumer group that reads no records: it says whose the partitions are.

    For one thread.
    """

    def poll(self, timeout_s: float) -> None:
        """Keep the place, and tell what has changed."""

    def confirm(self, positions: Mapping[TopicPartition, int]) -> None:
        """Commit positions, so that the group says whether the place is still held.

        Does nothing while an earlier answer is awaited.
        """

    def close(self) -> None:
        """Leave the group, so that others take over at once."""


class GroupBus(Bus, Protocol):
    """A cluster that can be a member's too."""

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
        """Join a group under a name that others read with `members`.

        session_s: after so long without a sign of life its partitions go to others; clock: in s;
        heartbeat_s: how often it gives one, and learns that partitions move.
        """

    def dismiss(self, group: str, name: str, timeout_s: float = 5) -> bool:
        """Have a group go on without a member that is known to be dead, as if it had left.

        Its partitions go to others at once, not after its session. Returns whether there was one of
        that name. Raises BusError.
        """
