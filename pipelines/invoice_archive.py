"""Archive invoice lines as a Delta table of Parquet files, by day, with each line once."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from streaming.pipelines.declaration import OutputTable, Parallelism, Pipeline, Source, Trigger

# A line in `invoice-lines`, masked. at: Unix ms; price and amount: cents.
LINE = """
invoice string not null, store string, customer string, customer_type string, delivery string,
at long not null, lines int, line int not null, product string, title string, quantity int,
price long, amount long, kind string,
card string, name string, phone string, street string, city string, postcode string
"""


def sold_at(lines: DataFrame) -> Column:
    """Return when a line was sold, ms. It determines the line's day, so it must be a valid time."""
    return lines["value.at"]


def invoice_archive(lines: DataFrame) -> DataFrame:
    """Return the lines as rows of the table, each with its UTC day."""
    return lines.select("value.*", sql.date_format("timestamp", "yyyy-MM-dd").alias("day"))


PIPELINE = Pipeline(
    name="invoice-archive",
    title="Lines of invoices as Parquet, by day",
    sources={"lines": Source("invoice-lines", schema=LINE, time=sold_at, dead_letters=False)},
    sinks=(),
    table=OutputTable("invoices_table", keys=("invoice", "line")),
    transform=invoice_archive,
    trigger=Trigger(every_ms=20_000, max_records=50_000),
    # This many tasks write the files of a batch; on a cluster, each runs in an executor.
    parallelism=Parallelism(slots=2),
)
