"""The slow stage: finds the station of each visit, using a look-up of 50 ms per record.

Two partitions would mean two tasks and forty records a second. The topic before it has eight
partitions, so eight look-ups run at once; `station_lookup_direct` shows what happens without it.
"""

from __future__ import annotations

import time
import zlib

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from streaming.pipelines.declaration import Parallelism, Pipeline, Sink, Source, Trigger

# How long an external catalogue takes to answer.
LOOKUP_S = 0.05
HALLS = ("north", "east", "south", "west")


def look_up(station: str | None) -> str | None:
    """Return the hall of a station, like a catalogue of stations that takes a while to answer."""
    if station is None:
        return None
    time.sleep(LOOKUP_S)
    return f"hall {HALLS[zlib.crc32(station.encode()) % len(HALLS)]}"


def hall_of(station: Column) -> Column:
    """Return the column with the halls of stations."""
    # Marked as non-deterministic: otherwise Spark may look a station up again in the next step.
    return sql.udf(look_up, "string", useArrow=False).asNondeterministic()(station)


def station_lookup(visits: DataFrame) -> DataFrame:
    """Return the visits, each with its hall: key (the order), value (JSON) and id."""
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
