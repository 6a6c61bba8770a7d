"""How a pipeline's output leaves: updates of a key made one record, sent, or printed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as sql

from bus.base import BusError, Delivered, Headers, Producer, QueueFull, Unavailable
from bus.kafka import KafkaBus
from wire.emission import MAX_BYTES, Budget, Coalescer, Record

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator
    from pyspark.sql import Column


# ---- coalesced producer --------------------------------------------------------------------------
# A producer of which the sinks let records wait, so that many updates of a key become one record.
#
# What waits is in memory alone. A sink calls `flush` before its batch is committed: then nothing is
# lost with the process, because what was not committed is read again.

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
        producer's queue is full.
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
                times = [due for sink in self._sinks.values() if (due := sink.next_due())]
                self._changed.wait(max(0, min(times) - self._clock()) / 1000 if times else None)

    def _send_all(self, topic: str, records: Sequence[Record]) -> None:
        for record in records:
            self._send(topic, record.key, record.value, record.headers)
        if records:
            self._producer.poll()

    def _send(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        """Pass one record to the producer, waiting while its queue is full."""
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


# ---- emitter -------------------------------------------------------------------------------------
# The sink of a pipeline's tasks, which lets updates of a key wait: see `wire/emission.py`.


class Counts(NamedTuple):
    """What the tasks of a query have added up: updates that its tables were given, and records that
    these have sent."""

    given: Accumulator[int]
    sent: Accumulator[int]

    @classmethod
    def begin(cls, context: SparkContext) -> Counts:
        """Return the counts of a query that is about to start."""
        return cls(context.accumulator(0), context.accumulator(0))


class Emitter:
    """Sends the rows of one task. Spark copies it to each of its workers.

    A task ends once all that it gathered is confirmed, so a batch that is committed is in Kafka.
    """

    def __init__(
        self, kafka: Mapping[str, str], waits: Mapping[str, int], share: int, counts: Counts
    ) -> None:
        """kafka: connection options; waits: how long the updates of a table wait, ms, by topic;
        share: the bytes that may wait in this task."""
        self._kafka, self._waits, self._share = dict(kafka), dict(waits), share
        self._counts = counts
        self._sinks: CoalescedProducer | None = None

    def open(self, _partition: int, _epoch: int) -> bool:
        """Begin a task."""
        self._producer = KafkaBus(self._kafka).producer()
        self._sinks = CoalescedProducer(self._producer, self._waits, self._share)
        return True

    def process(self, row: Any) -> None:
        """Gather a row of a table; send one of a stream at once."""
        assert self._sinks is not None
        headers = [(header["key"], bytes(header["value"])) for header in row["headers"]]
        key, value = (None if row[name] is None else bytes(row[name]) for name in ("key", "value"))
        self._sinks.put(row["topic"], key, value, headers)

    def close(self, error: Exception | None) -> None:
        """Send the rest, and wait until Kafka has it all; nothing of a task that failed. Raises
        BusError if it does not: the batch is done again."""
        if self._sinks is None:
            return
        try:
            self._sinks.close(flush=error is None)
        finally:
            self._producer.close(0)
        self._count(self._sinks)

    def _count(self, sinks: CoalescedProducer) -> None:
        """Add what this task's tables were given and have sent to the query's counts."""
        self._counts.given.add(sum(sinks.updates[topic] for topic in self._waits))
        self._counts.sent.add(sum(sinks.records[topic] for topic in self._waits))


# ---- printer -------------------------------------------------------------------------------------
# The sink of a pipeline that prints what goes out: a line for each record.

# So much of a key and of a value is printed, characters.
MOST = 500


def printing(label: str, key: Column, value: Column) -> Column:
    """Return the column of values, as text, each of which is printed with its label and key."""

    def show(shown: str | None, text: str | None) -> str | None:
        print(line(label, shown, text), flush=True)
        return text

    # Not deterministic to Spark: else it may print a record twice.
    peek = sql.udf(show, "string", useArrow=False).asNondeterministic()
    return peek(key.cast("string"), value.cast("string"))


def line(label: str, key: str | None, value: str | None) -> str:
    """Return what is printed of a record: in one line, without what a terminal would act upon."""
    return f"[{label}] {_plain(key)}: {_plain(value)}"


def _plain(text: str | None) -> str:
    if text is None:
        return "null"
    short = text if len(text) <= MOST else f"{text[:MOST]}…"
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in short)
