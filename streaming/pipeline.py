"""The job's pipeline: Kafka's columns in, records for the sink topics out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming import StatefulProcessor

ROWS = ("key", "value", "offset", "time", "headers")
"""Columns that the processor reads. time: append time, ms; headers: JSON, or null for none."""

SINK_ROWS = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("headers", StringType()),
        StructField("topic", StringType()),
    ]
)
"""Columns that the processor writes. headers: a JSON list of objects, key and value (base64)."""

_HEADERS = "array<struct<key:string,value:binary>>"


def build(
    source: DataFrame, keys: Mapping[tuple[str, int], str], processor: StatefulProcessor
) -> DataFrame:
    """Put `processor` between a source with Kafka's columns and a sink with Kafka's columns.

    keys: the grouping key of every (topic, partition) that is read.
    """
    rows = source.select(
        _grouping_key(keys).alias("bucket"),
        "key",
        "value",
        "offset",
        sql.unix_millis("timestamp").alias("time"),
        sql.when(sql.size("headers") > 0, sql.to_json("headers")).alias("headers"),
    )
    records = rows.groupBy("bucket").transformWithStateInPandas(
        processor, outputStructType=SINK_ROWS, outputMode="Update", timeMode="None"
    )
    return records.select(
        "key", "value", sql.from_json("headers", _HEADERS).alias("headers"), "topic"
    )


def _grouping_key(keys: Mapping[tuple[str, int], str]) -> Column:
    pairs = [
        sql.lit(text)
        for (topic, at), key in sorted(keys.items())
        for text in (f"{topic}/{at}", key)
    ]
    return sql.create_map(*pairs)[sql.concat_ws("/", "topic", sql.col("partition").cast("string"))]
