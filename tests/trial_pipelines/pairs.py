"""Two sources that are to have equally many partitions."""

from __future__ import annotations

from pyspark.sql import DataFrame

from streaming.pipelines.declaration import Pipeline, Sink, Source


def pairs(left: DataFrame, right: DataFrame) -> DataFrame:
    """Return the records of both."""
    columns = ("key", "value", "offset as id")
    return left.selectExpr(*columns).union(right.selectExpr(*columns))


PIPELINE = Pipeline(
    name="pairs",
    title="Two sources",
    sources={"left": Source("trial.numbers"), "right": Source("trial.odd")},
    sinks=(Sink("trial.pairs"),),
    transform=pairs,
    co_partitioned=("left", "right"),
)
