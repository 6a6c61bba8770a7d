"""What an answer says beside what was asked for: by which way, from whom, how old, how fast."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from stores.base import Many, One, Order


class OrderAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One order. version, age_ms: of its state record, since its cause; took_ms: until the answer
    was there; complete: whether the instance answers for that order."""

    via: str
    instance: str
    version: str | None
    age_ms: int | None
    took_ms: float
    complete: bool
    order: Order | None


class OrdersAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Active orders by name. version: by partition, the next offset that is not in them; age_ms: of
    the newest of them; count: how many are active in all; following: the name to go on after."""

    via: str
    instance: str
    version: str
    age_ms: int | None
    took_ms: float
    complete: bool
    count: int
    following: str | None = msgspec.field(name="next")
    orders: list[Order] = msgspec.field(name="items")


def answer_one(via: str, ask: Callable[[], One]) -> OrderAnswer:
    """Return what `ask` answers, in its envelope. Raises what `ask` raises."""
    begun = time.perf_counter()
    one = ask()
    order = one.order
    return OrderAnswer(
        via=via,
        instance=one.instance,
        version=order.version if order else None,
        age_ms=_age_ms([order] if order else []),
        took_ms=_since_ms(begun),
        complete=one.complete,
        order=order,
    )


def answer_many(via: str, limit: int, ask: Callable[[], Many]) -> OrdersAnswer:
    """Return what `ask` answers for a page of `limit`, in its envelope. Raises what it raises."""
    begun = time.perf_counter()
    many = ask()
    return OrdersAnswer(
        via=via,
        instance=many.instance,
        version=" ".join(f"{at}:{position}" for at, position in sorted(many.positions.items())),
        age_ms=_age_ms(many.orders),
        took_ms=_since_ms(begun),
        complete=many.complete,
        count=many.total,
        following=many.orders[-1].order if len(many.orders) == limit else None,
        orders=many.orders,
    )


def _age_ms(orders: list[Order]) -> int | None:
    newest = max((order.changed_at for order in orders), default=None)
    return None if newest is None else max(0, time.time_ns() // 1_000_000 - newest)


def _since_ms(begun: float) -> float:
    return round((time.perf_counter() - begun) * 1000, 3)
