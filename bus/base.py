"""What the rest of the product sees of Kafka: messages, producers, readers, topics.

`bus.kafka.KafkaBus` is the real one, `bus.memory.MemoryBus` its twin for tests. One contract test
runs over both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from bus.batch import Batch

TopicPartition = tuple[str, int]
"""A topic's name and one of its partitions."""

Headers = Sequence[tuple[str, bytes]]
"""Headers of a record, in order; a name may occur more than once."""


@dataclass(frozen=True, slots=True)
class Message:
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


class Gap(NamedTuple):
    """A start that the log no longer (or not yet) holds: reading went on from `got` instead."""

    topic: str
    partition: int
    wanted: int
    got: int


class BusError(Exception):
    """Something that Kafka refused, in words."""


class Unavailable(BusError):
    """No broker answers, or not in time. Trying again later may help."""


class QueueFull(BusError):
    """The producer takes no record just now: poll, and send again."""


class TooLarge(BusError):
    """A record larger than the producer or the topic takes. Trying again does not help."""


class TopicMismatch(BusError):
    """A topic that exists with another number of partitions than it should have."""


OnDelivery = Callable[[Delivered | BusError], None]
"""Called once for each record sent, from within `poll` or `flush`."""


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

    def close(self, timeout_s: float = 2) -> None:
        """Flush for `timeout_s` and let go; what is still undelivered then is dropped."""


class Reader(Protocol):
    """Reads the partitions it is given, without a consumer group, committed records only.

    For one thread. A lost broker is no error: `poll` returns [] until it is back.
    """

    gaps: list[Gap]
    """Starts out of the log's range that were moved to its beginning, oldest first."""

    def poll(self, timeout_s: float, max_records: int = 1000) -> list[Message]:
        """What has arrived, each partition in order of offset; waits for the first record only."""

    def positions(self) -> dict[TopicPartition, int]:
        """The next offset to read, per assigned partition."""

    def at_end(self) -> bool:
        """Return whether all has been returned that the logs held when the broker last answered."""

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets, and no others."""

    def close(self) -> None:
        """Let go of the connection."""


class Batches(Protocol):
    """The log of one partition, batch by batch."""

    def between(self, begin: int, end: int) -> Iterator[Batch]:
        """The batches that hold records of offsets from `begin` to before `end`, in order.

        Raises BusError.
        """


class Bus(Protocol):
    """One Kafka cluster."""

    def producer(self, *, linger_ms: float = 5, message_timeout_s: float = 30) -> Producer:
        """A producer that gives a record up `message_timeout_s` after it was sent."""

    def reader(self, starts: Mapping[TopicPartition, int], *, gather_s: float = 0) -> Reader:
        """A reader of these partitions; an offset out of range goes to the earliest.

        gather_s: so long the broker may gather records before it answers, s; 0: it answers with the
        first, which under load is an answer for each record.
        """

    def partitions(self, topic: str) -> int:
        """Return how many partitions the topic has, 0 where it is missing. Raises Unavailable."""

    def offsets(
        self, topics: Iterable[str], timeout_s: float = 10
    ) -> dict[TopicPartition, tuple[int, int]]:
        """First offset and next offset of each partition; a missing topic is left out.

        Raises Unavailable.
        """

    def ensure_topics(
        self, specs: Iterable[TopicSpec], *, replication: int = 1, timeout_s: float = 30
    ) -> None:
        """Create what is missing and wait until it can be written to.

        Raises TopicMismatch where a partition count differs, Unavailable when time is up.
        """

    def settings(self, topics: Iterable[str], timeout_s: float = 10) -> dict[str, dict[str, str]]:
        """Each topic's settings in force, by Kafka's own names; a missing topic is left out.

        Raises BusError where Kafka does not tell them, Unavailable when time is up.
        """

    def alter(self, topic: str, settings: Mapping[str, str], timeout_s: float = 10) -> None:
        """Change these of a topic's settings, and no others. Raises BusError."""

    def batches(
        self, place: TopicPartition, timeout_s: float = 10
    ) -> AbstractContextManager[Batches]:
        """The log of a partition, batch by batch, as it lies there. Raises BusError."""

    def wait(self, timeout_s: float) -> None:
        """Return once a broker answers. Raises Unavailable."""
