"""Running totals of points, by card as a stream and by customer as a table, and customers' tiers.

The tiers go on the board. Each invoice counts once for its card, however often it comes: a till
sends it again within a minute, and `invoices` after a kill or a reset, as long as it is in the
tills' log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as sql
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from pipelines.invoices import MONTH_MS, POINTS, record
from streaming.pipelines.declaration import Pipeline, Sink, Source, Trigger

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import TimerValues

EARNED = """
card string not null, customer string not null, invoice string not null, earned int not null,
email string, at long not null
"""
TOTAL = """
card string, customer string, invoice string, earned long, total long, email string, at long,
time long
"""

# Points from which a customer has a tier; below that, the tier is bronze.
SILVER, GOLD = 500, 2_000
# How long an invoice is remembered: the tills' log keeps it for at most a week and a day, and the
# broker gets another day to delete it.
REMEMBERED_MS = 9 * 86_400_000
LOYALTY, CUSTOMERS, TABLE = "loyalty", "customers.reports", "customer-points"
# How long the table keeps a customer who buys nothing: as long as the points it is based on.
TABLE_KEPT_MS = MONTH_MS


def loyalty(earned: DataFrame) -> DataFrame:
    """Return a total, a report and a table row for each invoice that counts.

    The total is the card's, the report and the row are the customer's. Columns: topic, key, value
    (JSON) and id.
    """
    rows = earned.select("value.*", "partition", "offset", sql.unix_millis("timestamp").alias("ms"))
    totals = rows.groupBy("card").transformWithState(
        Account(), TOTAL, outputMode="Update", timeMode="ProcessingTime"
    )
    records = sql.array(_total(), _report(), _row())
    return totals.select(sql.explode(records).alias("record")).select("record.*")


class Account(StatefulProcessor):
    """The points of one card, and the invoices that earned them.

    A return may arrive before its sale, as the two may be from different stores. The balance of all
    invoices may therefore be negative, but the total never is. An invoice earns the change it made
    to the total.
    """

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._balance = handle.getValueState("total", "total long, time long")
        self._counted = handle.getMapState(
            "counted", "invoice string", "at long", ttlDurationMs=REMEMBERED_MS
        )

    def handleInputRows(  # noqa: N802, Spark's own name
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: ARG002, N803, Spark's own name
    ) -> Iterator[Row]:
        """Yield a row for each invoice that counts; times increase, so that the board accepts
        each."""
        balance, time = self._balance.get() or (0, 0)
        for row in sorted(rows, key=lambda row: (row.partition, row.offset)):
            if self._counted.containsKey((row.invoice,)):
                continue
            self._counted.updateValue((row.invoice,), (row.at,))
            before, balance, time = balance, balance + row.earned, max(row.ms, time + 1)
            total = max(0, balance)
            yield Row(
                card=row.card,
                customer=row.customer,
                invoice=row.invoice,
                earned=total - max(0, before),
                total=total,
                email=row.email,
                at=row.at,
                time=time,
            )
        self._balance.update((balance, time))

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def _total() -> Column:
    value = sql.struct("card", "customer", "invoice", "earned", "total", "email", "at")
    return record(LOYALTY, sql.col("card"), value)


def _report() -> Column:
    """Return the report on the customer, in the format of `wire.source.encode_report`."""
    value = sql.struct(
        sql.lit("report").alias("type"),
        sql.lit("loyalty").alias("agent"),
        _tier().alias("state"),
        sql.col("time").alias("reported_at"),
        sql.struct(sql.col("total").alias("points")).alias("detail"),
    )
    return record(CUSTOMERS, sql.col("customer"), value)


def _row() -> Column:
    """Return the customer's row of the table, which names no card."""
    value = sql.struct("customer", sql.col("total").alias("points"), _tier().alias("tier"), "at")
    return record(TABLE, sql.col("customer"), value)


def _tier() -> Column:
    total = sql.col("total")
    return sql.when(total >= GOLD, "gold").when(total >= SILVER, "silver").otherwise("bronze")


PIPELINE = Pipeline(
    name="loyalty",
    title="Points by card, and tiers of customers",
    sources={"earned": Source(POINTS, schema=EARNED, invalid_time="wall-clock")},
    sinks=(
        Sink(LOYALTY, partitions=3),
        Sink(CUSTOMERS),
        # Readers of the table want a customer's current points: for several invoices in a batch,
        # the last one's row is enough.
        Sink(TABLE, compacted=True, keep_ms=TABLE_KEPT_MS),
    ),
    transform=loyalty,
    trigger=Trigger(every_ms=2_000),
)
