"""What a batch query brings back, into `job.results`: in parts, each confirmed."""

from __future__ import annotations

from collections.abc import Callable

from bus.base import Bus, BusError, Delivered
from wire.batch_query import Result, encode_result
from wire.topics import Topics

CONFIRM_S = 30.0

# Called with how much is done, of how much, and of what.
OnStep = Callable[[int, int, str], None]


class Publisher:
    """Sends the parts of one result, in order."""

    def __init__(self, bus: Bus, topics: Topics, ask: str) -> None:
        self._producer, self._topic, self.ask = bus.producer(), topics.results, ask
        self._faults: list[BusError] = []
        self.parts = 0

    def send(self, result: Result) -> None:
        """Enqueue a part. Raises BusError."""
        self._producer.send(
            self._topic, self.ask.encode(), encode_result(result), on_delivery=self._delivered
        )
        self.parts += 1
        self._producer.poll(0)

    def _delivered(self, outcome: Delivered | BusError) -> None:
        if isinstance(outcome, BusError):
            self._faults.append(outcome)

    def confirm(self) -> None:
        """Return once all parts are in the topic. Raises BusError."""
        left = self._producer.flush(CONFIRM_S)
        if self._faults or left:
            raise self._faults[0] if self._faults else BusError(f"{left} parts are not confirmed")

    def close(self) -> None:
        """Let go of the topic."""
        self._producer.close()
