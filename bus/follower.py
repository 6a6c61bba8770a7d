"""The loop that follows topics: it steps, pauses after a fault, and continues until stopped.

A `TopicConsumer` defines what is read from where, and how it is processed. A `Follower` runs it, in
its own thread or in the caller's.
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
"""Pauses after a fault, s, indexed by the number of consecutive faults before it."""


class Moved(Exception):
    """The next records are elsewhere: the consumer reopens its reader at once."""


class Outage(NamedTuple):
    """Why a consumer is currently interrupted.

    since: time of the first fault, Unix s; faults: number of consecutive faults.
    """

    why: str
    since: float
    faults: int


class TopicConsumer(ABC):
    """Reads topics step by step, through a reader opened where its owner says.

    name: used for its thread and in the log; faults: exceptions it recovers from; gaps_are_losses:
    whether the records skipped by a gap cannot be recovered from elsewhere.
    """

    name: str
    gaps_are_losses: ClassVar[bool] = False
    faults: ClassVar[tuple[type[Exception], ...]] = (BusError,)
    _reader: Reader | None = None

    @abstractmethod
    def step(self) -> int:
        """Open the reader if there is none, and process what has arrived.

        Return the number of records. Raises Moved, and any of the consumer's faults.
        """

    def pause_s(self, read: int) -> float:  # noqa: ARG002 - for those that pause
        """Return how long to wait after a step that read so many records, s."""
        return 0.0

    def recover(self, fault: Exception) -> None:  # noqa: ARG002 - for those that tell of it
        """Prepare for the step after a fault, which reopens the reader."""
        self.close()

    def close(self) -> None:
        """Close the reader."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _pop_gaps(self, reader: Reader) -> list[LogGap]:
        """Return and clear the reader's gaps, logging each."""
        gaps = list(reader.gaps)
        reader.gaps.clear()
        tell = log.error if self.gaps_are_losses else log.warning
        for gap in gaps:
            tell(
                "the log no longer holds what was to be read next", what=self.name, **gap._asdict()
            )
        return gaps


class Follower:
    """A loop that runs a consumer until stopped, recovering from its faults.

    outage: why the consumer is currently interrupted, else None. Any thread may read it.
    """

    def __init__(
        self,
        consumer: TopicConsumer,
        stop: Event | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """stop: once set, ends the loop and its pauses; clock: returns Unix s."""
        self._consumer, self._clock = consumer, clock
        self._stop = stop or Event()
        self._thread: Thread | None = None
        self.outage: Outage | None = None

    def start(self) -> None:
        """Run in a new thread."""
        self._thread = Thread(target=self.run, name=self._consumer.name, daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 3) -> None:
        """End the loop, and wait for its thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def run(self) -> None:
        """Run until stopped, then close the consumer's reader."""
        try:
            while not self._stop.is_set():
                if pause_s := self._step():
                    self._stop.wait(pause_s)
        finally:
            self._consumer.close()

    def _step(self) -> float:
        """Run one step, and return how long to wait afterwards, s."""
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
        """Record a fault, and return how long to wait before trying again, s."""
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
