"""Invoices by store, moved into a topic whose partitions are by customer."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from pipelines.invoices import by_customer
from streaming.pipelines.declaration import Pipeline, Sink, Source, Trigger
from trial_pipelines.store_totals import SCHEMA


def repartition(points: DataFrame) -> DataFrame:
    """Return the records by card, each named by its place in the log."""
    return points.select(
        "value.customer",
        sql.col("value.card").alias("key"),
        sql.to_json("value").alias("value"),
        sql.concat_ws("/", "partition", "offset").alias("id"),
    )


PIPELINE = Pipeline(
    name="repartition",
    title="Invoices by customer",
    sources={"points": Source("trial.by-store", schema=SCHEMA)},
    sinks=(Sink("trial.repartition", partitions=3, partitioner=by_customer),),
    transform=repartition,
    trigger=Trigger(every_ms=100),
)
