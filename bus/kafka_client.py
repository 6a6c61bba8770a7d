"""What any program needs from a Kafka cluster: producers, and topics' partition counts.

`bus.kafka.KafkaBus` offers more. This part is also in the package that programs outside the product
install, so it imports as little as possible.
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
# A client is replaced if, for this long, all its requests of one kind have failed. Requests begun
# while a broker hangs for a minute may otherwise keep librdkafka from ever contacting it again.
_RENEW_S = 10.0

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound="KafkaClient")


def watched(request: Callable[Concatenate[C, P], R]) -> Callable[Concatenate[C, P], R]:
    """Decorate a request so that the client is replaced if all requests of this kind fail."""

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
    """A Kafka cluster to write to. options: librdkafka's names, at least `bootstrap.servers`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {**_COMMON, **options}
        self._lock = threading.Lock()
        self._login = Login()
        self._admin: AdminClient | None = None
        self._former: AdminClient | None = None
        self._made_at = 0.0
        self._failing: dict[str, float] = {}

    def producer(self, *, linger_ms: float = 5, message_timeout_s: float = 30) -> KafkaProducer:
        """Return a producer that gives up on a record `message_timeout_s` after it was sent."""
        timing = {
            "linger.ms": f"{linger_ms:g}",
            "delivery.timeout.ms": str(max(int(message_timeout_s * 1000), int(linger_ms) + 1)),
        }
        return KafkaProducer({**self._options, **IDEMPOTENT, **timing})

    def partitions(self, topic: str, timeout_s: float = 10) -> int:
        """Return the number of partitions, 0 if the topic does not exist.

        Raises Unavailable and NotPermitted.
        """
        return self._present([topic], timeout_s).get(topic, 0)

    @watched
    def _counts(self, timeout_s: float) -> dict[str, int]:
        """Return the partition counts of the topics whose partitions all have leaders."""
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
        """Return the partition counts of those topics that exist, and possibly of others.

        Raises NotPermitted if Kafka hides a topic from this user: its list of all topics contains
        only those that the user may describe.
        """
        names, counts = set(topics), self._counts(timeout_s)
        if absent := sorted(names - counts.keys()):
            self._check_visible(absent, timeout_s)
        return counts

    def _check_visible(self, topics: list[str], timeout_s: float) -> None:
        """Raise NotPermitted if Kafka does not reveal whether these topics exist."""
        asked = ck.TopicCollection(topics)
        futures = self._client().describe_topics(asked, request_timeout=timeout_s)
        hidden = []
        for name, future in futures.items():
            try:
                self._result(future, timeout_s)
            except NotPermitted:
                hidden.append(name)
            except BusError:
                continue  # it does not exist, or not yet
        if hidden:
            error = ck.KafkaError(ck.KafkaError.TOPIC_AUTHORIZATION_FAILED)
            raise bus_error(error, ", ".join(hidden), "DESCRIBE")

    def _cause(self, error: BusError) -> BusError:
        """Return the refused login if it caused the error, else the error."""
        self._client().poll(0)  # lets librdkafka call back
        return self._login.cause(error)

    def _result(self, future: Future[Any], timeout_s: float, on: str = "", right: str = "") -> Any:
        """Return the answer to a request. Raises BusError.

        on, right: as in `bus_error`.
        """
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
        """Record that a request of this kind was answered. For `watched`."""
        with self._lock:
            self._failing.pop(kind, None)

    def failed(self, kind: str, begun: float) -> None:
        """Record that a request of this kind was not answered. For `watched`.

        Replace the client if all requests of the kind have failed for `_RENEW_S`.
        """
        with self._lock:
            since = self._failing.setdefault(kind, max(begun, self._made_at))
            if self._admin is None or time.monotonic() - since < _RENEW_S:
                return
            log.debug("kafka: nothing answers; the client for requests is made anew")
            # Others may still be waiting for answers from it, so it is kept until the next
            # replacement.
            self._former, self._admin = self._admin, None
            self._failing.clear()
