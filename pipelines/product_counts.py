"""Counts the views of each product.

The whole table goes to `product-counts` every second, and a product whose count reaches a thousand
goes to `product-milestones`, once.

A product's views are all in one partition, so each partition of `product-views` has its own table,
as one value per product in Spark's state. docs/pipelines.md says which entries are sent when.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from streaming.pipelines.declaration import AT_ONCE, Pipeline, Print, Sink, Source, Trigger

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

VIEW = "product string not null, at long not null"
COUNT = "topic string, product string, count long, at long"
COUNTS, MILESTONES = "product-counts", "product-milestones"
EVERY_MS = 1_000
# A notice is sent when a count reaches this.
MILESTONE = 1_000
CHANGED, MIN = "changed", "min="

# Target topic, product, count, and time of the last view.
ProductCount = tuple[str, str, int, int]


def viewed_at(views: DataFrame) -> Column:
    """Return the column with the times of views, Unix ms."""
    return views["value.at"]


def product_counts(views: DataFrame, product_counts: str) -> DataFrame:
    """Return a record for each count that is due, and for each that has reached a thousand.

    Columns: topic, key (the product), value (JSON) and id. product_counts: the counts sent each
    second: `every`, `changed`, or `min=N` for those of N or more. `at` in a count is the time of
    its last view.
    """
    rows = views.select(
        "partition",
        "offset",
        sql.col("value.product").alias("product"),
        sql.unix_millis("timestamp").alias("at"),
    )
    only_changed = product_counts == CHANGED
    counted = rows.groupBy("partition").transformWithStateInPandas(
        CountTable(only_changed=only_changed),
        COUNT,
        outputMode="Update",
        timeMode="ProcessingTime",  # whatever the output, as it is fixed by the checkpoint
    )
    least = int(product_counts.removeprefix(MIN)) if product_counts.startswith(MIN) else 0
    due = (sql.col("count") >= least) | (sql.col("topic") == MILESTONES)
    return counted.where(due).select(
        "topic",
        sql.col("product").alias("key"),
        sql.to_json(sql.struct("product", "count", "at")).alias("value"),
        sql.concat_ws("/", "product", "count").alias("id"),
    )


class CountTable(StatefulProcessor):
    """The counts of one partition. A batch begins every second, and emits what is due.

    only_changed: emit only what the batch has changed; otherwise the whole table, even in a second
    without views.
    """

    def __init__(self, *, only_changed: bool) -> None:
        self._only_changed = only_changed

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._handle = handle
        self._counts = handle.getMapState("counts", "product string", "count long, at long")

    def handleInputRows(  # noqa: N802, Spark's own name
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803, Spark's own name
    ) -> Iterator[pd.DataFrame]:
        """Count the batch's views, and yield the products that have reached a thousand.

        Also yield what the batch has changed, if only changes are emitted.
        """
        views = pd.concat(rows).sort_values("offset")
        entries: list[ProductCount] = []
        for product, times in views.groupby("product")["at"]:
            entries += self._add(str(product), times.tolist())
        if entries:
            yield _rows(entries)
        if not self._only_changed and not any(True for _ in self._handle.listTimers()):
            self._go_on(timerValues)

    def _add(self, product: str, times: list[int]) -> list[ProductCount]:
        """Add views of a product, and return what to emit for them at once."""
        before, _ = self._counts.getValue((product,)) or (0, 0)
        count = before + len(times)
        self._counts.updateValue((product,), (count, times[-1]))
        entries = [(COUNTS, product, count, times[-1])] if self._only_changed else []
        if before < MILESTONE <= count:
            entries.append((MILESTONES, product, MILESTONE, times[MILESTONE - before - 1]))
        return entries

    def handleExpiredTimer(  # noqa: N802, Spark's own name
        self,
        key: Any,  # noqa: ARG002
        timerValues: TimerValues,  # noqa: N803, Spark's own name
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803, Spark's own name
    ) -> Iterator[pd.DataFrame]:
        """Yield the whole table. A timer left over from another setting just ends."""
        if self._only_changed:
            return
        self._go_on(timerValues)
        entries = self._counts.iterator()
        yield _rows([(COUNTS, product, count, at) for (product,), (count, at) in entries])

    def _go_on(self, timer_values: TimerValues) -> None:
        """Let the timer fire with the next batch, which the trigger begins a second later."""
        self._handle.registerTimer(timer_values.getCurrentProcessingTimeInMs() + 1)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def _rows(entries: list[ProductCount]) -> pd.DataFrame:
    return pd.DataFrame(entries, columns=["topic", "product", "count", "at"])


PIPELINE = Pipeline(
    name="product-counts",
    title="Views of each product",
    sources={"views": Source("product-views", schema=VIEW, time=viewed_at)},
    sinks=(
        # A batch has one count per product, so there is nothing to combine.
        Sink(COUNTS, compacted=True, emit=AT_ONCE),
        Sink(MILESTONES, partitions=1),
    ),
    transform=product_counts,
    parameters=("product_counts",),
    trigger=Trigger(every_ms=EVERY_MS),
    prints=Print("views"),
    # A second without views is a batch too: the table is emitted all the same.
    settings={"spark.sql.streaming.noDataMicroBatches.enabled": "true"},
)
