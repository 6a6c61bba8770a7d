"""Points by card as a task adds them up that sees its own partition alone, invoices by store."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from streaming.pipelines.declaration import Pipeline, Sink, Source, Trigger

SCHEMA = "card string not null, customer string not null, earned int not null, at long not null"


def store_totals(points: DataFrame) -> DataFrame:
    """Return the points of each card in each partition, and when the newest were earned."""
    totals = points.groupBy("partition", "value.card").agg(
        sql.sum("value.earned").alias("total"),
        sql.count("*").alias("number"),
        sql.max("value.at").alias("at"),
    )
    value = sql.to_json(sql.struct("card", "partition", "total", "at"))
    identity = sql.concat_ws("/", "partition", "card", "number")
    return totals.select(sql.col("card").alias("key"), value.alias("value"), identity.alias("id"))


def totals_of(name: str, source: str) -> Pipeline:
    """Return the pipeline that adds up `trial.<source>` into `trial.<name>`."""
    return Pipeline(
        name=name,
        title=f"Totals of {source}, a partition at a time",
        sources={"points": Source(f"trial.{source}", schema=SCHEMA)},
        sinks=(Sink(f"trial.{name}"),),
        transform=store_totals,
        trigger=Trigger(every_ms=100),
    )


PIPELINE = totals_of("store-totals", "by-store")
