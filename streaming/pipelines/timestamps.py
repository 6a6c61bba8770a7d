"""The time of a record: what is wrong with it, and what is used instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from streaming.pipelines.previous_time import with_previous

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from streaming.pipelines.declaration import Source

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
