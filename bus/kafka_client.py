"""What any program needs of a Kafka cluster: producers, and how many partitions a topic has.

`bus.kafka.KafkaBus` can more. This much is also in the package that programs outside the product
install, so it imports no more than it must.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient

from bus.base import BusError, NotPermitted, Unavailable
from bus.kafka_errors import Login, bus_error, log, raised, result
from bus.kafka_producer import IDEMPOTENT, KafkaProducer

_COMMON = {"reconnect.backoff.max.ms": "1000", "log_level": "2"}
# A client is replaced whose requests of one kind have failed for so long, and only failed: those
# begun while a broker stands still for a minute may keep librdkafka from ever asking it again.
_RENEW_S = 10.0

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound="KafkaClient")


def watched(request: Callable[Concatenate[C, P], R]) -> Callable[Concatenate[C, P], R]:
    """Have a client begin anew where requests of this kind do nothing but fail."""

    @wraps(request)
    def asked(client: C, /, *args: P.args, **kwargs: P.kwargs) -> R:
        begun = time.monotonic()
        try:
            answer = request(client, *args, **kwargs)
        except Unavailable:
            client.failed(request.__name__, begun)
            raise
        client.answered(request.__name__)
        return answer

    return asked


class KafkaClient:
    """A Kafka cluster to write to. `options`: librdkafka's names, `bootstrap.servers` at least."""

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

    def partitions(self, topic: str, timeout_s: float = 10) -> int:
        """Return how many partitions the topic has, 0 where it is missing.

        Raises Unavailable and NotPermitted.
        """
        return self._present([topic], timeout_s).get(topic, 0)

    @watched
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

    # ---- the one that asks ----

    def _client(self) -> AdminClient:
        with self._lock:
            if self._admin is None:
                hooks: dict[str, Any] = {"error_cb": self._login.on_error}
                self._admin = AdminClient({**self._options, "log_level": "0", **hooks})
                self._made_at = time.monotonic()
            return self._admin

    def answered(self, kind: str) -> None:
        """Note that a request of this kind was answered. For `watched`."""
        with self._lock:
            self._failing.pop(kind, None)

    def failed(self, kind: str, begun: float) -> None:
        """Note that nobody answered a request of this kind, and replace a client of which all have
        failed for `_RENEW_S`. For `watched`."""
        with self._lock:
            since = self._failing.setdefault(kind, max(begun, self._made_at))
            if self._admin is None or time.monotonic() - since < _RENEW_S:
                return
            log.debug("kafka: nothing answers; the client for requests is made anew")
            # Others may still wait for what they have asked of it: it ends with the next one.
            self._former, self._admin = self._admin, None
            self._failing.clear()
