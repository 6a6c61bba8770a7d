"""A thread that reads topics from Kafka into the database."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Event, Thread

import structlog
from django.db import close_old_connections, connection

from bus.base import Bus, ConsumerRecord, Reader
from dashboard.core.states.queries import sink_offsets

log = structlog.get_logger(__name__)

BATCH = 1_000
"""Most messages of one transaction: the board's materialiser writes into the same database."""
WAIT_S = 0.5
GATHER_S = 0.25
LOOK_S = 5.0
"""How often it is looked for topics that are not there yet, as their pipeline may not run."""
PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0)


class TopicReader:
    """Reads topics from where the database is. A crash at any point neither loses nor repeats
    anything, as offsets are stored with what they stand for."""

    def __init__(
        self,
        bus: Bus,
        name: str,
        topics: Sequence[str],
        take_in: Callable[[list[ConsumerRecord]], None],
    ) -> None:
        """name: of what is read; take_in: writes messages and their offsets into the database, or
        nothing."""
        self._bus, self._name, self._topics, self._take_in = bus, name, topics, take_in
        self._reader: Reader | None = None
        self._partitions: set[tuple[str, int]] = set()
        self._next_look = 0.0
        self._faults = 0
        self._stop = Event()
        self._thread = Thread(target=self.run, name=name, daemon=True)

    def start(self) -> None:
        """Read in a thread of its own."""
        self._thread.start()

    def stop(self, timeout_s: float = 3) -> None:
        """End the thread, and wait for it."""
        self._stop.set()
        self._thread.join(timeout_s)

    def run(self) -> None:
        """Go on until stopped, through whatever faults pass."""
        while not self._stop.is_set():
            try:
                if not self.step():
                    self._stop.wait(WAIT_S)
                self._faults = 0
            except Exception as error:  # noqa: BLE001, nothing but a stop ends the thread
                self._recover(error)
        self.close()
        connection.close()

    def step(self) -> int:
        """Take in what has arrived; return how many messages. Raises BusError and DatabaseError."""
        if time.monotonic() >= self._next_look:
            self._look()
            self._next_look = time.monotonic() + LOOK_S
        if self._reader is None:
            return 0
        messages = self._reader.poll(WAIT_S, BATCH)
        for gap in self._reader.gaps:
            log.error("the log no longer holds what was to be read next", **gap._asdict())
        self._reader.gaps.clear()
        if messages:
            self._take_in(messages)
        return len(messages)

    def close(self) -> None:
        """Let go of the topics."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._partitions = set()

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
            log.info("reading", what=self._name, partitions=len(starts))
            self._reader = self._bus.reader(starts, gather_s=GATHER_S)

    def _recover(self, error: Exception) -> None:
        """Start again after a fault from what the database has, after a pause."""
        pause = PAUSES_S[min(self._faults, len(PAUSES_S) - 1)]
        self._faults += 1
        log.warning("fault, will try again", what=self._name, error=str(error), pause_s=pause)
        self.close()
        self._next_look = 0.0
        close_old_connections()
        self._stop.wait(pause)
