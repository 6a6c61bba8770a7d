"""The orders as the materialiser has written them: the central database, under the stores'
contract."""

from __future__ import annotations

from django.db import DatabaseError, connection
from django.db.models import QuerySet

from bus.base import BusError
from dashboard.core.kafka_gateway import gateway
from dashboard.states.models import AssetState
from dashboard.states.queries import counts, sink_offsets
from domain.names import name_ok
from stores.base import DELIVERED, SCENARIO, Health, Many, One, Unreachable
from stores.transformation import order_of
from wire.sink import state_value


class DatabaseStore:
    """One database for all who ask."""

    def get(self, key: str) -> One:
        """Return an order. Raises Unreachable."""
        rows = AssetState.objects.filter(scenario=SCENARIO, asset=key, purged=False)
        try:
            record = rows.values_list("record", flat=True).first() if name_ok(key) else None
        except DatabaseError as error:
            raise Unreachable("The database does not answer.") from error
        order = None if record is None else order_of(state_value(record))
        return One(order, connection.vendor)

    def all(self, after: str = "", limit: int = 100) -> Many:
        """Return the first active orders past `after`. Raises Unreachable."""
        try:
            records = list(_active().filter(asset__gt=after).order_by("asset")[:limit])
            positions = _positions()
            count = self.count()
        except DatabaseError as error:
            raise Unreachable("The database does not answer.") from error
        orders = [order_of(state_value(record)) for record in records]
        return Many(orders, count, positions, connection.vendor)

    def count(self) -> int:
        """Return how many orders are active, as the materialiser counts them."""
        return sum(n for state, n in counts(SCENARIO).items() if state != DELIVERED)

    def health(self) -> Health:
        """Return how the database fares; its lag is unknown where Kafka does not answer."""
        try:
            return Health(connection.vendor, True, self.count(), _lag())
        except DatabaseError:
            return Health(connection.vendor, False, 0, None, "The database does not answer.")


def _active() -> QuerySet[AssetState, str]:
    rows = AssetState.objects.filter(scenario=SCENARIO, purged=False).exclude(state=DELIVERED)
    return rows.values_list("record", flat=True)


def _positions() -> dict[int, int]:
    topic = gateway().topics.states(SCENARIO)
    return {at: offset for (name, at), offset in sink_offsets().items() if name == topic}


def _lag() -> int | None:
    at = _positions()
    try:
        ends = gateway().bus.offsets([gateway().topics.states(SCENARIO)], timeout_s=1)
    except BusError:
        return None
    return sum(max(0, end - at.get(partition, 0)) for (_, partition), (_, end) in ends.items())
