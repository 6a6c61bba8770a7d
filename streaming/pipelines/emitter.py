"""The sink of a pipeline's tasks, which lets updates of a key wait: see `wire/emission.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from bus.kafka import KafkaBus
from streaming.coalesced_producer import CoalescedProducer

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator


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
