"""How the query fares, for the progress topic."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from bus.base import Bus, BusError
from wire.job import Progress, Status, encode

log = logging.getLogger("streaming.progress")

_FIGURES = (
    "batchId",
    "timestamp",
    "batchDuration",
    "numInputRows",
    "inputRowsPerSecond",
    "processedRowsPerSecond",
    "durationMs",
)
_STATE = ("numRowsTotal", "numRowsUpdated", "memoryUsedBytes", "commitTimeMs")


class Reporting:
    """Publishes what happens to one query. While Kafka is away it is logged alone."""

    def __init__(self, bus: Bus, topic: str, query: str, clock: Callable[[], int]) -> None:
        self._topic, self._query, self._clock = topic, query, clock
        self._producer = bus.producer(linger_ms=0, message_timeout_s=60)
        self.epoch = 0
        self.restarts = 0
        self._status: Status = "starting"

    def status(self, status: Status, message: str = "") -> None:
        """Tell a change of status."""
        self._status = status
        level = logging.WARNING if status in ("waiting", "restarting", "failed") else logging.INFO
        log.log(level, "%s: %s", status, message or "as it should be")
        self._publish(message, None)

    def batch(self, figures: Mapping[str, Any]) -> None:
        """Tell Spark's own figures of a finished batch."""
        self._publish("", batch_figures(figures))

    def _publish(self, message: str, batch: dict[str, Any] | None) -> None:
        record = Progress(
            query=self._query,
            at=self._clock(),
            status=self._status,
            epoch=self.epoch,
            message=message,
            restarts=self.restarts,
            batch=batch,
        )
        try:
            self._producer.send(self._topic, self._query.encode(), encode(record))
            self._producer.poll(0)
        except BusError as error:
            log.debug("progress not sent: %s", error)

    def close(self) -> None:
        """Send what is still to be sent, for a moment."""
        self._producer.close()


def batch_figures(progress: Mapping[str, Any]) -> dict[str, Any]:
    """The part of Spark's progress that readers are promised."""
    figures = {name: progress[name] for name in _FIGURES if name in progress}
    operators = progress.get("stateOperators") or [{}]
    figures["state"] = {name: operators[0][name] for name in _STATE if name in operators[0]}
    return figures
