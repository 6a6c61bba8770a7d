"""A history's records as Spark hands them over, fed to a bucket that stands without a JVM."""

from __future__ import annotations

import random
from typing import Any

import pandas as pd
from histories import Entry
from pyspark.sql.streaming.tws_tester import TwsTester

from domain.records import Command, Mute, Report, ScenarioChange, Tick, Unmute
from streaming.buckets import BucketId
from streaming.processor import SourceRow
from wire.source import (
    encode_command,
    encode_mute,
    encode_report,
    encode_scenario,
    encode_tick,
)

BUCKET = BucketId("watch", 0)


def row(entry: Entry) -> SourceRow:
    """A record of a history as Spark hands it over."""
    record = entry.record
    key: bytes | None
    match record:
        case Report():
            key, value = record.asset.encode(), encode_report(record)
        case Command():
            key, value = record.asset.encode(), encode_command(record)
        case ScenarioChange():
            key, value = None, encode_scenario(record.scenario)
        case Mute() | Unmute():
            key, value = None, encode_mute(record)
        case Tick():
            key, value = None, encode_tick()
        case _:
            key, value = b"a", b"{nonsense"
    return SourceRow(key, value, entry.offset, entry.time, None)


def feed(spark: TwsTester, rows: list[SourceRow]) -> list[dict[str, Any]]:
    """Return what the processor emits for one batch, rows in any order."""
    shuffled = random.Random(len(rows)).sample(rows, len(rows))
    frame = pd.DataFrame(shuffled, columns=list(SourceRow._fields))
    out: Any = spark.testInPandas("watch/0#7", frame)
    rows_out: list[dict[str, Any]] = out.to_dict("records")
    return rows_out
