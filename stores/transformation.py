"""Transforms a record of a scenario's states into what its stores keep: the only way into any
table.

A copy that is rebuilt uses it just like a live one. Kafka's global store does not (KAFKA-7663): it
restores the topic's records unchanged, bypassing the processor that transforms them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import msgspec

from bus.base import ConsumerRecord
from domain.version import Version
from stores.base import DELIVERED, SCENARIO, AssetRecord, Change, KeptAsset, Order
from wire.sink import StateValue, TombstoneValue, VoteValue, read_state, state_value


class Transformation(NamedTuple):
    """What the stores of a scenario keep of each record.

    kept: its type, as tables and servers write it; of: makes one from a record and its JSON; ended:
    the states in which an asset is no longer active.
    """

    scenario: str
    kept: type[Order | AssetRecord]
    of: Callable[[StateValue, bytes], KeptAsset]
    ended: frozenset[str] = frozenset()

    def change(self, message: ConsumerRecord) -> Change:
        """Return the change that a record of the states makes to its asset. Raises ValueError."""
        read = read_state(message.key, message.value, message.headers)
        version = Version.parse(read.version).sortable()
        asset = None if isinstance(read, TombstoneValue) else self.of(read, message.value or b"")
        return Change(read.asset, version, read.cause.time, asset)

    def asset(self, record: str) -> KeptAsset:
        """Return what is kept of a record, given its JSON. Raises ValueError."""
        return self.of(state_value(record), record.encode())


def order_of(read: StateValue, _record: bytes = b"") -> Order:
    """Return the order in a state record. Raises ValueError if a detail is no object."""
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


def record_of(read: StateValue, record: bytes) -> AssetRecord:
    """Return a complete state record, with all its votes and doubts."""
    return AssetRecord(read.asset, read.version, read.cause.time, msgspec.Raw(record))


def _place(vote: VoteValue) -> tuple[int, int]:
    return (vote.time, vote.offset)


def _location(vote: VoteValue) -> str | None:
    location = (vote.detail_object() or {}).get("location")
    return _kept(location) if isinstance(location, str) else None


@lru_cache(maxsize=10_000)
def _kept(text: str) -> str:
    """Return the one copy of a string that a million orders share."""
    return text


ORDERS = Transformation(SCENARIO, Order, order_of, frozenset([DELIVERED]))


def whole(scenario: str) -> Transformation:
    """Return the transformation that leaves every record unchanged."""
    return Transformation(scenario, AssetRecord, record_of)


def transformation_of(scenario: str) -> Transformation:
    """Return what the stores of a scenario keep: the location of orders, everything of others."""
    return ORDERS if scenario == SCENARIO else whole(scenario)
