"""Records of states, of orders mostly, appended as the job appends them."""

from __future__ import annotations

from collections.abc import Iterator

from bus.base import Bus, Delivered
from domain.records import Cause, Doubt, Flap, Pending, StateRecord, Tombstone, Vote
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


def doubted_record(asset: str, offset: int) -> StateRecord:
    """Return a record of a site with everything in it that speaks against its state: a silent vote,
    one in doubt, one that goes to and fro, an agent in doubt, a dispute, a pending tally."""
    at = NOW + offset
    return StateRecord(
        asset=asset, state="clear", previous="suspicious", since=at, unconfirmed=True,
        version=Version(1, offset, 0), cause=Cause("report", 0, offset, at, agent="waf-1"),
        votes=(
            Vote("waf-1", "clear", at, at, offset, at + 9, 1, '{"rps": 1.50}', order=at,
                 claimed=at),
            Vote("waf-2", "clear", at, at, 1, at + 9, 1, silent=at + 5, order=at, claimed=at),
            Vote("waf-3", "suspicious", at, at, 2, at + 9, 2, doubt="future", order=at, claimed=at,
                 flap=Flap("under-attack", at, at + 60_000, True)),
        ),
        pending=Pending("clear", at, at + 9), unconfirmed_reason="one voter of two",
        disputed="under-attack",
        doubts=(Doubt("waf-4", "unknown-state", "burning", at, 3, at + 9, 1),),
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
