"""The job's pipeline: Kafka's columns in, records for the sink topics out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming import StatefulProcessor

# Columns of the Python processor. headers: a JSON list of objects, key and value (base64).
SINK_ROWS = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("headers", StringType()),
        StructField("topic", StringType()),
    ]
)

_HEADERS = "array<struct<key:string,value:binary>>"


def rows(source: DataFrame, keys: Mapping[tuple[str, int], str]) -> DataFrame:
    """Return what an engine reads, out of Kafka's columns.

    time: append time (Unix ms); headers: null for none;
    keys: the grouping key of every (topic, partition) that is read.
    """
    return source.select(
        _grouping_key(keys).alias("bucket"),
        "key",
        "value",
        "offset",
        sql.unix_millis("timestamp").alias("time"),
        sql.when(sql.size("headers") > 0, sql.col("headers")).alias("headers"),
    )


def blocks(source: DataFrame, keys: Mapping[tuple[str, int], str]) -> DataFrame:
    """Return what the kernel reads of BlockSource's columns: the same, a block of records a row."""
    return source.select(_grouping_key(keys).alias("bucket"), "offset", "records")


def through_kernel_in_blocks(source: DataFrame, plan: str) -> DataFrame:
    """Pass blocks of records through the kernel. Returns BlockSink's column.

    plan: as Plan.json writes it.
    """
    spark = source.sparkSession
    kernel = spark._jvm.tallyboard.kernel.Kernel  # type: ignore[union-attr]  # noqa: SLF001
    return type(source)(kernel.applyToBlocks(source._jdf, plan), spark)  # noqa: SLF001


def through_kernel(source: DataFrame, plan: str) -> DataFrame:
    """Pass rows through the kernel. Returns a Kafka sink's columns.

    plan: as Plan.json writes it.
    """
    spark = source.sparkSession
    kernel = spark._jvm.tallyboard.kernel.Kernel  # type: ignore[union-attr]  # noqa: SLF001
    return type(source)(kernel.apply(source._jdf, plan), spark)  # noqa: SLF001


def through_python(source: DataFrame, processor: StatefulProcessor) -> DataFrame:
    """Pass rows through the Python engine. Returns a Kafka sink's columns."""
    encoded = source.withColumn("headers", sql.to_json("headers"))
    records = encoded.groupBy("bucket").transformWithStateInPandas(
        processor, outputStructType=SINK_ROWS, outputMode="Update", timeMode="None"
    )
    return records.select(
        "key", "value", sql.from_json("headers", _HEADERS).alias("headers"), "topic"
    )


def _grouping_key(keys: Mapping[tuple[str, int], str]) -> Column:
    """Return the column of the grouping key, found by topic, then by partition.

    That is cheaper for each record than a name made of both.
    """
    column: Column = sql.lit(None).cast("string")
    for topic in sorted({topic for topic, _ in keys}, reverse=True):
        of_topic = sql.create_map(
            *(
                sql.lit(part)
                for (t, at), key in sorted(keys.items())
                if t == topic
                for part in (at, key)
            )
        )
        column = sql.when(sql.col("topic") == topic, of_topic[sql.col("partition")]).otherwise(
            column
        )
    return column
