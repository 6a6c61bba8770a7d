"""A producer of which the sinks let records wait, so that many updates of a key become one record.

What waits is in memory alone. A sink calls `flush` before its batch is committed: then nothing is
lost with the process, because what was not committed is read again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from threading import Condition, Thread

from bus.base import BusError, Delivered, Headers, Producer, QueueFull, Unavailable
from wire.emission import MAX_BYTES, Budget, Coalescer, Record

_POLL_S = 0.05


def monotonic_ms() -> float:
    """Return the time of a clock that never goes back, ms."""
    return time.monotonic_ns() / 1_000_000


class CoalescedProducer:
    """The sinks of a task, which share a producer and a budget of bytes.

    A thread sends what is due. Safe to share among threads. updates, records: how many it was given
    and has sent, by topic.
    """

    def __init__(
        self,
        producer: Producer,
        sinks: Mapping[str, float],
        max_bytes: int = MAX_BYTES,
        clock: Callable[[], float] = monotonic_ms,
    ) -> None:
        """sinks: how long a record waits, ms, by topic. max_bytes: what may wait in all sinks.

        The producer stays the caller's to close. Raises ValueError for a negative number.
        """
        self._producer, self._clock = producer, clock
        self._budget = Budget(max_bytes)
        self._sinks = {topic: Coalescer(every, self._budget) for topic, every in sinks.items()}
        self._changed = Condition()
        self._failure: BusError | None = None
        self._closed = False
        self.updates: Counter[str] = Counter()
        self.records: Counter[str] = Counter()
        self._thread = Thread(target=self._run, name="coalesced-producer", daemon=True)
        self._thread.start()

    def put(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        version: str = "",
    ) -> None:
        """Send this record once it is due, unless a later one of its key takes its place.

        A record without a key, or for a topic that is no sink, is sent at once. Waits while the
        producer takes no more.
        """
        with self._changed:
            sink, now = self._sinks.get(topic), self._clock()
            self.updates[topic] += 1
            if sink is None or key is None:
                self._send(topic, key, value, headers)
                self._producer.poll()
                return
            first = not len(sink)
            sink.put(key, value, now, headers, version)
            if self._budget.exceeded() or (sink.next_due() or 0) <= now:
                self._send_all(topic, sink.due(now))
            elif first:
                self._changed.notify()

    def flush(self, timeout_s: float = 30) -> None:
        """Send all that waits, due or not, and wait until Kafka has it.

        Raises Unavailable if it does not have all of it in time, or BusError if it refused a record
        since the last flush: the first such error.
        """
        with self._changed:
            for topic, sink in self._sinks.items():
                self._send_all(topic, sink.drain())
            left = self._producer.flush(timeout_s)
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        if left:
            raise Unavailable(f"{left} records are not confirmed by Kafka within {timeout_s:g} s")

    def close(self, timeout_s: float = 30, *, flush: bool = True) -> None:
        """Flush, unless what waits is to be dropped, and end the thread. Raises BusError as `flush`
        does."""
        try:
            if flush:
                self.flush(timeout_s)
        finally:
            with self._changed:
                self._closed = True
                self._changed.notify()
            self._thread.join()

    def _run(self) -> None:
        with self._changed:
            while not self._closed:
                now = self._clock()
                for topic, sink in self._sinks.items():
                    self._send_all(topic, sink.due(now))
                dues = [due for sink in self._sinks.values() if (due := sink.next_due())]
                self._changed.wait(max(0, min(dues) - self._clock()) / 1000 if dues else None)

    def _send_all(self, topic: str, records: Sequence[Record]) -> None:
        for record in records:
            self._send(topic, record.key, record.value, record.headers)
        if records:
            self._producer.poll()

    def _send(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Hand one record to the producer, and wait while that takes none."""
        while True:
            try:
                self._producer.send(topic, key, value, headers=headers, on_delivery=self._delivered)
            except QueueFull:
                self._producer.poll(_POLL_S)
                continue
            except BusError as error:
                self._delivered(error)
            else:
                self.records[topic] += 1
            return

    def _delivered(self, outcome: Delivered | BusError) -> None:
        if isinstance(outcome, BusError) and self._failure is None:
            self._failure = outcome
