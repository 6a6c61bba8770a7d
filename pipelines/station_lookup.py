"""The slow stage: where the station of each visit is, by a look-up of 50 ms a record.

Two partitions would be two tasks, forty records a second. The topic before it has eight, so eight
look-ups wait at once; `station_lookup_direct` shows what happens without it.
"""

from __future__ import annotations

import time
import zlib

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from streaming.pipelines.declaration import Parallelism, Pipeline, Sink, Source, Trigger

# How long a catalogue somewhere else takes to answer.
LOOKUP_S = 0.05
HALLS = ("north", "east", "south", "west")


def look_up(station: str | None) -> str | None:
    """Return the hall that a station is in, as the catalogue of stations answers after a while."""
    if station is None:
        return None
    time.sleep(LOOKUP_S)
    return f"hall {HALLS[zlib.crc32(station.encode()) % len(HALLS)]}"


def hall_of(station: Column) -> Column:
    """Return the column of the halls that stations are in."""
    # Not deterministic to Spark: else it may look a station up again in the next step.
    return sql.udf(look_up, "string", useArrow=False).asNondeterministic()(station)


def station_lookup(visits: DataFrame) -> DataFrame:
    """Return the visits with the hall of each: key (the order), value (JSON) and id."""
    placed = visits.select(
        "key",
        "value.*",
        hall_of(sql.col("value.station")).alias("hall"),
        sql.concat_ws("/", "topic", "partition", "offset").alias("id"),
    )
    value = sql.to_json(sql.struct("station", "state", "at", "hall"))
    return placed.select("key", value.alias("value"), "id")


PIPELINE = Pipeline(
    name="station-lookup",
    title="The hall of each order, by a look-up of 50 ms",
    sources={
        "visits": Source("pipelines.station-visits", schema="station string, state string, at long")
    },
    sinks=(Sink("pipelines.station-places"),),
    transform=station_lookup,
    trigger=Trigger(every_ms=200, max_records=400),
    parallelism=Parallelism(slots=8),
)
