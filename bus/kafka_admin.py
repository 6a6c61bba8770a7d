"""Administration of Kafka: topics with their replicas, groups with their commits."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from time import monotonic, sleep
from typing import Any, TypeVar

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from bus.base import BusError, NotPermitted, TopicPartition, TopicSpec, Unavailable
from bus.kafka_connection import KafkaConnection, text
from bus.kafka_errors import LeaderUnknown, Login, bus_error, raised, refused, result

T = TypeVar("T")

_OFFSET_FOR_LEADER_EPOCH = 23
_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Edges:
    """The extent of a partition's log, as offsets.

    begin: the first offset kept; high_watermark: the first offset that not all in-sync replicas
    have (consumers read up to here); log_end: where the leader will append next.
    """

    begin: int
    high_watermark: int
    log_end: int


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition: its leader's number and address (None if it has none), and brokers by number."""

    leader: tuple[int, str] | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """What a group committed for a partition: the next offset to read, and a text."""

    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group: its client's name, its host, and its assigned partitions."""

    client: str
    host: str
    places: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ConsumerGroup:
    """A consumer group. state: Kafka's own word, `DEAD` if no group has this name."""

    name: str
    state: str
    members: tuple[MemberDescription, ...]


_ASK_AGAIN_S = 0.2


class KafkaAdmin:
    """Queries and changes what brokers store. options: librdkafka's names.

    All methods raise BusError.
    """

    def __init__(self, options: Mapping[str, str], timeout_s: float = _TIMEOUT_S) -> None:
        self._options, self._timeout_s = dict(options), timeout_s
        self._login = Login()

    @cached_property
    def _client(self) -> AdminClient:
        hooks: dict[str, Any] = {"error_cb": self._login.on_error}
        return AdminClient({**self._options, "log_level": "0", **hooks})

    def _result(self, future: Future[Any], on: str = "", right: str = "") -> Any:
        """Return the answer to a request. Raises BusError.

        on, right: as in `bus_error`.
        """
        try:
            return result(future, self._timeout_s, on, right)
        except Unavailable as error:
            raise self._cause(error) from error

    def _cause(self, error: BusError) -> BusError:
        """Return the refused login if it caused the error, else the error."""
        self._client.poll(0)  # lets librdkafka call back
        return self._login.cause(error)

    # ---- topics ---------------------------------------------------------------------------------

    def topics(self) -> list[str]:
        """Return the names of all topics except Kafka's own, sorted."""
        return sorted(name for name in self._metadata().topics if not name.startswith("__"))

    def brokers(self) -> int:
        """Return the number of brokers in the cluster.

        A broker too busy for its heartbeat is missing until the next one, so an answer without
        brokers is not accepted. Raises Unavailable if there is none within the timeout.
        """
        give_up = monotonic() + self._timeout_s
        while not (brokers := self._metadata().brokers):
            if monotonic() > give_up:
                raise Unavailable(
                    f"the cluster has had no broker for {self._timeout_s:g} s; try again"
                )
            sleep(_ASK_AGAIN_S)
        return len(brokers)

    def create(self, spec: TopicSpec, replication: int) -> None:
        """Create a topic. Raises BusError with an explanation if the cluster cannot."""
        topic = NewTopic(spec.name, spec.partitions, replication, config=dict(spec.config))
        future = self._client.create_topics([topic], request_timeout=self._timeout_s)[spec.name]
        try:
            self._result(future, spec.name, "CREATE")
        except BusError as error:
            raise self._refusal(spec, replication, error) from error

    def _refusal(self, spec: TopicSpec, replication: int, error: BusError) -> BusError:
        words = str(error)
        if "INVALID_REPLICATION_FACTOR" in words:
            brokers = self.brokers()
            return BusError(
                f"{spec.name} cannot have {replication} replicas, each on a broker of its own: "
                f"the cluster has {brokers} broker{'s' * (brokers != 1)}."
            )
        if "TOPIC_ALREADY_EXISTS" in words:
            return BusError(f"There is a topic {spec.name} already.")
        return error

    def describe(self, topic: str) -> dict[int, PartitionState]:
        """Return the topic's partitions by number. Raises BusError if there is no such topic."""
        metadata = self._metadata(topic).topics[topic]
        if metadata.error is not None and isinstance(
            refusal := bus_error(metadata.error, topic, "DESCRIBE"), NotPermitted
        ):
            raise refusal
        if metadata.error is not None or not metadata.partitions:
            raise BusError(f"There is no topic {topic}.")
        brokers = self._brokers()
        return {
            number: PartitionState(
                (part.leader, brokers[part.leader]) if part.leader in brokers else None,
                tuple(part.replicas),
                tuple(sorted(part.isrs)),
            )
            for number, part in sorted(metadata.partitions.items())
        }

    def _brokers(self) -> dict[int, str]:
        brokers = self._metadata().brokers.values()
        return {broker.id: f"{broker.host}:{broker.port}" for broker in brokers}

    def _metadata(self, topic: str | None = None) -> Any:
        try:
            return self._client.list_topics(topic, timeout=self._timeout_s)
        except ck.KafkaException as error:
            raise self._cause(raised(error)) from error

    # ---- offsets --------------------------------------------------------------------------------

    def edges(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, Edges]:
        """Return the extent of each partition's log, once each has a leader that knows it."""
        places = list(places)
        return self._settled(lambda: self._edges(places))

    def _settled(self, read: Callable[[], T]) -> T:
        """Return what is read, again while leaders change. Raises BusError."""
        deadline = monotonic() + self._timeout_s
        while True:
            try:
                return read()
            except LeaderUnknown:
                if monotonic() > deadline:
                    raise
                sleep(_ASK_AGAIN_S)

    def _edges(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, Edges]:
        begins = self._listed(dict.fromkeys(places, OffsetSpec.earliest()))
        ends = self._listed(dict.fromkeys(places, OffsetSpec.latest()))
        epochs = {place: end.leader_epoch for place, end in ends.items()}
        log_ends = self._log_ends(epochs)
        return {
            place: Edges(begins[place].offset, ends[place].offset, log_ends[place])
            for place in places
        }

    def at_time(
        self, places: Iterable[TopicPartition], moment: datetime
    ) -> dict[TopicPartition, int]:
        """Return the first offset at or after a time, or the log's end if there is none."""
        places = list(places)
        spec = OffsetSpec.for_timestamp(round(moment.timestamp() * 1000))
        listed = self._settled(lambda: self._listed(dict.fromkeys(places, spec)))
        latest = dict.fromkeys(places, OffsetSpec.latest())
        ends = self._settled(lambda: self._listed(latest))
        return {
            place: at.offset if at.offset >= 0 else ends[place].offset
            for place, at in listed.items()
        }

    def _listed(self, asked: Mapping[TopicPartition, OffsetSpec]) -> dict[TopicPartition, Any]:
        if not asked:
            return {}
        futures = self._client.list_offsets(
            {ck.TopicPartition(*place): spec for place, spec in asked.items()},
            isolation_level=ck.IsolationLevel.READ_UNCOMMITTED,
            request_timeout=self._timeout_s,
        )
        return {
            (p.topic, p.partition): self._result(f, p.topic, "DESCRIBE") for p, f in futures.items()
        }

    def _log_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the leaders' log ends, which are the ends of the epochs in which they lead.

        Clients only learn the high watermark, so this asks the leaders the way followers do.
        """
        brokers, ends = self._brokers(), dict[TopicPartition, int]()
        for leader, places in self._by_leader(epochs).items():
            host, _, port = brokers[leader].rpartition(":")
            with KafkaConnection((host, int(port)), self._options, self._timeout_s) as connection:
                ends |= {place: _log_end(connection, place, epochs[place]) for place in places}
        return ends

    def _by_leader(self, places: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Return the partitions by their leader's number.

        Raises Unavailable if one has no leader.
        """
        cluster = self._metadata()
        led: dict[int, list[TopicPartition]] = {}
        for topic, partition in places:
            known = cluster.topics.get(topic)
            part = known.partitions.get(partition) if known is not None else None
            if part is None or part.leader not in cluster.brokers:
                raise Unavailable(f"{topic}/{partition} has no leader")
            led.setdefault(part.leader, []).append((topic, partition))
        return led

    # ---- groups ---------------------------------------------------------------------------------

    def group(self, name: str) -> ConsumerGroup:
        """Return a group's state and members."""
        futures = self._client.describe_consumer_groups([name], request_timeout=self._timeout_s)
        description = self._result(futures[name], name, "DESCRIBE")
        members = tuple(
            MemberDescription(
                member.client_id,
                member.host.lstrip("/"),
                tuple((at.topic, at.partition) for at in member.assignment.topic_partitions),
            )
            for member in description.members
        )
        return ConsumerGroup(name, description.state.name, members)

    def committed(self, group: str) -> dict[TopicPartition, Committed]:
        """Return what the group has committed, leaving out partitions without a commit."""
        asked = [ck.ConsumerGroupTopicPartitions(group)]
        futures = self._client.list_consumer_group_offsets(asked, request_timeout=self._timeout_s)
        offsets = self._result(futures[group], group, "DESCRIBE").topic_partitions
        return {
            (at.topic, at.partition): Committed(at.offset, at.metadata or "")
            for at in offsets
            if at.offset >= 0
        }

    def commit(self, group: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Commit for a group without members. The broker refuses this for a group that has some."""
        places = [
            ck.TopicPartition(*place, to.offset, to.metadata) for place, to in offsets.items()
        ]
        asked = [ck.ConsumerGroupTopicPartitions(group, places)]
        futures = self._client.alter_consumer_group_offsets(asked, request_timeout=self._timeout_s)
        for at in self._result(futures[group], group, "READ").topic_partitions:
            if at.error is not None:
                raise bus_error(at.error, at.topic, "READ")


def _log_end(connection: KafkaConnection, place: TopicPartition, epoch: int) -> int:
    topic, partition = place
    body = struct.pack(">i", 1) + text(topic) + struct.pack(">iiii", 1, partition, -1, epoch)
    answer = connection.ask(_OFFSET_FOR_LEADER_EPOCH, 2, body)
    at = 4 + 4 + 2 + len(topic.encode()) + 4
    code, _, _, end = struct.unpack_from(">hiiq", answer, at)
    if code:
        raise refused(code, topic, "DESCRIBE")
    return int(end)
