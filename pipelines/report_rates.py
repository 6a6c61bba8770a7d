"""Count the reports that each agent sends per minute, by scenario."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from streaming.pipelines.declaration import AT_ONCE, Pipeline, Sink, Source, Trigger
from streaming.pipelines.records import without_forwarded

DAY_MS = 86_400_000


def report_rates(reports: DataFrame) -> DataFrame:
    """Return a record for each minute, scenario and agent: key, value (JSON) and id.

    A minute is counted as long as reports for it arrive, until one is a minute newer than its end.
    """
    scenario = sql.regexp_extract("topic", r"(.+)\.reports$", 1)
    counted = (
        without_forwarded(reports)
        .where("value.type = 'report'")
        .withColumn("scenario", scenario)
        .withColumn("agent", sql.col("value.agent"))
        .withWatermark("timestamp", "1 minute")
        .groupBy(sql.window("timestamp", "1 minute"), "scenario", "agent")
        .agg(sql.count("*").alias("reports"))
        .withColumn("begin", sql.unix_millis("window.start"))
    )
    key = sql.concat_ws("/", "scenario", "agent", "begin")
    value = sql.to_json(sql.struct("scenario", "agent", "begin", "reports"))
    return counted.select(key.alias("key"), value.alias("value"), _id().alias("id"))


def _id() -> sql.Column:
    return sql.concat_ws("/", "scenario", "agent", "begin", "reports")


PIPELINE = Pipeline(
    name="report-rates",
    title="Reports of each agent in each minute",
    sources={
        "reports": Source("*.reports", schema="type string, agent string", dead_letters=False)
    },
    sinks=(
        Sink(
            "pipelines.report-rates",
            compacted=True,
            keep_ms=DAY_MS,
            emit=AT_ONCE,
        ),
    ),
    transform=report_rates,
    trigger=Trigger(every_ms=10_000),
)
