"""Records of `orders.states`, appended as the job appends them."""

from __future__ import annotations

from collections.abc import Iterator

from bus.base import Bus, Delivered
from domain.records import Cause, StateRecord, Tombstone, Vote
from domain.version import Version
from wire.sink import encode_headers, encode_state

NOW = 1_790_000_000_000
TOPIC = "orders.states"


def state_record(
    order: str, state: str, offset: int, station: str = "dock-1", location: str | None = "bay 7"
) -> StateRecord:
    """Return a record with two votes, of which the station's is the later one."""
    at = NOW + offset
    detail = None if location is None else f'{{"location": "{location}"}}'
    return StateRecord(
        asset=order, state=state, previous=None, since=at, unconfirmed=False,
        version=Version(1, offset, 0), cause=Cause("report", 0, offset, at, agent=station),
        votes=(
            Vote("gate", "received", at - 9, at - 9, 0, None, 1, '{"location": "the gate"}'),
            Vote(station, state, at, at, offset, None, 1, detail),
        ),
    )  # fmt: skip


def purge_record(order: str, offset: int) -> Tombstone:
    """Return the tombstone of a purged order."""
    return Tombstone(order, Version(1, offset, 0), Cause("purge-after", 0, offset, NOW + offset))


class OrderLog:
    """Appends to a states topic."""

    def __init__(self, bus: Bus, topic: str = TOPIC) -> None:
        self._producer, self._topic = bus.producer(linger_ms=0), topic

    def append(self, record: StateRecord | Tombstone) -> Delivered:
        """Append one record and wait for its place."""
        value = None if isinstance(record, Tombstone) else encode_state(record)
        return self._producer.send_and_wait(
            self._topic, record.asset.encode(), value, headers=encode_headers(record)
        )

    def close(self) -> None:
        """Let go of the producer."""
        self._producer.close()


def lives(orders: int) -> Iterator[StateRecord | Tombstone]:
    """Yield what happens to so many orders, some of it twice, as a replay of the job does: every
    third is delivered, every fifth purged, the others are on their way."""
    for number in range(orders):
        order, offset = f"order-{number:04d}", 10 * number
        picking = state_record(order, "picking", offset + 1)
        steps = [state_record(order, "received", offset), picking]
        yield from steps
        yield from steps
        if number % 3 == 0:
            yield state_record(order, "delivered", offset + 2, "van-1", "the door")
            yield picking  # a replay: older than what is known
        elif number % 5 == 0:
            yield purge_record(order, offset + 2)
            yield picking
