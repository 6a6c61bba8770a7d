"""Time in the log: a `tick` to every source partition, so that it passes where nobody reports."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable
from time import monotonic

from bus.base import Bus, BusError, Delivered, Producer, TopicPartition
from wire.source import encode_tick

log = logging.getLogger("streaming.ticks")

# While so many ticks of a partition are unconfirmed, no more are sent: a lost broker gets none.
MOST_UNDER_WAY = 2

GIVE_UP_S = 5.0


class Ticker:
    """A thread that appends ticks until it is stopped; a lost broker does not end it."""

    def __init__(self, bus: Bus, places: Iterable[TopicPartition], every_ms: int) -> None:
        self._bus, self._places, self._every = bus, sorted(places), every_ms / 1000
        self._under_way: Counter[TopicPartition] = Counter()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ticks", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for it at most three seconds."""
        self._stop.set()
        self._thread.join(3)

    def _run(self) -> None:
        producer = self._bus.producer(linger_ms=0, message_timeout_s=GIVE_UP_S)
        due = monotonic()
        while not self._stop.wait(max(0.0, due - monotonic())):
            due = max(due + self._every, monotonic())
            for place in self._places:
                self._tick(producer, place)
            producer.poll(0)

    def _tick(self, producer: Producer, place: TopicPartition) -> None:
        if self._under_way[place] >= MOST_UNDER_WAY:
            return

        def done(_: Delivered | BusError) -> None:
            self._under_way[place] -= 1

        self._under_way[place] += 1
        try:
            producer.send(place[0], None, encode_tick(), partition=place[1], on_delivery=done)
        except BusError as error:
            self._under_way[place] -= 1
            log.debug("no tick for %s: %s", place, error)
