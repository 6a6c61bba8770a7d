"""Records delivered to Kafka, one or many: with what certainty each has arrived."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Literal, NamedTuple

from bus.base import BusError, Delivered, Headers, OnDelivery, Producer, QueueFull, Unavailable
from dashboard.core.kafka import REACH_S, SEND_TIMEOUT_S, gateway

UNCONFIRMED = "No confirmation came in time: it may still arrive, and is followed as if it had."


class Delivery(NamedTuple):
    """status: `sending` where the broker has not confirmed the record; text: why it is not sent or
    not confirmed; place: of a record that is sent."""

    status: Literal["sent", "sending", "unsent"]
    text: str = ""
    place: Delivered | None = None


def deliver(topic: str, key: bytes, value: bytes) -> Delivery:
    """Sign a record, send it and wait for its confirmation. Returns what is known of it then."""
    to = gateway()
    try:
        to.bus.wait(REACH_S)
    except BusError as error:  # nothing has been sent, so that much is known
        return Delivery("unsent", f"Kafka does not answer: {error}")
    try:
        place = to.command(topic, key, value)
    except Unavailable as error:
        return Delivery("sending", f"{UNCONFIRMED} ({error})")
    except BusError as error:
        return Delivery("unsent", str(error))
    return Delivery("sent", place=place)


class Outgoing(NamedTuple):
    """A record to be sent as it is; without a partition its key decides."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None


Result = Delivered | BusError | None
"""A record's place, or why it is not sent; None or Unavailable: it may have arrived."""


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
