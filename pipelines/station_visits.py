"""The fast stage before `station_lookup`: copies reports on orders to a topic of eight partitions.

It only forwards records, so its lag stays small however slow the look-up after it is.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from streaming.pipelines.declaration import Pipeline, Sink, Source, Trigger


def station_visits(reports: DataFrame) -> DataFrame:
    """Return each report on an order as a visit: key (the order), value (JSON) and id."""
    visits = reports.where("value.type = 'report'").select(
        "key",
        sql.col("value.agent").alias("station"),
        "value.state",
        sql.unix_millis("timestamp").alias("at"),
        sql.concat_ws("/", "topic", "partition", "offset").alias("id"),
    )
    return visits.select(
        "key", sql.to_json(sql.struct("station", "state", "at")).alias("value"), "id"
    )


PIPELINE = Pipeline(
    name="station-visits",
    title="Orders at stations, spread over eight partitions",
    sources={
        "reports": Source(
            "orders.reports",
            schema="type string, agent string, state string",
            dead_letters=False,
        )
    },
    sinks=(Sink("pipelines.station-visits", partitions=8),),
    transform=station_visits,
    trigger=Trigger(every_ms=200),
)
