"""One record that commands something, delivered to Kafka: with what certainty it has arrived."""

from __future__ import annotations

from typing import Literal, NamedTuple

from bus.base import BusError, Delivered, Unavailable
from dashboard.core.kafka import REACH_S, gateway

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
