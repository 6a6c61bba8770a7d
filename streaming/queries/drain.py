"""A query that reads a log to its end in micro-batches, round what was set aside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from bus.base import TopicPartition
from domain.quarantine import QuarantinedRange
from streaming.fold.query import batch_metadata
from streaming.queries.protocol import width
from streaming.state.checkpoint import positions
from streaming.state.quarantine import jump, next_bounded_batch, plan_batch
from streaming.state.storage import StoragePath

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOOK_S = 0.5


class Drain:
    """A query over a checkpoint of its own, started anew for each stretch of the log."""

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: StoragePath,
        stream: Callable[[bool], DataFrame],
        keep: Callable[[DataFrame, int], None],
    ) -> None:
        """stream: returns the query's rows; its argument: whether records are unpacked one by one;
        keep: takes each batch of them, with its number."""
        self._spark, self._checkpoint = spark, checkpoint
        self._stream, self._keep = stream, keep

    def run(
        self,
        begun: Mapping[TopicPartition, int],
        held: Mapping[TopicPartition, Iterable[QuarantinedRange]],
        on_records: Callable[[int], None],
    ) -> None:
        """Read on to the log's present end.

        begun: where it begins; held: what was set aside; on_records: is called with the number of
        records that are through. Offsets tell it: a row of the source may be a block of records.
        """
        reached = positions(self._checkpoint) or dict(begun)
        first = sum(reached.values())

        def report() -> None:
            at = positions(self._checkpoint)
            on_records(sum(at.values()) - first if at else 0)

        while batch := next_bounded_batch(reached, held):
            plan_batch(
                self._checkpoint, batch.ends, batch_metadata(self._spark, width(self._spark))
            )
            self._go({"once": True}, report, one_by_one=batch.close)
            jump(self._checkpoint, batch.ends | batch.jumps)
            reached = positions(self._checkpoint)
        self._go({"availableNow": True}, report)

    def _go(
        self, trigger: Mapping[str, Any], report: Callable[[], None], *, one_by_one: bool = False
    ) -> None:
        """Run the query to its end."""
        query = self._stream(one_by_one).writeStream.foreachBatch(self._keep)
        query = query.outputMode("update").trigger(**trigger)
        running = query.option("checkpointLocation", str(self._checkpoint)).start()
        while not running.awaitTermination(LOOK_S):  # type: ignore[arg-type]
            report()
        report()
