"""This process's way into Kafka: one bus and one producer, made when first needed."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from django.conf import settings

from bus.base import Bus, Producer
from dashboard.scenarios import topics
from wire.topics import Topics

SEND_TIMEOUT_S = 8.0
"""After this long the producer gives a record up."""

REACH_S = 3.0
"""How long to wait for a broker before anything is sent."""


class Gateway:
    """A bus and its one producer, shared by all threads of the process."""

    def __init__(self, bus: Bus, topics: Topics) -> None:
        self.bus = bus
        self.topics = topics
        self._lock = Lock()
        self._producer: Producer | None = None

    def producer(self) -> Producer:
        """The producer, made at the first call."""
        with self._lock:
            if self._producer is None:
                self._producer = self.bus.producer(message_timeout_s=SEND_TIMEOUT_S)
            return self._producer

    def close(self) -> None:
        """Flush for a moment and let go of the producer."""
        with self._lock:
            if self._producer is not None:
                self._producer.close()
                self._producer = None


_lock = Lock()
_gateway: Gateway | None = None


def gateway() -> Gateway:
    """The process's gateway to the configured Kafka; closed when the process ends."""
    global _gateway  # noqa: PLW0603 - one per process
    with _lock:
        if _gateway is None:
            from bus.kafka import KafkaBus  # only a process that sends loads Kafka's library

            _gateway = Gateway(KafkaBus(settings.TALLYBOARD.kafka_options()), topics())
            atexit.register(_gateway.close)
        return _gateway


@contextmanager
def use(bus: Bus, names: Topics) -> Iterator[Gateway]:
    """Send through `bus` meanwhile, as tests do."""
    global _gateway  # noqa: PLW0603 - one per process
    before, _gateway = _gateway, Gateway(bus, names)
    try:
        yield _gateway
    finally:
        _gateway.close()
        _gateway = before
