"""Views of each product, counted: every second the whole table goes to `product-counts`, and a
product whose count reaches a thousand to `product-milestones`, once.

A product's views are all in one partition, so a partition of `product-views` has a table of its
own, as one value by product in Spark's state. docs/pipelines.md says which entries go out when.
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
# As a count reaches this, somebody is told.
MILESTONE = 1_000
CHANGED, MIN = "changed", "min="

# The topic that it goes to, the product, its count, the time of its last view.
ProductCount = tuple[str, str, int, int]


def viewed_at(views: DataFrame) -> Column:
    """Return the column of times at which products were viewed, Unix ms."""
    return views["value.at"]


def product_counts(views: DataFrame, product_counts: str) -> DataFrame:
    """Return a record for each count that is due, and for each that has reached a thousand: topic,
    key (the product), value (JSON) and id.

    product_counts: which ones a second brings: `every`, `changed`, or `min=N`, those from N on.
    `at` of a count is the time of its last view.
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
        timeMode="ProcessingTime",  # whatever goes out: it belongs to the checkpoint
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
    """The counts of one partition. A batch begins every second, and what is due goes out with it.

    only_changed: only what the batch has changed; else the whole table, also in a second without
    views.
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
        """Count the batch's views; yield who has reached a thousand, and what the batch has
        changed, where that is all that goes out."""
        views = pd.concat(rows).sort_values("offset")
        entries: list[ProductCount] = []
        for product, times in views.groupby("product")["at"]:
            entries += self._add(str(product), times.tolist())
        if entries:
            yield _rows(entries)
        if not self._only_changed and not any(True for _ in self._handle.listTimers()):
            self._go_on(timerValues)

    def _add(self, product: str, times: list[int]) -> list[ProductCount]:
        """Add views of a product; return what goes out of that at once."""
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
        """Yield the whole table; a timer of another setting's time ends."""
        if self._only_changed:
            return
        self._go_on(timerValues)
        entries = self._counts.iterator()
        yield _rows([(COUNTS, product, count, at) for (product,), (count, at) in entries])

    def _go_on(self, timer_values: TimerValues) -> None:
        """Have the timer fire with the next batch, which the trigger begins a second later."""
        self._handle.registerTimer(timer_values.getCurrentProcessingTimeInMs() + 1)

    def close(self) -> None:
        """Nothing is to be closed."""


def _rows(entries: list[ProductCount]) -> pd.DataFrame:
    return pd.DataFrame(entries, columns=["topic", "product", "count", "at"])


PIPELINE = Pipeline(
    name="product-counts",
    title="Views of each product",
    sources={"views": Source("product-views", schema=VIEW, time=viewed_at)},
    sinks=(
        # A batch has one count of a product: there is nothing to gather.
        Sink(COUNTS, compacted=True, emit=AT_ONCE),
        Sink(MILESTONES, partitions=1),
    ),
    transform=product_counts,
    parameters=("product_counts",),
    trigger=Trigger(every_ms=EVERY_MS),
    prints=Print("views"),
    # A second without views is a batch too: the table goes out all the same.
    settings={"spark.sql.streaming.noDataMicroBatches.enabled": "true"},
)
