"""A history's records as Spark hands them over, fed to a bucket that stands without a JVM."""

from __future__ import annotations

import random
from typing import Any

import pandas as pd
from pyspark.sql.streaming.tws_tester import TwsTester

from streaming.fold.processor import SourceRow
from streaming.state.buckets import BucketId
from support.histories.histories import Entry
from support.histories.source_records import encoded

BUCKET = BucketId("watch", 0)


def row(entry: Entry) -> SourceRow:
    """A record of a history as Spark hands it over."""
    key, value = encoded(BUCKET.scenario, entry.record)
    return SourceRow(key, value, entry.offset, entry.time, None)


def feed(spark: TwsTester, rows: list[SourceRow]) -> list[dict[str, Any]]:
    """Return what the processor emits for one batch, rows in any order."""
    shuffled = random.Random(len(rows)).sample(rows, len(rows))
    frame = pd.DataFrame(shuffled, columns=list(SourceRow._fields))
    out: Any = spark.testInPandas("watch/0#7", frame)
    rows_out: list[dict[str, Any]] = out.to_dict("records")
    return rows_out
