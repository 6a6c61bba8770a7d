"""Kafka's columns as a transform takes them, and what becomes of records that it cannot take."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, NamedTuple, cast

from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from domain.records import SCHEMA_MISMATCH
from streaming.pipelines.timestamps import REASONS, settled, with_time
from wire.sink import MAX_DEAD_VALUE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streaming.pipelines.declaration import Source

# What a source is observed by in Spark's progress: this and its name.
OBSERVED = "source:"
CORRUPT = "_corrupt"


class Decoded(NamedTuple):
    """A source's rows for the transform; dead: those that could not be read, None where
    they are only counted."""

    rows: DataFrame
    dead: DataFrame | None


def decode(
    raw: DataFrame, name: str, source: Source, topics: Sequence[str], prefix: str
) -> Decoded:
    """Return what a transform reads out of Kafka's columns.

    Columns: key, value (a struct by the schema, else bytes), topic (without the prefix), partition,
    offset, timestamp, headers. topics: those that are read, with the prefix.
    """
    read = parsed(raw, source.schema)
    timed = with_time(read.withColumn("task", sql.spark_partition_id()), source)
    observed = timed.observe(OBSERVED + name, *_observations(topics))
    good = observed.where(~sql.col("unreadable")).drop("raw", "unreadable", "task")
    rows = settled(good, source).withColumn("topic", sql.substring("topic", len(prefix) + 1, 250))
    refuses = source.schema is not None and source.dead_letters
    dead = _dead(read.where("unreadable")) if refuses else None
    return Decoded(rows.drop("timestampType"), dead)


def parsed(raw: DataFrame, schema: str | None) -> DataFrame:
    """Return records with their value by the schema; as it was: `raw`; whether it does not fit:
    `unreadable`."""
    rows = raw.withColumn("raw", sql.col("value"))
    if schema is None:
        return rows.withColumn("unreadable", sql.lit(False))
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    text = sql.col("value").cast("string")
    value = sql.from_json(text, f"{schema}, {CORRUPT} string", options)
    return (
        rows.withColumn("key", sql.col("key").cast("string"))
        .withColumn("value", value)
        .withColumn("unreadable", _unreadable(schema))
        .withColumn("value", sql.col("value").dropFields(CORRUPT))
    )


def _unreadable(schema: str) -> Column:
    """Return whether the value is no JSON of the schema, or lacks a column that is NOT NULL."""
    fields = cast("StructType", StructType.fromDDL(schema)).fields
    needed = [field.name for field in fields if not field.nullable]
    corrupt = sql.coalesce(sql.col(f"value.{CORRUPT}").isNotNull(), sql.lit(False))
    return reduce(or_, (sql.col("value")[name].isNull() for name in needed), corrupt)


def _observations(topics: Sequence[str]) -> list[Column]:
    """Return what is counted of a source in each batch; see `figures.py`."""
    place = sql.concat_ws("@", "topic", "partition", "task")
    counted = [
        _number((sql.col("topic") == topic) & (sql.col("fault") == reason)).alias(
            f"{reason}@{topic}"
        )
        for topic in topics
        for reason in REASONS
    ]
    return [
        sql.count("*").alias("records"),
        _number(sql.col("unreadable")).alias("unreadable"),
        sql.max(sql.unix_millis("timestamp")).alias("newest"),
        sql.collect_set(place).alias("tasks"),
        *counted,
    ]


def _number(condition: Column) -> Column:
    return sql.count(sql.when(condition, 1))


def _dead(rows: DataFrame) -> DataFrame:
    """Return dead letters as `wire.sink.encode_dead_letter` makes them, as a Kafka sink's rows.

    A producer may set the record's time, or none (-1), and a key as long as a record: neither may
    keep the letter from being written, or read.
    """
    time = sql.greatest(sql.lit(0), sql.unix_millis("timestamp"))
    named = {
        "reason": sql.lit(SCHEMA_MISMATCH),
        "source-topic": sql.col("topic"),
        "source-partition": sql.col("partition"),
        "source-offset": sql.col("offset"),
        "source-timestamp": time,
    }
    headers = [header(name, value) for name, value in named.items()]
    identity = sql.concat_ws("/", "topic", "partition", "offset")
    return rows.select(
        sql.substring(sql.col("key").cast("binary"), 1, MAX_DEAD_VALUE).alias("key"),
        sql.substring("raw", 1, MAX_DEAD_VALUE).alias("value"),
        sql.array(*headers, header("id", identity)).alias("headers"),
    )


def header(name: str, value: Column) -> Column:
    """Return a header of a Kafka sink's row."""
    encoded = value.cast("string").cast("binary")
    return sql.struct(sql.lit(name).alias("key"), encoded.alias("value"))
