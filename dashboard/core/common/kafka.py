"""This process's access to Kafka: one bus, one producer, and delivering records through them."""

from __future__ import annotations

import atexit
import logging
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple

from django.conf import settings

from agents.log_handler import KafkaHandler
from bus.base import (
    Bus,
    BusError,
    Delivered,
    Outgoing,
    Producer,
    Unavailable,
    no_answer,
)
from config.logs import REQUESTS, SECURITY
from dashboard.core.common.metrics import APP_LOGS, MetricFamily
from dashboard.core.common.scenarios import scenarios, topics
from dashboard.core.common.times import now_ms
from wire.keys import KeyFile, KeysProblem, Ring
from wire.partitioner import partition_of
from wire.signature import Signer, Trust
from wire.topics import Topics

# ---- kafka gateway -------------------------------------------------------------------------------
# This process's access to Kafka: one bus and one producer, created when first needed.

# The producer gives up on a record after this time.
SEND_TIMEOUT_S = 8.0

# How long to wait for a broker before anything is sent.
REACH_S = 3.0


class NotSigned(BusError):
    """A command cannot be signed, because its keys cannot be read."""


class Gateway:
    """A bus and its one producer, shared by all threads of the process; and the signer."""

    def __init__(self, bus: Bus, topics: Topics) -> None:
        self.bus = bus
        self.topics = topics
        self._lock = Lock()
        self._producer: Producer | None = None

    @cached_property
    def signer(self) -> Signer:
        """Return the signer with the keys of this copy. Raises KeysProblem."""
        return Signer(key_file().ring, now_ms)

    def producer(self) -> Producer:
        """Return the producer, which the first call creates."""
        with self._lock:
            if self._producer is None:
                self._producer = self.bus.producer(message_timeout_s=SEND_TIMEOUT_S)
            return self._producer

    def signed(self, topic: str, key: bytes | None, value: bytes) -> bytes:
        """Return a command, signed now. Raises NotSigned."""
        try:
            return self.signer.sign(value, topic, key)
        except KeysProblem as problem:
            raise NotSigned(str(problem)) from None

    def command(
        self, topic: str, key: bytes | None, value: bytes, partition: int | None = None
    ) -> Delivered:
        """Sign and send a command, and wait for its place.

        Sends it once more if the broker's clock shows that it was signed at a time that does not
        count. Raises BusError.
        """
        while True:
            signed = self.signed(topic, key, value)
            place = self.producer().send_and_wait(
                topic, key, signed, timeout_s=SEND_TIMEOUT_S + 1, partition=partition
            )
            if self.signer.in_time(place.timestamp):
                return place

    def close(self) -> None:
        """Flush briefly and close the producer."""
        with self._lock:
            if self._producer is not None:
                self._producer.close()
                self._producer = None


def key_file() -> KeyFile:
    """Return the keys that sign this copy's commands, created at the first call.

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
    """Return the process's gateway to the configured Kafka; it closes when the process ends."""
    global _gateway  # noqa: PLW0603 - one per process
    with _lock:
        if _gateway is None:
            from bus.kafka import KafkaBus  # only a process that sends loads Kafka's library

            _gateway = Gateway(KafkaBus(settings.TALLYBOARD.kafka_options()), topics())
            atexit.register(_gateway.close)
        return _gateway


@contextmanager
def use(bus: Bus, names: Topics) -> Iterator[Gateway]:
    """Send through `bus` within the context, as tests do."""
    global _gateway  # noqa: PLW0603 - one per process
    before, _gateway = _gateway, Gateway(bus, names)
    try:
        yield _gateway
    finally:
        _gateway.close()
        _gateway = before


# ---- kafka delivery ------------------------------------------------------------------------------
# Delivering one or many records to Kafka, and how certain it is that each arrived.

UNCONFIRMED = "Kafka did not confirm it in time. It may still arrive, and is followed."


Result = Delivered | BusError | None
"""A record's place, or why it was not sent; None or Unavailable: it may have arrived."""


class Delivery(NamedTuple):
    """What is known of a record that was to be sent.

    status: `sending` if the broker has not confirmed it; text: why it was not sent or not
    confirmed; place: of a record that was sent.
    """

    status: Literal["sent", "sending", "unsent"]
    text: str = ""
    place: Delivered | None = None

    @classmethod
    def of(cls, result: Result) -> Delivery:
        """Return the delivery for a result of `deliver_all`."""
        if isinstance(result, Delivered):
            return cls("sent", place=result)
        if result is None or isinstance(result, Unavailable):
            return cls("sending", f"{UNCONFIRMED} ({result})" if result else UNCONFIRMED)
        return cls("unsent", str(result))


def addressed(topic: str, key: bytes, value: bytes) -> Outgoing:
    """Return a record for a source topic, on the partition where the job reads its key, however
    many partitions the topic has got."""
    scenario = scenarios().get(topics().scenario_of(topic) or "")
    partition = None if scenario is None else partition_of(key, scenario.partitions)
    return Outgoing(topic, key, value, partition=partition)


def deliver_all(records: Iterable[Outgoing]) -> list[Result]:
    """Send records in order. Returns a result for each.

    Waits until each is confirmed or refused, or for SEND_TIMEOUT_S.
    """
    return gateway().producer().send_all(records, SEND_TIMEOUT_S + 1)


def deliver(topic: str, key: bytes, value: bytes) -> Delivery:
    """Sign and send a record, wait for its confirmation, and return what is then known of it."""
    try:
        return deliver_signed(topic, [(key, value)])[0]
    except BusError as error:
        return Delivery("unsent", str(error))


def deliver_signed(topic: str, records: Sequence[tuple[bytes, bytes]]) -> list[Delivery]:
    """Sign and send records, of key and value each. Returns what is then known of each.

    Waits as `deliver_all` does. All are signed and sent again if the broker's clock shows that they
    were signed at a time that does not count. Raises BusError if no broker answers or nothing can
    be signed.
    """
    to = gateway()
    try:
        to.bus.wait(REACH_S)
    except BusError as error:
        raise Unavailable(no_answer(error)) from None
    while True:
        signed = [addressed(topic, key, to.signed(topic, key, value)) for key, value in records]
        results = deliver_all(signed)
        placed = [result.timestamp for result in results if isinstance(result, Delivered)]
        if all(to.signer.in_time(timestamp) for timestamp in placed):
            return [Delivery.of(result) for result in results]


# ---- app logs ------------------------------------------------------------------------------------
# The web process's log of what clients do, sent to the topic `app-logs`.


def start() -> None:
    """Start sending the log records about clients to Kafka, if the settings say so."""
    if not settings.TALLYBOARD.app_logs:
        return
    kafka: dict[str, Any] = settings.TALLYBOARD.kafka_options()
    handler = KafkaHandler(
        topics().app_logs,
        fields={"app_name": "tallyboard", "app_version": _version()},
        key="client",
        **kafka,
    )
    for name in (REQUESTS, SECURITY):
        logging.getLogger(name).addHandler(handler)


def stop() -> None:
    """Send what is left, then stop."""
    if handler := _handler():
        for name in (REQUESTS, SECURITY):
            logging.getLogger(name).removeHandler(handler)
        handler.close()


def app_log_outcomes() -> Iterable[tuple[tuple[str], int]]:
    """Return how many records were delivered, unconfirmed, or dropped for which reason."""
    if handler := _handler():
        known = {"delivered": handler.delivered, "unconfirmed": handler.unconfirmed}
        for outcome, n in {**known, **handler.dropped}.items():
            yield (outcome,), n


def _handler() -> KafkaHandler | None:
    handlers = logging.getLogger(SECURITY).handlers
    return next((each for each in handlers if isinstance(each, KafkaHandler)), None)


def _version() -> str:
    project = tomllib.loads((settings.BASE_DIR / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def metrics() -> Iterator[MetricFamily]:
    """Yield the outcomes of this process's log of clients."""
    yield APP_LOGS.family(app_log_outcomes())
