"""A pipeline that takes no record without a valid time."""

from __future__ import annotations

from pyspark.sql import DataFrame

from streaming.pipelines.declaration import Pipeline, Sink, Source, Trigger


def copies(timed: DataFrame) -> DataFrame:
    """Return the records, each named by its offset."""
    return timed.selectExpr("key", "to_json(value) as value", "offset as id")


PIPELINE = Pipeline(
    name="strict",
    title="No record without a valid time",
    sources={
        "timed": Source(
            "trial.timed",
            schema="at long",
            time=lambda rows: rows["value.at"],
            invalid_time="fail",
        )
    },
    sinks=(Sink("trial.strict"),),
    transform=copies,
    trigger=Trigger(every_ms=100),
)
