"""Running totals of points by card, and the customer's tier, which goes on the board.

Each invoice counts once for its card, however often it comes: a till sends it again within a
minute, and `invoices` after a kill or a reset, for as long as the log of the tills has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as sql
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from pipelines.invoices import POINTS, record
from streaming.pipelines.declaration import Emission, Pipeline, Sink, Source, Trigger

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import TimerValues

EARNED = """
card string not null, customer string not null, invoice string not null, earned int not null,
at long not null
"""
TOTAL = "card string, customer string, invoice string, earned int, total long, at long, time long"

# Points from which on a customer has a tier; with fewer it is bronze.
SILVER, GOLD = 500, 2_000
# How long an invoice is remembered: the tills' log keeps one for a week and a day at most, and a
# day is left for the broker to delete it.
REMEMBERED_MS = 9 * 86_400_000
LOYALTY, CUSTOMERS = "loyalty", "customers.reports"


def loyalty(earned: DataFrame) -> DataFrame:
    """Return a record for each invoice that counts, with the card's total, and a report on its
    customer.

    Columns: topic, key, value (JSON) and id.
    """
    rows = earned.select("value.*", "partition", "offset", sql.unix_millis("timestamp").alias("ms"))
    totals = rows.groupBy("card").transformWithState(
        Account(), TOTAL, outputMode="Update", timeMode="ProcessingTime"
    )
    records = sql.array(_total(), _report())
    return totals.select(sql.explode(records).alias("record")).select("record.*")


class Account(StatefulProcessor):
    """The points of one card, and the invoices that they come from."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._total = handle.getValueState("total", "total long, time long")
        self._counted = handle.getMapState(
            "counted", "invoice string", "at long", ttlDurationMs=REMEMBERED_MS
        )

    def handleInputRows(  # noqa: N802, Spark's own name
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: ARG002, N803, Spark's own name
    ) -> Iterator[Row]:
        """Yield a row for each invoice that counts; times rise, so that the board takes each."""
        total, time = self._total.get() or (0, 0)
        for row in sorted(rows, key=lambda row: (row.partition, row.offset)):
            if self._counted.containsKey((row.invoice,)):
                continue
            self._counted.updateValue((row.invoice,), (row.at,))
            total, time = total + row.earned, max(row.ms, time + 1)
            yield Row(
                card=row.card,
                customer=row.customer,
                invoice=row.invoice,
                earned=row.earned,
                total=total,
                at=row.at,
                time=time,
            )
        self._total.update((total, time))

    def close(self) -> None:
        """Nothing is to be closed."""


def _total() -> Column:
    value = sql.struct("card", "customer", "invoice", "earned", "total", "at")
    return record(LOYALTY, sql.col("card"), value)


def _report() -> Column:
    """Return the report on the customer, as `wire.source.encode_report` makes it."""
    total = sql.col("total")
    tier = sql.when(total >= GOLD, "gold").when(total >= SILVER, "silver").otherwise("bronze")
    value = sql.struct(
        sql.lit("report").alias("type"),
        sql.lit("loyalty").alias("agent"),
        tier.alias("state"),
        sql.col("time").alias("reported_at"),
        sql.struct(total.alias("points")).alias("detail"),
    )
    return record(CUSTOMERS, sql.col("customer"), value)


PIPELINE = Pipeline(
    name="loyalty",
    title="Points by card, and tiers of customers",
    sources={"earned": Source(POINTS, schema=EARNED, invalid_time="wall-clock")},
    sinks=(
        Sink(LOYALTY, partitions=3, emit=Emission(every_ms=0)),
        Sink(CUSTOMERS, emit=Emission(every_ms=0)),
    ),
    transform=loyalty,
    trigger=Trigger(every_ms=2_000),
)
