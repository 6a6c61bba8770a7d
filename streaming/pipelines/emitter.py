"""The sink of a pipeline's tasks, which lets updates of a key wait: see `wire/emission.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bus.kafka import KafkaBus
from streaming.coalesced_producer import CoalescedProducer
from streaming.pipelines.declaration import Emission


class Emitter:
    """Sends the rows of one task. Spark copies it to each of its workers.

    A task ends once all that it gathered is confirmed, so a batch that is committed is in Kafka.
    """

    def __init__(self, kafka: Mapping[str, str], emits: Mapping[str, Emission]) -> None:
        """kafka: connection options; emits: by topic, how its records are gathered."""
        self._kafka, self._emits = dict(kafka), dict(emits)
        self._sinks: CoalescedProducer | None = None

    def open(self, _partition: int, _epoch: int) -> bool:
        """Begin a task."""
        self._producer = KafkaBus(self._kafka).producer()
        waits = {topic: emission.every_ms for topic, emission in self._emits.items()}
        budget = max((emission.max_bytes for emission in self._emits.values()), default=0)
        self._sinks = CoalescedProducer(self._producer, waits, budget)
        return True

    def process(self, row: Any) -> None:
        """Gather a row."""
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
