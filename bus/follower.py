"""The loop under whatever follows topics: it steps, waits after a fault, and goes on until stopped.

A `TopicConsumer` says what is read from where, and what becomes of it; a `Follower` carries it on,
in a thread of its own or in the caller's.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from threading import Event, Thread
from typing import ClassVar, NamedTuple

import structlog

from bus.base import BusError, LogGap, Reader

log = structlog.get_logger(__name__)

PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0)
"""How long to wait after a fault, by how many there were in a row before it, s."""


class Moved(Exception):
    """What is to be read next is elsewhere: the consumer opens its reader anew, at once."""


class Outage(NamedTuple):
    """Why a consumer does not go on just now. since: of its first fault, Unix s; faults: how many
    there were in a row."""

    why: str
    since: float
    faults: int


class TopicConsumer(ABC):
    """What reads topics, step by step, through a reader that it opens where its owner says.

    name: of its thread, and in the log; faults: what it recovers from; gaps_are_losses: whether it
    can get what a gap passes over from nowhere else.
    """

    name: str
    gaps_are_losses: ClassVar[bool] = False
    faults: ClassVar[tuple[type[Exception], ...]] = (BusError,)
    _reader: Reader | None = None

    @abstractmethod
    def step(self) -> int:
        """Open the reader where there is none, and handle what has arrived.

        Returns how many records that were. Raises Moved, and any of its faults.
        """

    def pause_s(self, read: int) -> float:  # noqa: ARG002 - for those that pause
        """Return how long to wait after a step that read so many records, s."""
        return 0.0

    def recover(self, fault: Exception) -> None:  # noqa: ARG002 - for those that tell of it
        """Get ready for a step after a fault: the next one opens the reader anew."""
        self.close()

    def close(self) -> None:
        """Let go of the reader."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _pop_gaps(self, reader: Reader) -> list[LogGap]:
        """Return where the log no longer held what was to be read next, and clear it."""
        gaps = list(reader.gaps)
        reader.gaps.clear()
        tell = log.error if self.gaps_are_losses else log.warning
        for gap in gaps:
            tell(
                "the log no longer holds what was to be read next", what=self.name, **gap._asdict()
            )
        return gaps


class Follower:
    """A loop that carries a consumer on until it is stopped, through whatever faults pass.

    outage: why the consumer does not go on just now, None while it does. Any thread may read it.
    """

    def __init__(
        self,
        consumer: TopicConsumer,
        stop: Event | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """stop: ends the loop once it is set, and its pauses; clock: returns Unix s."""
        self._consumer, self._clock = consumer, clock
        self._stop = stop or Event()
        self._thread: Thread | None = None
        self.outage: Outage | None = None

    def start(self) -> None:
        """Run in a thread of its own."""
        self._thread = Thread(target=self.run, name=self._consumer.name, daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 3) -> None:
        """End the loop, and wait for its thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def run(self) -> None:
        """Go on until stopped; the consumer's reader is closed then."""
        try:
            while not self._stop.is_set():
                if pause_s := self._step():
                    self._stop.wait(pause_s)
        finally:
            self._consumer.close()

    def _step(self) -> float:
        """Have the consumer step. Returns how long to wait then, s."""
        try:
            read = self._consumer.step()
        except Moved:
            self._consumer.close()
            return 0.0
        except self._consumer.faults as fault:
            return self._recover(fault)
        self._end_outage()
        return self._consumer.pause_s(read)

    def _recover(self, fault: Exception) -> float:
        """Note a fault. Returns how long to wait before the consumer is tried again, s."""
        now = self._clock()
        before = self.outage or Outage("", now, 0)
        self.outage = Outage(str(fault), before.since, before.faults + 1)
        pause_s = PAUSES_S[min(before.faults, len(PAUSES_S) - 1)]
        log.warning(
            "fault, will try again",
            what=self._consumer.name,
            error=str(fault),
            pause_s=pause_s,
            for_s=round(now - before.since, 1),
        )
        self._consumer.recover(fault)
        return pause_s

    def _end_outage(self) -> None:
        if self.outage is not None:
            for_s = round(self._clock() - self.outage.since, 1)
            log.info("goes on", what=self._consumer.name, for_s=for_s, faults=self.outage.faults)
            self.outage = None
