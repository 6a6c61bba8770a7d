"""A Kafka cluster: requests, readers and group members."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

import confluent_kafka as ck
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

from bus.base import (
    HEARTBEAT_S,
    BusError,
    GroupMember,
    LoginRefused,
    MemberEvents,
    TopicMismatch,
    TopicPartition,
    TopicSpec,
    Unavailable,
)
from bus.kafka_batches import KafkaBatches
from bus.kafka_client import KafkaClient, watched
from bus.kafka_errors import bus_error, raised
from bus.kafka_groups import Coordinator
from bus.kafka_member import KafkaMember
from bus.kafka_reader import KafkaReader

_BACKOFF_S = 0.1
_MAX_BACKOFF_S = 2.0
_PATIENCE_S = 3.0


class KafkaBus(KafkaClient):
    """A Kafka cluster. options: librdkafka's names, at least `bootstrap.servers`."""

    def reader(self, starts: Mapping[TopicPartition, int], *, gather_s: float = 0) -> KafkaReader:
        """Return a reader of these partitions. An offset out of range is reset to the earliest."""
        return KafkaReader(self._options, starts, self.batches, gather_s)

    @watched
    def batches(self, place: TopicPartition, timeout_s: float = 10) -> KafkaBatches:
        """Open the log of a partition for reading batch by batch. Raises BusError."""
        try:
            cluster = self._client().list_topics(place[0], timeout=timeout_s)
        except ck.KafkaException as error:
            raise self._cause(raised(error)) from error
        topic = cluster.topics[place[0]]
        if topic.error is not None:
            raise bus_error(topic.error, place[0], "READ")
        partition = topic.partitions.get(place[1])
        leader = cluster.brokers.get(partition.leader) if partition is not None else None
        if leader is None or leader.host is None:
            raise Unavailable(f"{place[0]}/{place[1]} has no leader")
        return KafkaBatches((leader.host, leader.port), place, self._options, timeout_s)

    @watched
    def alter(self, topic: str, settings: Mapping[str, str], timeout_s: float = 10) -> None:
        """Change only these settings of a topic. Raises BusError."""
        kind, change = ConfigResource.Type.TOPIC, AlterConfigOpType.SET
        entries = [
            ConfigEntry(key, value, incremental_operation=change) for key, value in settings.items()
        ]
        resource = ConfigResource(kind, topic, incremental_configs=entries)
        futures = self._client().incremental_alter_configs([resource], request_timeout=timeout_s)
        for future in futures.values():
            self._result(future, timeout_s, topic, "ALTER_CONFIGS")

    def offsets(
        self, topics: Iterable[str], timeout_s: float = 10
    ) -> dict[TopicPartition, tuple[int, int]]:
        """Return the first and the next offset of each partition, leaving out missing topics.

        Raises BusError.
        """
        names, edges = list(topics), {}

        def ask(left_s: float) -> bool:
            edges.update(self._offsets(names, left_s))
            return True

        _until(timeout_s, ask)
        return edges

    def ends(
        self, places: Iterable[TopicPartition], timeout_s: float = 10
    ) -> dict[TopicPartition, int]:
        """Return the next offset of each of these partitions, using one request.

        Raises BusError.
        """
        return self._edges([ck.TopicPartition(*place) for place in places], "latest", timeout_s)

    def _offsets(
        self, topics: list[str], timeout_s: float
    ) -> dict[TopicPartition, tuple[int, int]]:
        counts = self._present(topics, timeout_s)
        places = [ck.TopicPartition(t, p) for t in topics for p in range(counts.get(t, 0))]
        if not places:
            return {}
        begin, end = (self._edges(places, edge, timeout_s) for edge in ("earliest", "latest"))
        return {place: (begin[place], end[place]) for place in begin}

    @watched
    def _edges(
        self, places: list[ck.TopicPartition], edge: str, timeout_s: float
    ) -> dict[TopicPartition, int]:
        spec: OffsetSpec = getattr(OffsetSpec, edge)()
        futures = self._client().list_offsets(
            dict.fromkeys(places, spec),
            isolation_level=ck.IsolationLevel.READ_UNCOMMITTED,
            request_timeout=timeout_s,
        )
        offsets = {
            (p.topic, p.partition): self._result(f, timeout_s, p.topic, "DESCRIBE").offset
            for p, f in futures.items()
        }
        for (topic, partition), offset in offsets.items():
            if offset < 0:  # librdkafka's value for "not known", as after a broker's restart
                raise Unavailable(f"no broker knows the offsets of {topic}/{partition} yet")
        return offsets

    @watched
    def topic_ids(self, topics: Iterable[str], timeout_s: float = 10) -> dict[str, str]:
        """Return the id of each topic, leaving out missing ones. Raises BusError."""
        topics = list(topics)
        known = self._present(topics, timeout_s)
        existing = [name for name in topics if name in known]
        if not existing:
            return {}
        futures = self._client().describe_topics(
            ck.TopicCollection(existing), request_timeout=timeout_s
        )
        return {
            name: str(self._result(future, timeout_s, name, "DESCRIBE").topic_id)
            for name, future in futures.items()
        }

    def settings(self, topics: Iterable[str], timeout_s: float = 10) -> dict[str, dict[str, str]]:
        """Return each topic's effective settings by Kafka's names. Raises BusError."""
        names, settings = set(topics), {}

        def ask(left_s: float) -> bool:
            settings.update(self._settings(names & self._present(names, left_s).keys(), left_s))
            return True

        _until(timeout_s, ask)
        return settings

    @watched
    def _settings(self, topics: Iterable[str], timeout_s: float) -> dict[str, dict[str, str]]:
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics]
        if not resources:
            return {}
        futures = self._client().describe_configs(resources, request_timeout=timeout_s)
        answers = {
            resource.name: self._result(future, timeout_s, resource.name, "DESCRIBE_CONFIGS")
            for resource, future in futures.items()
        }
        return {
            name: {key: entry.value for key, entry in answer.items()}
            for name, answer in answers.items()
        }

    def ensure_topics(
        self, specs: Iterable[TopicSpec], *, replication: int = 1, timeout_s: float = 30
    ) -> None:
        """Create the missing topics and wait until they can be written to.

        Raises TopicMismatch if a partition count differs, and Unavailable after `timeout_s`.
        """
        by_name = {spec.name: spec for spec in specs}
        _until(timeout_s, lambda left: self._create(by_name, replication, left))

    @watched
    def _create(self, specs: Mapping[str, TopicSpec], replication: int, left_s: float) -> bool:
        """Try once to create the topics.

        Return whether they all exist, with a leader per partition.
        """
        counts = self._counts(left_s)
        for name, spec in specs.items():
            if not spec.fits(counts.get(name, spec.partitions)):
                partitions = counts[name]
                raise TopicMismatch(
                    f"topic {name} has {partitions} partitions, expected {spec.partitions}: "
                    "a topic's partition count is fixed"
                )
        missing = [
            NewTopic(s.name, s.partitions, replication, config=dict(s.config))
            for s in specs.values()
            if s.name not in counts
        ]
        if not missing:
            return True
        futures = self._client().create_topics(missing, request_timeout=left_s)
        for name, future in futures.items():
            try:
                self._result(future, left_s, name, "CREATE, or DESCRIBE where it exists,")
            except BusError as error:
                if "TOPIC_ALREADY_EXISTS" not in str(error):
                    raise
                self._check_visible([name], left_s)
        return False

    def wait(self, timeout_s: float) -> None:
        """Wait until a broker answers. Raises Unavailable."""
        _until(timeout_s, lambda left: self._counts(left) is not None)

    @watched
    def cluster_id(self, timeout_s: float = 10) -> str:
        """Return Kafka's id of the cluster: another one has another. Raises BusError."""
        future = self._client().describe_cluster(request_timeout=timeout_s)
        return str(self._result(future, timeout_s).cluster_id)

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
        """Join a group under a name that others can see through `members`."""
        session = {
            "group.id": group,
            "client.id": name,
            "session.timeout.ms": str(int(session_s * 1000)),
            "heartbeat.interval.ms": str(int(heartbeat_s * 1000)),
        }
        return KafkaMember({**self._options, **session}, topic, events, clock)

    def members(self, group: str, timeout_s: float = 5) -> list[GroupMember]:
        """Return the members of a group, none if it does not exist. Raises BusError."""
        listed: list[GroupMember] = []

        def ask(left_s: float) -> bool:
            with Coordinator(self._options, group, left_s) as coordinator:
                places = coordinator.places()
            listed.extend(GroupMember(each.name, each.partitions) for each in places)
            return True

        _until(timeout_s, ask)
        return listed

    def dismiss(self, group: str, name: str, timeout_s: float = 5) -> bool:
        """Remove a member that is known to be dead from a group. Raises BusError."""
        dead: list[str] = []

        def ask(left_s: float) -> bool:
            with Coordinator(self._options, group, left_s) as coordinator:
                dead[:] = [each.id for each in coordinator.places() if each.name == name]
                if dead:
                    coordinator.dismiss(dead)
            return True

        _until(timeout_s, ask)
        return bool(dead)


def _until(timeout_s: float, attempt: Callable[[float], bool]) -> None:
    """Repeat an attempt, with growing pauses, until it succeeds or time is up.

    Raises the last Unavailable, but prefers a LoginRefused.
    """
    end = time.monotonic() + timeout_s
    pause, failure = _BACKOFF_S, Unavailable(f"not there within {timeout_s:g} s")
    while True:
        try:
            if attempt(max(0.1, min(end - time.monotonic(), _PATIENCE_S))):
                return
        except Unavailable as error:
            if not isinstance(failure, LoginRefused):  # which explains more than its consequences
                failure = error
        left = end - time.monotonic()
        if left <= 0:
            raise failure
        time.sleep(min(pause, left))
        pause = min(pause * 2, _MAX_BACKOFF_S)
