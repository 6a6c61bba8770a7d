"""A topic as a table that a pipeline follows: each batch reads it to its end, as it is then.

Spark plans a batch anew, and with it the reading of what is no stream: so a change of the table is
seen by the first batch that begins after it, and the first batch of all has the whole table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from streaming.pipelines.records import parsed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from streaming.pipelines.declaration import GlobalTable

# What a table is observed by in Spark's progress: this and its name; and its rows that are left
# out, as their newest record does not fit the schema.
FOLLOWED, MISFITS = "table:", "misfits:"


def follow(
    spark: SparkSession,
    options: Mapping[str, str],
    name: str,
    table: GlobalTable,
    partitions: Mapping[str, int],
) -> DataFrame:
    """Return the rows of a table: `key` (text) and `value` (a struct by the schema, else bytes).

    options: of Kafka's connection; partitions: of its topic, by the topic's name.
    """
    reader = spark.read.format("kafka").options(**options, failOnDataLoss="false")
    records = reader.option("subscribe", ",".join(partitions)).load()
    placed = records.withColumn("task", sql.spark_partition_id())
    tasks = sql.collect_set(sql.concat_ws("@", "topic", "partition", "task")).alias("tasks")
    seen = placed.observe(f"{FOLLOWED}{name}", tasks, *_next_offsets(partitions))
    newest = (
        seen.where("key is not null")
        .groupBy("key")
        .agg(sql.max_by("value", "offset").alias("value"))
        .where("value is not null")
    )
    rows = parsed(newest, table.schema)
    misfits = sql.count(sql.when(sql.col("unreadable"), 1)).alias("rows")
    kept = rows.observe(f"{MISFITS}{name}", misfits).where(~sql.col("unreadable"))
    return kept.select(sql.col("key").cast("string").alias("key"), "value")


def _next_offsets(partitions: Mapping[str, int]) -> list[Column]:
    """Return what follows the last record of each partition, as `prices@0`."""
    return [
        (sql.max(sql.when(sql.col("partition") == number, sql.col("offset"))) + 1).alias(
            f"{topic}@{number}"
        )
        for topic, count in partitions.items()
        for number in range(count)
    ]
