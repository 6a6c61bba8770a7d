"""Three ways to learn what became of a record: one by one, all at the end, or by a callback."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial

from bus.base import BusError, Delivered, Producer, QueueFull

Outcome = Delivered | BusError
# Called with a record's key and what became of it.
Report = Callable[[str, Outcome], None]

POLL_S = 0.1


def produce_sync(producer: Producer, topic: str, count: int, report: Report, wait_s: float) -> None:
    """Send the next record only when the one before has its place; end at the first error."""
    for key, value in _records(count):
        try:
            place = producer.send_and_wait(topic, key.encode(), value.encode(), timeout_s=wait_s)
        except BusError as error:
            report(key, error)
            return
        report(key, place)


def produce_async(
    producer: Producer, topic: str, count: int, report: Report, wait_s: float
) -> None:
    """Send all, keep a future of each, and report in the order of sending."""
    futures: list[tuple[str, Future[Outcome]]] = []
    for key, value in _records(count):
        future: Future[Outcome] = Future()
        _send(producer, topic, key, value, future.set_result)
        futures.append((key, future))
    producer.flush(wait_s)
    for key, future in futures:
        report(key, future.result(0) if future.done() else BusError("no answer in time"))


def produce_with_callback(
    producer: Producer, topic: str, count: int, report: Report, wait_s: float
) -> None:
    """Send all, and report each when its answer comes."""
    for key, value in _records(count):
        _send(producer, topic, key, value, partial(report, key))
    producer.flush(wait_s)


def _records(count: int) -> Iterator[tuple[str, str]]:
    return ((f"KEY-{number}", f"VALUE-{number}") for number in range(count))


def _send(
    producer: Producer, topic: str, key: str, value: str, answer: Callable[[Outcome], None]
) -> None:
    """Enqueue a record; while the queue is full, wait for those before it."""
    while True:
        try:
            producer.send(topic, key.encode(), value.encode(), on_delivery=answer)
        except QueueFull:
            producer.poll(POLL_S)
        except BusError as error:
            answer(error)
            return
        else:
            producer.poll(0)
            return


class Tally:
    """Prints what became of each record, and counts."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write, self._begun = write, time.monotonic()
        self.delivered = 0

    def report(self, key: str, outcome: Outcome) -> None:
        """Print a record's partition and offset, or its error."""
        if isinstance(outcome, BusError):
            self._write(f"{key} error: {outcome}")
            return
        self.delivered += 1
        self._write(f"{key} {outcome.topic}/{outcome.partition} offset={outcome.offset}")

    def seconds(self) -> float:
        """Return how long it has taken until now, s."""
        return time.monotonic() - self._begun
