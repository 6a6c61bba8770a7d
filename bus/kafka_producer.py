"""An idempotent producer that survives the errors that librdkafka calls fatal."""

# librdkafka's own error codes begin with an underscore.
# ruff: noqa: SLF001

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import confluent_kafka as ck

from bus.base import BusError, Delivered, Headers, NotPermitted, OnDelivery, Producer, QueueFull
from bus.kafka_errors import ProducerRefusals, bus_error, log, raised

IDEMPOTENT = {
    "enable.idempotence": "true",
    "acks": "all",
    "partitioner": "murmur2_random",
    "compression.type": "lz4",
}


def _delivered(
    on_delivery: OnDelivery, refusals: ProducerRefusals, error: ck.KafkaError | None, message: Any
) -> None:
    if error is not None:
        on_delivery(refusals.cause(bus_error(error, message.topic(), "WRITE")))
        return
    refusals.taken()
    _, stamp = message.timestamp()
    on_delivery(Delivered(message.topic(), message.partition(), message.offset(), stamp))


def _serve(refusals: ProducerRefusals, call: Callable[[float], int], timeout_s: float) -> None:
    """Let librdkafka run callbacks; if it raises a fatal error, record it."""
    try:
        call(timeout_s)
    except ck.KafkaException as error:
        refusals.fatal(raised(error))


class KafkaProducer(Producer):
    """An idempotent producer that replaces itself after an error that librdkafka calls fatal."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        """options: librdkafka's settings. Raises BusError for unknown ones."""
        self._options = dict(options)
        self._lock = threading.Lock()
        self._refusals = ProducerRefusals()
        self._inner = self._open()

    def _open(self) -> ck.Producer:
        hooks = {"error_cb": self._refusals.login.on_error}
        try:
            return ck.Producer({**self._options, **hooks}, logger=log)
        except ck.KafkaException as error:
            raise raised(error) from error

    def _renew(self, broken: ck.Producer) -> None:
        """Replace `broken`, once.

        Records it still holds are reported as failed. Raises NotPermitted.
        """
        with self._lock:
            if self._inner is not broken:
                return
            if (refusal := self._refusals.pause()) is not None:
                raise refusal
            log.warning("kafka producer starts over after a fatal error")
            former, self._refusals = self._refusals, self._refusals.of_next()
            self._inner = self._open()
        broken.purge()
        _serve(former, broken.flush, 2)

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
        """Enqueue a record. Raises QueueFull or TooLarge; other errors go to `on_delivery`."""
        call: dict[str, Any] = {"headers": list(headers) or None}
        if partition is not None:
            call["partition"] = partition
        if on_delivery is not None:
            call["on_delivery"] = partial(_delivered, on_delivery, self._refusals)
        try:
            self._produce(topic, value, key, call)
        except NotPermitted as refusal:
            if on_delivery is None:
                raise
            on_delivery(refusal)

    def _produce(
        self, topic: str, value: bytes | None, key: bytes | None, call: dict[str, Any]
    ) -> None:
        """Enqueue, and convert librdkafka's errors into ours."""
        try:
            self._enqueue(topic, value, key, call)
        except ck.KafkaException as error:
            raise raised(error, topic, "WRITE") from error

    def _enqueue(
        self, topic: str, value: bytes | None, key: bytes | None, call: dict[str, Any]
    ) -> None:
        """Enqueue, replacing a producer that has failed for good."""
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
        """Run the callbacks of finished deliveries, waiting at most `timeout_s` for the first."""
        _serve(self._refusals, self._inner.poll, timeout_s)

    def flush(self, timeout_s: float) -> int:
        """Wait until all records are delivered or have failed; return how many are still
        pending."""
        _serve(self._refusals, self._inner.flush, timeout_s)
        return len(self._inner)

    def unconfirmed(self, timeout_s: float) -> BusError:
        """Return the reason why a record is still unconfirmed after `timeout_s`."""
        return self._refusals.cause(super().unconfirmed(timeout_s))

    def close(self, timeout_s: float = 2) -> None:
        """Flush for `timeout_s`, then close. Undelivered records are dropped."""
        if self.flush(timeout_s):
            self._inner.purge()
            _serve(self._refusals, self._inner.flush, 1)
