"""A scenario's assets as the materialiser has written them: the central database, under the stores'
contract."""

from __future__ import annotations

from functools import lru_cache
from threading import Lock

from django.db import DatabaseError, connection
from django.db.models import QuerySet

from bus.base import BusError
from dashboard.checkpoints.models import SinkOffset
from dashboard.core.kafka_gateway import Gateway, gateway
from dashboard.states.models import AssetState
from dashboard.states.queries import counts
from domain.names import name_ok
from stores.base import Health, Many, One, Unreachable, current, now_ms
from stores.transformation import Transformation

LOOK_MS = 1_000
"""Questions within so long of each other share what Kafka says of the ends of the log."""
MOST_AHEAD = 6
"""So many ends are remembered that the database has not reached yet."""
PAUSE_MS = 5_000
"""So long Kafka is not asked again after it has not answered."""


class Ends:
    """The ends of a scenario's log, as Kafka told them in the last seconds. Safe to share."""

    def __init__(self, asked: Gateway, topic: str) -> None:
        self._bus, self._topic, self._lock = asked.bus, topic, Lock()
        self._ahead: list[tuple[int, dict[int, int]]] = []
        self._as_of: int | None = None
        self._next = 0

    def as_of(self, positions: dict[int, int]) -> int | None:
        """Return the latest time known at which the log had no more than what is before these
        positions, Unix ms; None where none is known."""
        with self._lock:
            self._look(now_ms())
            for number, (at, ends) in reversed(list(enumerate(self._ahead))):
                if _reached(positions, ends):
                    self._as_of = at
                    del self._ahead[: number + 1]
                    break
            return self._as_of

    def _look(self, now: int) -> None:
        """Ask for the ends, once a second. The oldest that were not reached yet stay: else what
        runs behind would reach none."""
        if now < self._next:
            return
        try:
            ends = self._bus.offsets([self._topic], timeout_s=1)
        except BusError:
            self._next = now_ms() + PAUSE_MS
            return
        del self._ahead[MOST_AHEAD - 1 :]
        self._ahead.append((now, {at: end for (_, at), (_, end) in ends.items()}))
        self._next = now + LOOK_MS


class DatabaseStore:
    """One database for all who ask."""

    def __init__(self, kept: Transformation) -> None:
        self._kept, self._scenario = kept, kept.scenario

    def get(self, key: str) -> One:
        """Return an asset. Raises Unreachable."""
        rows = self._rows().filter(asset=key)
        try:
            as_of = self._as_of(self._positions())  # before it is read: it moves on
            record = rows.first() if name_ok(key) else None
        except DatabaseError as error:
            raise Unreachable("The database does not answer.") from error
        asset = None if record is None else self._kept.asset(record)
        return One(asset, connection.vendor, current(as_of), as_of)

    def all(self, after: str = "", limit: int = 100) -> Many:
        """Return the first active assets past `after`. Raises Unreachable."""
        try:
            place = self.place()
            active = self._rows().exclude(state__in=self._kept.ended)
            records = list(active.filter(asset__gt=after).order_by("asset")[:limit])
            count = self.count()
        except DatabaseError as error:
            raise Unreachable("The database does not answer.") from error
        assets = [self._kept.asset(record) for record in records]
        return Many(assets, count, place.positions, place.instance, place.complete, place.as_of)

    def place(self) -> Many:
        """Return how far the database has come, without any asset. Raises Unreachable."""
        try:
            positions = self._positions()
        except DatabaseError as error:
            raise Unreachable("The database does not answer.") from error
        as_of = self._as_of(positions)
        return Many([], 0, positions, connection.vendor, current(as_of), as_of)

    def count(self) -> int:
        """Return how many assets are active, as the materialiser counts them."""
        known = counts(self._scenario)
        return sum(n for state, n in known.items() if state not in self._kept.ended)

    def health(self) -> Health:
        """Return how the database fares; its lag is unknown where Kafka does not answer."""
        try:
            return Health(connection.vendor, True, self.count(), self._lag())
        except DatabaseError:
            return Health(connection.vendor, False, 0, None, "The database does not answer.")

    def _rows(self) -> QuerySet[AssetState, str]:
        rows = AssetState.objects.filter(scenario=self._scenario, purged=False)
        return rows.values_list("record", flat=True)

    def _as_of(self, positions: dict[int, int]) -> int | None:
        return ends_of(gateway(), self._topic()).as_of(positions)

    def _topic(self) -> str:
        return gateway().topics.states(self._scenario)

    def _positions(self) -> dict[int, int]:
        rows = SinkOffset.objects.filter(topic=self._topic())
        return dict(rows.values_list("partition", "next_offset"))

    def _lag(self) -> int | None:
        at = self._positions()
        try:
            ends = gateway().bus.offsets([self._topic()], timeout_s=1)
        except BusError:
            return None
        return sum(max(0, end - at.get(partition, 0)) for (_, partition), (_, end) in ends.items())


@lru_cache(maxsize=100)
def ends_of(asked: Gateway, topic: str) -> Ends:
    """Return what this process knows of the ends of a topic."""
    return Ends(asked, topic)


def _reached(positions: dict[int, int], ends: dict[int, int]) -> bool:
    return all(positions.get(at, 0) >= end for at, end in ends.items())
