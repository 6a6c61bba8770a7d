"""Records as a pipeline's DataFrames, their times, and global tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pandas as pd
from pyspark.sql import functions as sql
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructType

from domain.records import SCHEMA_MISMATCH
from wire.forward import OFFSET, PARTITION, TIME
from wire.sink import MAX_DEAD_VALUE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from streaming.pipelines.declaration import GlobalTable, Source


# ---- previous time -------------------------------------------------------------------------------
# A record without a valid time takes that of the record before it in its partition.


def with_previous(rows: DataFrame) -> DataFrame:
    """Return the rows with the valid `time` before them where theirs has a fault; null: none yet.

    This keeps state by partition, so only what is stateless can follow it in mode update.
    """
    return rows.groupBy("topic", "partition").transformWithStateInPandas(
        PreviousTime(), outputStructType=rows.schema, outputMode="Append", timeMode="None"
    )


class PreviousTime(StatefulProcessor):
    """Remembers the last valid time of one partition."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self._time = handle.getValueState("time", "time long")

    def handleInputRows(  # noqa: N802, Spark's own name
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: ARG002, N803, Spark's own name
    ) -> Iterator[pd.DataFrame]:
        """Yield the partition's rows in order, each with its time."""
        batch = pd.concat(rows).sort_values("offset")
        valid = batch["time"].where(batch["fault"].isna()).astype("Int64")
        if (before := self._time.get()) is not None and pd.isna(valid.iloc[0]):
            valid.iloc[0] = before[0]
        filled = valid.ffill()
        if not pd.isna(filled.iloc[-1]):
            self._time.update((int(filled.iloc[-1]),))
        yield batch.assign(time=filled)

    def close(self) -> None:
        """Nothing is to be closed."""


# ---- timestamps ----------------------------------------------------------------------------------
# The time of a record: what is wrong with it, and what is used instead.

AHEAD_MS = 5 * 60_000
REASONS = ("missing", "negative", "ahead")
# Of a record whose time is valid, but that comes too late: what a transform counts.
LATE = "late"
# Kafka's word for a record without a time.
NO_TIME = -1


def with_time(rows: DataFrame, source: Source) -> DataFrame:
    """Return the rows with `time` (ms; null: none) and `fault`: one of REASONS, null for none."""
    if source.time is None:
        kafka = sql.unix_millis("timestamp")
        time = sql.when(kafka != NO_TIME, kafka)
    else:
        time = source.time(rows).cast("long")
    return rows.withColumn("time", time).withColumn("fault", _fault())


def _fault() -> Column:
    now = sql.unix_millis(sql.current_timestamp())
    return (
        sql.when(sql.col("time").isNull(), "missing")
        .when(sql.col("time") < 0, "negative")
        .when(sql.col("time") > now + AHEAD_MS, "ahead")
    )


def settled(rows: DataFrame, source: Source) -> DataFrame:
    """Return the rows with `timestamp` as the policy has it; rows to skip are left out."""
    timed = _by_policy(rows, source).where(sql.col("time").isNotNull())
    return timed.withColumn("timestamp", sql.timestamp_millis("time")).drop("time", "fault")


def _by_policy(rows: DataFrame, source: Source) -> DataFrame:
    """Return the rows with another `time` where theirs has a fault; null: to be skipped."""
    valid, invalid = sql.col("fault").isNull(), source.invalid_time
    if invalid == "previous":
        return with_previous(rows)
    if invalid == "fail":
        other = _failure()
    elif invalid == "wall-clock":
        other = sql.unix_millis(sql.current_timestamp())
    elif callable(invalid):
        other = invalid(sql.col("time"), sql.col("fault")).cast("long")
    else:
        return rows.where(valid)
    return rows.withColumn("time", sql.when(valid, sql.col("time")).otherwise(other))


def _failure() -> Column:
    place = sql.concat_ws("/", "topic", "partition", "offset")
    text = sql.concat(sql.lit("InvalidTimestamp: "), place, sql.lit(": "), sql.col("fault"))
    return sql.raise_error(text).cast("long")


# ---- records -------------------------------------------------------------------------------------
# Kafka's columns as a transform takes them, and what becomes of records that it cannot take.

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


def without_forwarded(reports: DataFrame) -> DataFrame:
    """Return a source's records without those that the job forwarded from another partition."""
    forwarded = sql.exists("headers", lambda header: header["key"] == TIME)
    return reports.where(~sql.coalesce(forwarded, sql.lit(False)))


def first_place() -> Column:
    """Return where a record lies, `partition/offset`; of one that the job forwarded: where it lay
    first, so that both have the same."""
    forwarded = sql.concat(_number_in(PARTITION), sql.lit("/"), _number_in(OFFSET))
    return sql.coalesce(forwarded, sql.concat_ws("/", "partition", "offset"))


def _number_in(name: str) -> Column:
    """Return the number in the first header of this name as text, null if there is none: the job
    writes its own headers first."""
    named = sql.filter("headers", lambda header: header["key"] == name)
    return sql.get(named, 0)["value"].cast("string").try_cast("long").cast("string")


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


# ---- global table --------------------------------------------------------------------------------
# A topic as a table that a pipeline follows: each batch reads it to its end, as it is then.
#
# Spark plans a batch anew, and with it the reading of what is no stream: so a change of the table
# is seen by the first batch that begins after it, and the first batch of all has the whole table.

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
