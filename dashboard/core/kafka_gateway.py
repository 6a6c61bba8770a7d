"""This process's way into Kafka: one bus and one producer, made when first needed."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from threading import Lock

from django.conf import settings

from bus.base import Bus, BusError, Delivered, Producer
from dashboard.core.scenarios import topics
from dashboard.core.times import now_ms
from wire.keys import KeyFile, KeysProblem, Ring
from wire.signature import Signer, Trust
from wire.topics import Topics

# After this long the producer gives a record up.
SEND_TIMEOUT_S = 8.0

# How long to wait for a broker before anything is sent.
REACH_S = 3.0


class NotSigned(BusError):
    """A command that cannot be signed: its keys cannot be read."""


class Gateway:
    """A bus and its one producer, shared by all threads of the process; and who signs."""

    def __init__(self, bus: Bus, topics: Topics) -> None:
        self.bus = bus
        self.topics = topics
        self.signer = Signer(_keys, now_ms)
        self._lock = Lock()
        self._producer: Producer | None = None

    def producer(self) -> Producer:
        """Return the producer, made at the first call."""
        with self._lock:
            if self._producer is None:
                self._producer = self.bus.producer(message_timeout_s=SEND_TIMEOUT_S)
            return self._producer

    def signed(self, topic: str, key: bytes | None, value: bytes) -> bytes:
        """Return what commands something, signed now. Raises NotSigned."""
        try:
            return self.signer.sign(value, topic, key)
        except KeysProblem as problem:
            raise NotSigned(str(problem)) from None

    def command(
        self, topic: str, key: bytes | None, value: bytes, partition: int | None = None
    ) -> Delivered:
        """Send what commands something, signed, and wait; once more where the broker's clock shows
        that it was signed at a time that does not count. Raises BusError."""
        while True:
            signed = self.signed(topic, key, value)
            place = self.producer().send_and_wait(
                topic, key, signed, timeout_s=SEND_TIMEOUT_S + 1, partition=partition
            )
            if self.signer.in_time(place.timestamp):
                return place

    def close(self) -> None:
        """Flush for a moment and let go of the producer."""
        with self._lock:
            if self._producer is not None:
                self._producer.close()
                self._producer = None


def key_file() -> KeyFile:
    """Return the keys that sign this copy's commands, made at the first call.

    Raises KeysProblem.
    """
    return _key_file(settings.TALLYBOARD.command_keys_file)


@lru_cache(maxsize=8)
def _key_file(path: Path) -> KeyFile:
    return KeyFile(path).made()


def _keys() -> Ring:
    return key_file().ring()


def trust(topic: str) -> Trust:
    """Return whose signatures count in a topic."""
    return Trust(topic, _keys)


_lock = Lock()
_gateway: Gateway | None = None


def gateway() -> Gateway:
    """Return the process's gateway to the configured Kafka; it is closed when the process ends."""
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
