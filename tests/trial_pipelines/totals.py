"""Sums by key."""

from __future__ import annotations

import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from streaming.pipelines.declaration import Parallelism, Pipeline, Sink, Source, Trigger


def totals(numbers: DataFrame) -> DataFrame:
    """Return the sum and the count of each key."""
    summed = numbers.groupBy("key").agg(sql.sum("value.n").alias("n"), sql.count("*").alias("c"))
    identity = sql.concat_ws("/", "key", "c")
    value = sql.to_json(sql.struct("n", "c"))
    return summed.select("key", value.alias("value"), identity.alias("id"))


PIPELINE = Pipeline(
    name="totals",
    title="Sums by key",
    sources={"numbers": Source("trial.numbers", schema="n long")},
    sinks=(Sink("trial.totals", compacted=True),),
    transform=totals,
    trigger=Trigger(every_ms=100, max_records=2_000),
    state="memory" if os.environ.get("TRIAL_STATE") == "memory" else "rocksdb",
    parallelism=Parallelism(slots=int(os.environ.get("TRIAL_SLOTS", "1")), state_partitions=2),
)
