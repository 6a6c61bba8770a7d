"""The one module that talks to Kafka."""

# librdkafka's own error codes begin with an underscore.
# ruff: noqa: SLF001

from __future__ import annotations

import math
import struct
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import confluent_kafka as ck
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

from bus.base import (
    HEARTBEAT_S,
    BusError,
    Delivered,
    Gap,
    GroupMember,
    Headers,
    MemberEvents,
    Message,
    OnDelivery,
    Producer,
    QueueFull,
    TopicMismatch,
    TopicPartition,
    TopicSpec,
    Unavailable,
)
from bus.kafka_batches import KafkaBatches
from bus.kafka_connection import KafkaConnection, text
from bus.kafka_errors import bus_error, complaint, log, raised, result

_COMMON = {"reconnect.backoff.max.ms": "1000", "log_level": "2"}
# What a reader takes at once, and what it unpacks at most; a larger batch is passed over.
_READER = {
    "group.id": "tallyboard-reader",
    "enable.auto.commit": "false",
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
    "topic.metadata.refresh.interval.ms": "10000",
    "fetch.max.bytes": str(16 << 20),
    "fetch.message.max.bytes": str(1 << 20),
    "receive.message.max.bytes": str(128 << 20),
}
_MEMBER = {
    "enable.auto.commit": "false",
    "auto.offset.reset": "earliest",
    "partition.assignment.strategy": "cooperative-sticky",
    "max.poll.interval.ms": "60000",
}
# Kafka's request to leave a group, in its last version without tagged fields.
_LEAVE_GROUP, _LEAVE_VERSION, _NO_INSTANCE = 13, 3, struct.pack(">h", -1)
_PRODUCER = {
    "enable.idempotence": "true",
    "acks": "all",
    "partitioner": "murmur2_random",
    "compression.type": "lz4",
}
# What librdkafka says of a batch that it does not unpack, again and again.
_UNREADABLE = {ck.KafkaError._BAD_COMPRESSION, ck.KafkaError._BAD_MSG}
_ENOUGH_BYTES = 262_144
_BACKOFF_S = 0.1
_MAX_BACKOFF_S = 2.0
_PATIENCE_S = 3.0


def _delivered(on_delivery: OnDelivery, error: ck.KafkaError | None, message: Any) -> None:
    """Translate librdkafka's delivery report."""
    if error is not None:
        on_delivery(bus_error(error))
        return
    _, stamp = message.timestamp()
    on_delivery(Delivered(message.topic(), message.partition(), message.offset(), stamp))


class KafkaProducer(Producer):
    """An idempotent producer that replaces itself after an error that librdkafka calls fatal."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """options: librdkafka's settings. Raises BusError for those that it does not know."""
        self._options = dict(options)
        self._lock = threading.Lock()
        self._inner = self._open()

    def _open(self) -> ck.Producer:
        try:
            return ck.Producer({**self._options, "error_cb": complaint()}, logger=log)
        except ck.KafkaException as error:
            raise raised(error) from error

    def _renew(self, broken: ck.Producer) -> None:
        """Replace `broken`, once; what it still held comes back as failed."""
        with self._lock:
            if self._inner is not broken:
                return
            log.warning("kafka producer starts over after a fatal error")
            self._inner = self._open()
        broken.purge()
        broken.flush(2)

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
        call: dict[str, Any] = {"headers": list(headers) or None}
        if partition is not None:
            call["partition"] = partition
        if on_delivery is not None:
            call["on_delivery"] = partial(_delivered, on_delivery)
        try:
            self._produce(topic, value, key, call)
        except ck.KafkaException as error:
            raise raised(error) from error

    def _produce(
        self, topic: str, value: bytes | None, key: bytes | None, call: dict[str, Any]
    ) -> None:
        """Enqueue, with a new producer where this one is broken for good."""
        inner = self._inner
        try:
            inner.produce(topic, value, key, **call)
        except BufferError as full:
            raise QueueFull("the producer's queue is full") from full
        except ck.KafkaException as error:
            if error.args[0].code() != ck.KafkaError._FATAL and not error.args[0].fatal():
                raise
            self._renew(inner)
            self._inner.produce(topic, value, key, **call)

    def poll(self, timeout_s: float = 0) -> None:
        """Call what deliveries are due, waiting at most `timeout_s` for the first."""
        self._inner.poll(timeout_s)

    def flush(self, timeout_s: float) -> int:
        """Wait until all is delivered or has failed; the number of records still under way."""
        return int(self._inner.flush(timeout_s))

    def close(self, timeout_s: float = 2) -> None:
        """Flush for `timeout_s` and let go; what is still undelivered then is dropped."""
        if self._inner.flush(timeout_s):
            self._inner.purge()
            self._inner.flush(1)


def _gathering(seconds: float) -> dict[str, str]:
    """Return the settings for a consumer answered after `seconds` s, or once enough has come."""
    if not seconds:
        return {}
    wait_ms = str(round(seconds * 1000))
    return {"fetch.min.bytes": str(_ENOUGH_BYTES), "fetch.wait.max.ms": wait_ms}


class KafkaReader:
    """A synchronous consumer of assigned partitions."""

    def __init__(
        self,
        options: Mapping[str, str],
        starts: Mapping[TopicPartition, int],
        batches: Callable[[TopicPartition], KafkaBatches],
    ) -> None:
        """batches: opens a partition's log, to look at what cannot be unpacked."""
        self.gaps: list[Gap] = []
        self._options, self._batches = {**options, **_READER}, batches
        self._stuck: set[TopicPartition] = set()
        self._positions: dict[TopicPartition, int] = {}
        self._lost: set[TopicPartition] = set()
        self._inner = self._open()
        self.assign(starts)

    def _open(self) -> ck.Consumer:
        return ck.Consumer({**self._options, "error_cb": complaint()}, logger=log)

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets, and no others."""
        self._positions = dict(starts)
        self._lost, self._stuck = set(), set()
        self._reassign()

    def _reassign(self) -> None:
        self._inner.assign([ck.TopicPartition(t, p, at) for (t, p), at in self._positions.items()])

    def poll(self, timeout_s: float, max_records: int = 1000) -> list[Message]:
        """Return the messages that have arrived; waits for the first only."""
        end = time.monotonic() + timeout_s
        while True:
            messages = self._take(max(0.0, end - time.monotonic()), max_records)
            if messages or time.monotonic() >= end:
                return messages

    def at_end(self) -> bool:
        """Return whether all has been returned that the logs held when the broker last answered."""
        return not self._lost and all(
            position >= self._known_end(place) for place, position in self._positions.items()
        )

    def _known_end(self, place: TopicPartition) -> float:
        """Return the next offset as librdkafka last heard it; infinity before it heard one."""
        known = self._inner.get_watermark_offsets(ck.TopicPartition(*place), cached=True)
        return known[1] if known and known[1] >= 0 else math.inf

    def _take(self, timeout_s: float, max_records: int) -> list[Message]:
        """Read one round; it may come back empty and early, after an event that was no record."""
        try:
            if self._lost:
                self._mend(min(timeout_s, _PATIENCE_S))
            if self._stuck:
                self._pass_over()
            batch = self._inner.consume(1, timeout_s)
            if batch and max_records > 1:
                batch += self._inner.consume(max_records - 1, 0)
        except ck.KafkaException as error:
            return self._start_over(error, timeout_s)
        return [taken for raw in batch if (taken := self._accept(raw)) is not None]

    def _start_over(self, error: ck.KafkaException, timeout_s: float) -> list[Message]:
        """Replace a consumer that raises by a new one at the same positions."""
        log.warning("kafka reader starts over: %s", error)
        time.sleep(min(timeout_s, _BACKOFF_S))
        self._close_inner()
        self._inner = self._open()
        self._reassign()
        return []

    def _accept(self, raw: Any) -> Message | None:
        """Return a record, or None for an event, whose consequences are drawn here."""
        place = (raw.topic(), raw.partition())
        error = raw.error()
        if error is not None:
            self._event(error, place, raw.offset())
            return None
        if place not in self._positions or place in self._lost:
            return None
        self._positions[place] = raw.offset() + 1
        return Message(
            place[0],
            place[1],
            raw.offset(),
            raw.timestamp()[1],
            raw.key(),
            raw.value(),
            tuple(raw.headers() or ()),
        )

    def _event(self, error: ck.KafkaError, place: TopicPartition, offset: int) -> None:
        code = error.code()
        if code == ck.KafkaError._PARTITION_EOF:
            # Also past what compaction or a transaction's marker left without a record.
            if place in self._positions and place not in self._lost:
                self._positions[place] = max(self._positions[place], offset)
        elif code == ck.KafkaError._AUTO_OFFSET_RESET and place in self._positions:
            self._lost.add(place)
        elif code in _UNREADABLE and place in self._positions:
            self._stuck.add(place)
        else:
            log.debug("kafka reader: %s", error)

    def _pass_over(self) -> None:
        """Go on behind batches that cannot be unpacked; what is no answer is asked for again."""
        for place in sorted(self._stuck):
            at = self._positions[place]
            try:
                with self._batches(place) as log_:
                    batch = next(log_.between(at, at + 1), None)
            except BusError as error:
                log.debug("kafka reader: %s", error)
                return
            self._stuck.discard(place)
            if batch is not None:
                self._positions[place] = batch.last + 1
                name = f"{place[0]}/{place[1]}"
                log.warning("%s: %d to %d cannot be unpacked", name, at, batch.last)
        self._reassign()

    def _mend(self, timeout_s: float) -> None:
        """Move partitions whose position is outside the log to the log's beginning."""
        for topic, partition in sorted(self._lost):
            place = ck.TopicPartition(topic, partition)
            try:
                low, high = self._inner.get_watermark_offsets(place, max(timeout_s, 0.5))
            except ck.KafkaException:
                return
            wanted = self._positions[topic, partition]
            if not low <= wanted <= high:
                self.gaps.append(Gap(topic, partition, wanted, low))
                self._positions[topic, partition] = low
            self._lost.discard((topic, partition))
        self._reassign()

    def positions(self) -> dict[TopicPartition, int]:
        """Return the next offset to read, per assigned partition."""
        return dict(self._positions)

    def close(self) -> None:
        """Let go of the connection."""
        self._close_inner()

    def _close_inner(self) -> None:
        try:
            self._inner.close()
        except (ck.KafkaException, RuntimeError) as error:
            log.debug("kafka reader did not close: %s", error)


class KafkaMember:
    """A consumer that is assigned partitions, pauses them, and reads none of their records."""

    def __init__(
        self,
        options: Mapping[str, str],
        topic: str,
        events: MemberEvents,
        clock: Callable[[], float],
    ) -> None:
        self._events, self._clock = events, clock
        self._asked_at: float | None = None
        hooks = {"error_cb": complaint(), "on_commit": self._committed}
        self._inner = ck.Consumer({**options, **hooks}, logger=log)
        self._inner.subscribe(
            [topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def poll(self, timeout_s: float) -> None:
        """Keep the place, and tell what has changed. Raises Unavailable where it cannot."""
        try:
            raw = self._inner.poll(timeout_s)
        except ck.KafkaException as error:
            raise raised(error) from error
        problem = raw.error() if raw is not None else None
        if problem is not None and problem.fatal():
            raise Unavailable(problem.str())

    def confirm(self, positions: Mapping[TopicPartition, int]) -> None:
        """Commit positions; does nothing while an earlier answer is awaited."""
        if self._asked_at is not None or not positions:
            return
        offsets = [ck.TopicPartition(t, p, at) for (t, p), at in positions.items()]
        self._asked_at = self._clock()
        try:
            self._inner.commit(offsets=offsets, asynchronous=True)
        except ck.KafkaException as error:
            self._asked_at = None
            log.debug("kafka member: %s", error)

    def close(self) -> None:
        """Leave the group, so that others take over at once."""
        try:
            self._inner.close()
        except (ck.KafkaException, RuntimeError) as error:
            log.debug("kafka member did not close: %s", error)

    def _committed(self, error: ck.KafkaError | None, partitions: list[ck.TopicPartition]) -> None:
        asked_at, self._asked_at = self._asked_at, None
        refused = error is not None or any(each.error is not None for each in partitions)
        if asked_at is not None and not refused:
            self._events.confirmed(asked_at)

    def _assigned(self, consumer: ck.Consumer, partitions: list[ck.TopicPartition]) -> None:
        consumer.incremental_assign(partitions)
        consumer.pause(partitions)
        self._events.assigned([(each.topic, each.partition) for each in partitions])

    def _revoked(self, consumer: ck.Consumer, partitions: list[ck.TopicPartition]) -> None:
        self._events.revoked([(each.topic, each.partition) for each in partitions])
        consumer.incremental_unassign(partitions)


def _places(assignment: Any) -> tuple[TopicPartition, ...]:
    """Return what a described member is assigned; nothing while its group rebalances."""
    listed = assignment.topic_partitions if assignment is not None else ()
    return tuple((each.topic, each.partition) for each in listed)


class KafkaBus:
    """A Kafka cluster. `options`: librdkafka's names, `bootstrap.servers` at least."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {**_COMMON, **options}
        self._lock = threading.Lock()
        self._admin: AdminClient | None = None

    def producer(self, *, linger_ms: float = 5, message_timeout_s: float = 30) -> KafkaProducer:
        """Return a producer that gives a record up `message_timeout_s` after it was sent."""
        timing = {
            "linger.ms": f"{linger_ms:g}",
            "delivery.timeout.ms": str(max(int(message_timeout_s * 1000), int(linger_ms) + 1)),
        }
        return KafkaProducer({**self._options, **_PRODUCER, **timing})

    def reader(self, starts: Mapping[TopicPartition, int], *, gather_s: float = 0) -> KafkaReader:
        """Return a reader of these partitions; an offset out of range goes to the earliest."""
        return KafkaReader({**self._options, **_gathering(gather_s)}, starts, self.batches)

    def batches(self, place: TopicPartition, timeout_s: float = 10) -> KafkaBatches:
        """Open the log of a partition, to be read batch by batch. Raises BusError."""
        try:
            cluster = self._client().list_topics(place[0], timeout=timeout_s)
        except ck.KafkaException as error:
            raise raised(error) from error
        partition = cluster.topics[place[0]].partitions.get(place[1])
        leader = cluster.brokers.get(partition.leader) if partition is not None else None
        if leader is None or leader.host is None:
            raise Unavailable(f"{place[0]}/{place[1]} has no leader")
        return KafkaBatches((leader.host, leader.port), place, self._options, timeout_s)

    def alter(self, topic: str, settings: Mapping[str, str], timeout_s: float = 10) -> None:
        """Change these of a topic's settings, and no others. Raises BusError."""
        kind, change = ConfigResource.Type.TOPIC, AlterConfigOpType.SET
        entries = [
            ConfigEntry(key, value, incremental_operation=change) for key, value in settings.items()
        ]
        resource = ConfigResource(kind, topic, incremental_configs=entries)
        futures = self._client().incremental_alter_configs([resource], request_timeout=timeout_s)
        for future in futures.values():
            result(future, timeout_s)

    def partitions(self, topic: str) -> int:
        """Return how many partitions the topic has, 0 where it is missing. Raises Unavailable."""
        return self._counts(10).get(topic, 0)

    def offsets(
        self, topics: Iterable[str], timeout_s: float = 10
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Return the first and the next offset of each partition; a missing topic is left out.

        Raises BusError.
        """
        wanted, edges = list(topics), {}

        def ask(left_s: float) -> bool:
            edges.update(self._offsets(wanted, left_s))
            return True

        _until(timeout_s, ask)
        return edges

    def ends(
        self, places: Iterable[TopicPartition], timeout_s: float = 10
    ) -> dict[TopicPartition, int]:
        """Return the next offset of each of these partitions, with one request.

        Raises BusError.
        """
        return self._edges([ck.TopicPartition(*place) for place in places], "latest", timeout_s)

    def _offsets(
        self, topics: list[str], timeout_s: float
    ) -> dict[TopicPartition, tuple[int, int]]:
        counts = self._counts(timeout_s)
        places = [ck.TopicPartition(t, p) for t in topics for p in range(counts.get(t, 0))]
        if not places:
            return {}
        begin, end = (self._edges(places, edge, timeout_s) for edge in ("earliest", "latest"))
        return {place: (begin[place], end[place]) for place in begin}

    def _edges(
        self, places: list[ck.TopicPartition], edge: str, timeout_s: float
    ) -> dict[TopicPartition, int]:
        spec: OffsetSpec = getattr(OffsetSpec, edge)()
        futures = self._client().list_offsets(
            dict.fromkeys(places, spec),
            isolation_level=ck.IsolationLevel.READ_COMMITTED,
            request_timeout=timeout_s,
        )
        offsets = {(p.topic, p.partition): result(f, timeout_s).offset for p, f in futures.items()}
        for (topic, partition), offset in offsets.items():
            if offset < 0:  # librdkafka's word for "not known", as after a broker's restart
                raise Unavailable(f"no broker knows the offsets of {topic}/{partition} yet")
        return offsets

    def topic_ids(self, topics: Iterable[str], timeout_s: float = 10) -> dict[str, str]:
        """Return each topic's id; a missing topic is left out. Raises BusError."""
        known = self._counts(timeout_s)
        wanted = [name for name in topics if name in known]
        if not wanted:
            return {}
        futures = self._client().describe_topics(
            ck.TopicCollection(wanted), request_timeout=timeout_s
        )
        return {name: str(result(future, timeout_s).topic_id) for name, future in futures.items()}

    def settings(self, topics: Iterable[str], timeout_s: float = 10) -> dict[str, dict[str, str]]:
        """Return each topic's settings in force, by Kafka's own names. Raises BusError."""
        wanted, settings = set(topics), {}

        def ask(left_s: float) -> bool:
            settings.update(self._settings(wanted & self._counts(left_s).keys(), left_s))
            return True

        _until(timeout_s, ask)
        return settings

    def _settings(self, topics: Iterable[str], timeout_s: float) -> dict[str, dict[str, str]]:
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics]
        if not resources:
            return {}
        futures = self._client().describe_configs(resources, request_timeout=timeout_s)
        return {
            resource.name: {key: entry.value for key, entry in result(future, timeout_s).items()}
            for resource, future in futures.items()
        }

    def ensure_topics(
        self, specs: Iterable[TopicSpec], *, replication: int = 1, timeout_s: float = 30
    ) -> None:
        """Create what is missing and wait until it can be written to.

        Raises TopicMismatch where a partition count differs, Unavailable when time is up.
        """
        wanted = {spec.name: spec for spec in specs}
        _until(timeout_s, lambda left: self._create(wanted, replication, left))

    def _create(self, wanted: Mapping[str, TopicSpec], replication: int, left_s: float) -> bool:
        """Try once to create them; return whether every topic has a leader for each partition."""
        counts = self._counts(left_s)
        for name, spec in wanted.items():
            if counts.get(name, spec.partitions) != spec.partitions:
                partitions = counts[name]
                raise TopicMismatch(
                    f"topic {name} has {partitions} partitions, expected {spec.partitions}: "
                    "a topic's partition count is fixed"
                )
        missing = [
            NewTopic(s.name, s.partitions, replication, config=dict(s.config))
            for s in wanted.values()
            if s.name not in counts
        ]
        if not missing:
            return True
        for future in self._client().create_topics(missing, request_timeout=left_s).values():
            try:
                result(future, left_s)
            except BusError as error:
                if "TOPIC_ALREADY_EXISTS" not in str(error):
                    raise
        return False

    def wait(self, timeout_s: float) -> None:
        """Return once a broker answers. Raises Unavailable."""
        _until(timeout_s, lambda left: self._counts(left) is not None)

    def _counts(self, timeout_s: float) -> dict[str, int]:
        """Return the partition counts of the topics of which each partition has a leader."""
        try:
            cluster = self._client().list_topics(timeout=max(0.1, min(timeout_s, 10)))
        except ck.KafkaException as error:
            raise raised(error) from error
        return {
            name: len(topic.partitions)
            for name, topic in cluster.topics.items()
            if topic.error is None and all(p.leader >= 0 for p in topic.partitions.values())
        }

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
    ) -> KafkaMember:
        """Join a group under a name that others read with `members`."""
        session = {
            "group.id": group,
            "client.id": name,
            "session.timeout.ms": str(int(session_s * 1000)),
            "heartbeat.interval.ms": str(int(heartbeat_s * 1000)),
        }
        return KafkaMember({**self._options, **_MEMBER, **session}, topic, events, clock)

    def members(self, group: str, timeout_s: float = 5) -> list[GroupMember]:
        """Return who is in a group; nobody where there is no such group. Raises BusError."""
        described = self._described(group, timeout_s)
        listed = described.members if described is not None else ()
        return [GroupMember(each.client_id, _places(each.assignment)) for each in listed]

    def _described(self, group: str, timeout_s: float) -> Any:
        """Return what Kafka says of a group, None where there is none. Raises BusError."""
        futures = self._client().describe_consumer_groups([group], request_timeout=timeout_s)
        try:
            return result(futures[group], timeout_s)
        except BusError as error:
            if "GROUP_ID_NOT_FOUND" in str(error):
                return None
            raise

    def dismiss(self, group: str, name: str, timeout_s: float = 5) -> bool:
        """Have a group go on without a member that is known to be dead. Raises BusError."""
        described = self._described(group, timeout_s)
        listed = described.members if described is not None else ()
        ids = [each.member_id for each in listed if each.client_id == name]
        if ids:
            coordinator = described.coordinator
            body = text(group) + struct.pack(">i", len(ids))
            body += b"".join(text(member) + _NO_INSTANCE for member in ids)
            server = (coordinator.host, coordinator.port)
            with KafkaConnection(server, self._options, timeout_s) as connection:
                connection.ask(_LEAVE_GROUP, _LEAVE_VERSION, body)
        return bool(ids)

    def _client(self) -> AdminClient:
        with self._lock:
            if self._admin is None:
                self._admin = AdminClient({**self._options, "log_level": "0"})
            return self._admin


def _until(timeout_s: float, attempt: Callable[[float], bool]) -> None:
    """Attempt with growing pauses until it succeeds. Raises the last Unavailable at the end."""
    end = time.monotonic() + timeout_s
    pause = _BACKOFF_S
    while True:
        failure = Unavailable(f"not there within {timeout_s:g} s")
        try:
            if attempt(max(0.1, min(end - time.monotonic(), _PATIENCE_S))):
                return
        except Unavailable as error:
            failure = error
        left = end - time.monotonic()
        if left <= 0:
            raise failure
        time.sleep(min(pause, left))
        pause = min(pause * 2, _MAX_BACKOFF_S)
