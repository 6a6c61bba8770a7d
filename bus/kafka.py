"""A Kafka cluster: what is asked of it, and who reads and writes there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

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
    GroupMember,
    LoginRefused,
    MemberEvents,
    NotPermitted,
    TopicMismatch,
    TopicPartition,
    TopicSpec,
    Unavailable,
)
from bus.kafka_batches import KafkaBatches
from bus.kafka_errors import Login, bus_error, log, raised, result
from bus.kafka_groups import Coordinator
from bus.kafka_member import KafkaMember
from bus.kafka_producer import IDEMPOTENT, KafkaProducer
from bus.kafka_reader import KafkaReader

_COMMON = {"reconnect.backoff.max.ms": "1000", "log_level": "2"}
_BACKOFF_S = 0.1
_MAX_BACKOFF_S = 2.0
_PATIENCE_S = 3.0
# A client is replaced whose requests of one kind have failed for so long, and only failed: those
# begun while a broker stands still for a minute may keep librdkafka from ever asking it again.
_RENEW_S = 10.0

P = ParamSpec("P")
R = TypeVar("R")


def _watched(
    request: Callable[Concatenate[KafkaBus, P], R],
) -> Callable[Concatenate[KafkaBus, P], R]:
    """Have the bus renew its client where requests of this kind do nothing but fail."""

    @wraps(request)
    def asked(bus: KafkaBus, /, *args: P.args, **kwargs: P.kwargs) -> R:
        begun = time.monotonic()
        try:
            answer = request(bus, *args, **kwargs)
        except Unavailable:
            bus.failed(request.__name__, begun)
            raise
        bus.answered(request.__name__)
        return answer

    return asked


class KafkaBus:
    """A Kafka cluster. `options`: librdkafka's names, `bootstrap.servers` at least."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {**_COMMON, **options}
        self._lock = threading.Lock()
        self._login = Login()
        self._admin: AdminClient | None = None
        self._former: AdminClient | None = None
        self._made_at = 0.0
        self._failing: dict[str, float] = {}

    def producer(self, *, linger_ms: float = 5, message_timeout_s: float = 30) -> KafkaProducer:
        """Return a producer that gives a record up `message_timeout_s` after it was sent."""
        timing = {
            "linger.ms": f"{linger_ms:g}",
            "delivery.timeout.ms": str(max(int(message_timeout_s * 1000), int(linger_ms) + 1)),
        }
        return KafkaProducer({**self._options, **IDEMPOTENT, **timing})

    def reader(self, starts: Mapping[TopicPartition, int], *, gather_s: float = 0) -> KafkaReader:
        """Return a reader of these partitions; an offset out of range goes to the earliest."""
        return KafkaReader(self._options, starts, self.batches, gather_s)

    @_watched
    def batches(self, place: TopicPartition, timeout_s: float = 10) -> KafkaBatches:
        """Open the log of a partition, to be read batch by batch. Raises BusError."""
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

    @_watched
    def alter(self, topic: str, settings: Mapping[str, str], timeout_s: float = 10) -> None:
        """Change these of a topic's settings, and no others. Raises BusError."""
        kind, change = ConfigResource.Type.TOPIC, AlterConfigOpType.SET
        entries = [
            ConfigEntry(key, value, incremental_operation=change) for key, value in settings.items()
        ]
        resource = ConfigResource(kind, topic, incremental_configs=entries)
        futures = self._client().incremental_alter_configs([resource], request_timeout=timeout_s)
        for future in futures.values():
            self._result(future, timeout_s, topic, "ALTER_CONFIGS")

    def partitions(self, topic: str, timeout_s: float = 10) -> int:
        """Return how many partitions the topic has, 0 where it is missing.

        Raises Unavailable and NotPermitted.
        """
        return self._present([topic], timeout_s).get(topic, 0)

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
        counts = self._present(topics, timeout_s)
        places = [ck.TopicPartition(t, p) for t in topics for p in range(counts.get(t, 0))]
        if not places:
            return {}
        begin, end = (self._edges(places, edge, timeout_s) for edge in ("earliest", "latest"))
        return {place: (begin[place], end[place]) for place in begin}

    @_watched
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
            if offset < 0:  # librdkafka's word for "not known", as after a broker's restart
                raise Unavailable(f"no broker knows the offsets of {topic}/{partition} yet")
        return offsets

    @_watched
    def topic_ids(self, topics: Iterable[str], timeout_s: float = 10) -> dict[str, str]:
        """Return each topic's id; a missing topic is left out. Raises BusError."""
        topics = list(topics)
        known = self._present(topics, timeout_s)
        wanted = [name for name in topics if name in known]
        if not wanted:
            return {}
        futures = self._client().describe_topics(
            ck.TopicCollection(wanted), request_timeout=timeout_s
        )
        return {
            name: str(self._result(future, timeout_s, name, "DESCRIBE").topic_id)
            for name, future in futures.items()
        }

    def settings(self, topics: Iterable[str], timeout_s: float = 10) -> dict[str, dict[str, str]]:
        """Return each topic's settings in force, by Kafka's own names. Raises BusError."""
        wanted, settings = set(topics), {}

        def ask(left_s: float) -> bool:
            settings.update(self._settings(wanted & self._present(wanted, left_s).keys(), left_s))
            return True

        _until(timeout_s, ask)
        return settings

    @_watched
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
        """Create what is missing and wait until it can be written to.

        Raises TopicMismatch where a partition count differs, Unavailable when time is up.
        """
        wanted = {spec.name: spec for spec in specs}
        _until(timeout_s, lambda left: self._create(wanted, replication, left))

    @_watched
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
        """Return once a broker answers. Raises Unavailable."""
        _until(timeout_s, lambda left: self._counts(left) is not None)

    @_watched
    def _counts(self, timeout_s: float) -> dict[str, int]:
        """Return the partition counts of the topics of which each partition has a leader."""
        try:
            cluster = self._client().list_topics(timeout=max(0.1, min(timeout_s, 10)))
        except ck.KafkaException as error:
            raise self._cause(raised(error)) from error
        self._login.taken()
        return {
            name: len(topic.partitions)
            for name, topic in cluster.topics.items()
            if topic.error is None and all(p.leader >= 0 for p in topic.partitions.values())
        }

    def _present(self, topics: Iterable[str], timeout_s: float) -> dict[str, int]:
        """Return the partition counts of those topics that are there, and perhaps of others.

        Raises NotPermitted where Kafka hides one from this user: its list of all topics has only
        those that the user may describe.
        """
        wanted, counts = set(topics), self._counts(timeout_s)
        if absent := sorted(wanted - counts.keys()):
            self._check_visible(absent, timeout_s)
        return counts

    def _check_visible(self, topics: list[str], timeout_s: float) -> None:
        """Raise NotPermitted where Kafka does not say whether these are there."""
        asked = ck.TopicCollection(topics)
        futures = self._client().describe_topics(asked, request_timeout=timeout_s)
        hidden = []
        for name, future in futures.items():
            try:
                self._result(future, timeout_s)
            except NotPermitted:
                hidden.append(name)
            except BusError:
                continue  # it is not there, or not yet
        if hidden:
            error = ck.KafkaError(ck.KafkaError.TOPIC_AUTHORIZATION_FAILED)
            raise bus_error(error, ", ".join(hidden), "DESCRIBE")

    def _cause(self, error: BusError) -> BusError:
        """Return the refused login where one is behind an error, else the error."""
        self._client().poll(0)  # has librdkafka call back
        return self._login.cause(error)

    def _result(self, future: Future[Any], timeout_s: float, on: str = "", right: str = "") -> Any:
        """Return what a request answered. on, right: what it needs, and where. Raises BusError."""
        try:
            answer = result(future, timeout_s, on, right)
        except Unavailable as error:
            raise self._cause(error) from error
        self._login.taken()
        return answer

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
        return KafkaMember({**self._options, **session}, topic, events, clock)

    def members(self, group: str, timeout_s: float = 5) -> list[GroupMember]:
        """Return who is in a group; nobody where there is no such group. Raises BusError."""
        listed: list[GroupMember] = []

        def ask(left_s: float) -> bool:
            with Coordinator(self._options, group, left_s) as coordinator:
                places = coordinator.places()
            listed.extend(GroupMember(each.name, each.partitions) for each in places)
            return True

        _until(timeout_s, ask)
        return listed

    def dismiss(self, group: str, name: str, timeout_s: float = 5) -> bool:
        """Have a group go on without a member that is known to be dead. Raises BusError."""
        dead: list[str] = []

        def ask(left_s: float) -> bool:
            with Coordinator(self._options, group, left_s) as coordinator:
                dead[:] = [each.id for each in coordinator.places() if each.name == name]
                if dead:
                    coordinator.dismiss(dead)
            return True

        _until(timeout_s, ask)
        return bool(dead)

    # ---- the client of all other requests ----

    def _client(self) -> AdminClient:
        with self._lock:
            if self._admin is None:
                hooks: dict[str, Any] = {"error_cb": self._login.heard}
                self._admin = AdminClient({**self._options, "log_level": "0", **hooks})
                self._made_at = time.monotonic()
            return self._admin

    def answered(self, kind: str) -> None:
        """Note that a request of this kind was answered. For `_watched`."""
        with self._lock:
            self._failing.pop(kind, None)

    def failed(self, kind: str, begun: float) -> None:
        """Note that nobody answered a request of this kind, and replace a client of which all have
        failed for `_RENEW_S`. For `_watched`."""
        with self._lock:
            since = self._failing.setdefault(kind, max(begun, self._made_at))
            if self._admin is None or time.monotonic() - since < _RENEW_S:
                return
            log.debug("kafka: nothing answers; the client for requests is made anew")
            # Others may still wait for what they have asked of it: it ends with the next one.
            self._former, self._admin = self._admin, None
            self._failing.clear()


def _until(timeout_s: float, attempt: Callable[[float], bool]) -> None:
    """Attempt with growing pauses until it succeeds. Raises the last Unavailable at the end."""
    end = time.monotonic() + timeout_s
    pause, failure = _BACKOFF_S, Unavailable(f"not there within {timeout_s:g} s")
    while True:
        try:
            if attempt(max(0.1, min(end - time.monotonic(), _PATIENCE_S))):
                return
        except Unavailable as error:
            if not isinstance(failure, LoginRefused):  # which says more than what follows from it
                failure = error
        left = end - time.monotonic()
        if left <= 0:
            raise failure
        time.sleep(min(pause, left))
        pause = min(pause * 2, _MAX_BACKOFF_S)
