"""Topics read from Kafka into the database, beside what the materialiser reads."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import structlog
from django.db import close_old_connections

from bus.base import Bus, ConsumerRecord
from bus.follower import TopicConsumer
from dashboard.core.states.queries import sink_offsets

log = structlog.get_logger(__name__)

BATCH = 1_000
"""Most messages of one transaction: the board's materialiser writes into the same database."""
WAIT_S = 0.5
GATHER_S = 0.25
LOOK_S = 5.0
"""How often it is looked for topics that are not there yet, as their pipeline may not run."""


class TopicReader(TopicConsumer):
    """Reads topics from where the database is. A crash at any point neither loses nor repeats
    anything, as offsets are stored with what they stand for."""

    faults = (Exception,)  # nothing but a stop ends its thread
    gaps_are_losses = True

    def __init__(
        self,
        bus: Bus,
        name: str,
        topics: Sequence[str],
        take_in: Callable[[list[ConsumerRecord]], None],
    ) -> None:
        """name: of what is read; take_in: writes messages and their offsets into the database, or
        nothing."""
        self._bus, self.name, self._topics, self._take_in = bus, name, topics, take_in
        self._partitions: set[tuple[str, int]] = set()
        self._next_look = 0.0

    def step(self) -> int:
        """Take in what has arrived; return how many messages. Raises BusError and DatabaseError."""
        if time.monotonic() >= self._next_look:
            self._look()
            self._next_look = time.monotonic() + LOOK_S
        if self._reader is None:
            return 0
        messages = self._reader.poll(WAIT_S, BATCH)
        self._pop_gaps(self._reader)
        if messages:
            self._take_in(messages)
        return len(messages)

    def pause_s(self, read: int) -> float:
        """Return how long to wait until the next look where nothing has arrived, s."""
        return 0.0 if read else WAIT_S

    def close(self) -> None:
        """Let go of the topics, and of what the database no longer answers on."""
        super().close()
        self._partitions = set()
        self._next_look = 0.0
        close_old_connections()

    def _look(self) -> None:
        """Begin to read topics that are there since the last look. Raises BusError."""
        places = self._bus.offsets(self._topics)
        if places.keys() == self._partitions:
            return
        self.close()
        self._partitions = set(places)
        if places:
            known = sink_offsets()
            starts = {place: known.get(place, begin) for place, (begin, _) in places.items()}
            log.info("reading", what=self.name, partitions=len(starts))
            self._reader = self._bus.reader(starts, gather_s=GATHER_S)
