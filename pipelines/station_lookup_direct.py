"""The look-up in one stage, directly from the reports, for comparison with `station_lookup`.

It makes as many look-ups at once as the reports have partitions. With two partitions it handles
forty records a second; above that it falls behind without limit.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from pipelines.station_lookup import hall_of
from streaming.pipelines.declaration import Parallelism, Pipeline, Sink, Source, Trigger


def station_lookup_direct(reports: DataFrame) -> DataFrame:
    """Return each report on an order with the hall of its station: key, value (JSON) and id."""
    placed = reports.where("value.type = 'report'").select(
        "key",
        sql.col("value.agent").alias("station"),
        "value.state",
        sql.unix_millis("timestamp").alias("at"),
        hall_of(sql.col("value.agent")).alias("hall"),
        sql.concat_ws("/", "topic", "partition", "offset").alias("id"),
    )
    value = sql.to_json(sql.struct("station", "state", "at", "hall"))
    return placed.select("key", value.alias("value"), "id")


PIPELINE = Pipeline(
    name="station-lookup-direct",
    title="The hall of each order, looked up in one stage",
    sources={
        "reports": Source(
            "orders.reports",
            schema="type string, agent string, state string",
            dead_letters=False,
        )
    },
    sinks=(Sink("pipelines.station-places-direct"),),
    transform=station_lookup_direct,
    trigger=Trigger(every_ms=200, max_records=400),
    parallelism=Parallelism(slots=8),
    on=False,
)
