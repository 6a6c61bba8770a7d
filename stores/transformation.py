"""From a record of `orders.states` to an order's place: the one way into every table.

A copy that is built again goes through it as a live one does. Kafka's global store does not
(KAFKA-7663): it restores the topic's records as they are, past the processor that transforms them.
"""

from __future__ import annotations

from functools import lru_cache

from bus.base import Message
from domain.version import Version
from stores.base import DELIVERED, Change, Order
from wire.sink import StateValue, TombstoneValue, VoteValue, read_state


def change_of(message: Message) -> Change:
    """Return what a record of `orders.states` makes of its order. Raises ValueError."""
    read = read_state(message.key, message.value, message.headers)
    version = Version.parse(read.version).sortable()
    order = None if isinstance(read, TombstoneValue) else order_of(read)
    return Change(read.asset, version, read.cause.time, order)


def order_of(read: StateValue) -> Order:
    """Return the order that a state record is about. Raises ValueError for a detail that is no
    object."""
    latest = max(read.votes, key=_place, default=None)
    return Order(
        read.asset,
        _kept(read.state),
        None if latest is None else _kept(latest.agent),
        None if latest is None else _location(latest),
        read.state != DELIVERED,
        read.version,
        read.cause.time,
    )


def _place(vote: VoteValue) -> tuple[int, int]:
    return (vote.time, vote.offset)


def _location(vote: VoteValue) -> str | None:
    location = (vote.detail_object() or {}).get("location")
    return _kept(location) if isinstance(location, str) else None


@lru_cache(maxsize=10_000)
def _kept(text: str) -> str:
    """Return the one copy of a text that a million orders share."""
    return text
