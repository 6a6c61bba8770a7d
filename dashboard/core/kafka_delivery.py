"""Records delivered to Kafka, one or many: with what certainty each has arrived."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from bus.base import (
    BusError,
    Delivered,
    Headers,
    OnDelivery,
    Producer,
    QueueFull,
    Unavailable,
    no_answer,
)
from dashboard.core.kafka_gateway import REACH_S, SEND_TIMEOUT_S, gateway

UNCONFIRMED = "Kafka did not confirm it in time. It may still arrive, and is followed."


Result = Delivered | BusError | None
"""A record's place, or why it is not sent; None or Unavailable: it may have arrived."""


class Delivery(NamedTuple):
    """status: `sending` where the broker has not confirmed the record; text: why it is not sent or
    not confirmed; place: of a record that is sent."""

    status: Literal["sent", "sending", "unsent"]
    text: str = ""
    place: Delivered | None = None

    @classmethod
    def of(cls, result: Result) -> Delivery:
        """Return what a result of `deliver_all` says."""
        if isinstance(result, Delivered):
            return cls("sent", place=result)
        if result is None or isinstance(result, Unavailable):
            return cls("sending", f"{UNCONFIRMED} ({result})" if result else UNCONFIRMED)
        return cls("unsent", str(result))


class Outgoing(NamedTuple):
    """A record to be sent as it is; without a partition its key decides."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None


def deliver_all(records: Iterable[Outgoing]) -> list[Result]:
    """Send records in their order, and wait until each is confirmed or refused, or for
    SEND_TIMEOUT_S. Returns a result for each."""
    producer, end = gateway().producer(), time.monotonic() + SEND_TIMEOUT_S + 1
    results: dict[int, Delivered | BusError] = {}
    count = 0
    for count, record in enumerate(records, 1):

        def note(result: Delivered | BusError, number: int = count) -> None:
            results[number] = result

        _enqueue(producer, record, note, end)
    while len(results) < count and time.monotonic() < end:
        producer.poll(0.02)
    return [results.get(number) for number in range(1, count + 1)]


def deliver(topic: str, key: bytes, value: bytes) -> Delivery:
    """Sign a record, send it and wait for its confirmation. Returns what is known of it then."""
    try:
        return deliver_signed(topic, [(key, value)])[0]
    except BusError as error:
        return Delivery("unsent", str(error))


def deliver_signed(topic: str, records: Sequence[tuple[bytes, bytes]]) -> list[Delivery]:
    """Sign records, of key and value each, send them and wait as `deliver_all` does. Returns what
    is known of each then.

    All are signed and sent again where the broker's clock shows that they were signed at a
    time that does not count. Raises BusError where no broker answers or nothing can be signed.
    """
    to = gateway()
    try:
        to.bus.wait(REACH_S)
    except BusError as error:
        raise Unavailable(no_answer(error)) from None
    while True:
        signed = (Outgoing(topic, key, to.signed(topic, key, value)) for key, value in records)
        results = deliver_all(signed)
        placed = [result.timestamp for result in results if isinstance(result, Delivered)]
        if all(to.signer.in_time(timestamp) for timestamp in placed):
            return [Delivery.of(result) for result in results]


def _enqueue(producer: Producer, record: Outgoing, note: OnDelivery, end: float) -> None:
    """Enqueue a record; a full queue empties meanwhile."""
    topic, key, value, headers, partition = record
    while True:
        try:
            producer.send(topic, key, value, headers=headers, partition=partition, on_delivery=note)
            return
        except QueueFull as full:
            if time.monotonic() > end:
                note(full)
                return
            producer.poll(0.02)
        except BusError as error:
            note(error)
            return
