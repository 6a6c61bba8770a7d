"""Each record, as it came."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from streaming.pipelines.declaration import Pipeline, Sink, Source, Trigger


def copies(numbers: DataFrame) -> DataFrame:
    """Return the records, each named by its place in the log."""
    identity = sql.concat_ws("/", "topic", "partition", "offset")
    return numbers.select("key", sql.to_json("value").alias("value"), identity.alias("id"))


PIPELINE = Pipeline(
    name="copies",
    title="Each record as it came",
    sources={"numbers": Source("trial.numbers", schema="n long")},
    sinks=(Sink("trial.copies"),),
    transform=copies,
    trigger=Trigger(every_ms=100, max_records=2_000),
)
