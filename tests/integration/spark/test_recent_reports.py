"""The last reports of each asset by Spark: its stores go on from a checkpoint."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from pipelines.recent_reports import PIPELINE, recent_reports
from streaming.pipelines.graph import graph_of
from streaming.pipelines.query import Built, TopicLayout
from wire.forward import OFFSET, PARTITION, TIME

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]

START = 1_790_000_000_000
SCHEMA = """
key string, value struct<type: string, agent: string, state: string, reported_at: long>,
topic string, partition int, offset long, timestamp double,
headers array<struct<key: string, value: binary>>
"""


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session whose queries end with the log, as its batches do in the product."""
    own = spark.newSession()
    own.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    return own


def write(folder: Path, number: int, *reports: tuple[int, str, str | None]) -> None:
    """A file for a batch: the offset of each report, a second each, its asset and its agent."""
    folder.mkdir(exist_ok=True)
    lines = []
    for offset, asset, agent in reports:
        type_ = "tick" if agent is None else "report"
        value = {"type": type_, "agent": agent, "state": "clear", "reported_at": START}
        place = {"topic": "attack.reports", "partition": 0, "offset": offset}
        lines.append(
            json.dumps({"key": asset, "value": value, **place, "timestamp": START / 1000 + offset})
        )
    file = folder / f"{number}.json"
    file.write_text("\n".join(lines))
    os.utime(file, (number, number))


def reports(spark: SparkSession, folder: Path) -> DataFrame:
    """The files as a stream, one a batch."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    rows = reader.json(str(folder))
    return rows.withColumn("timestamp", rows["timestamp"].cast("timestamp"))


def run(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """What a query writes that reads what is there and ends: the value of each id."""
    rows: list[Row] = []
    writer = recent_reports(reports(spark, folder / "in")).writeStream.outputMode("update")
    writer = writer.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(200)
    return {row["id"]: json.loads(row["value"]) for row in rows}


def test_each_store_goes_on_from_the_checkpoint(session: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write(folder, 0, (0, "shop", "waf-1"), (1, "shop", "waf-2"), (2, "mail", "waf-1"))
    write(folder, 1, (3, "shop", "waf-1"), (4, "shop", None), (5, "shop", "waf-3"))
    first = run(session, tmp_path)
    assert first.keys() == {"attack/shop/0/1", "attack/mail/0/2", "attack/shop/0/5"}
    shop = first["attack/shop/0/5"]
    assert (shop["scenario"], shop["asset"], shop["at"]) == ("attack", "shop", START + 5_000)
    assert (shop["in_minute"], shop["repeated"]) == (3, 1)
    assert [report["agent"] for report in shop["recent"]] == ["waf-1", "waf-2", "waf-3"]
    write(folder, 2, (6, "shop", "waf-3"), (7, "shop", "waf-4"), (70, "mail", "waf-1"))
    second = run(session, tmp_path)
    assert second.keys() == {"attack/shop/0/7", "attack/mail/0/70"}
    shop, mail = second["attack/shop/0/7"], second["attack/mail/0/70"]
    assert (shop["in_minute"], shop["repeated"]) == (4, 1)
    assert [report["at"] - START for report in shop["recent"]] == [0, 1_000, 5_000, 7_000]
    assert (mail["in_minute"], mail["repeated"], len(mail["recent"])) == (1, 0, 2)


def test_what_the_job_forwards_counts_once(session: SparkSession, tmp_path: Path) -> None:
    """A report on a wrong partition, what is forwarded of it, and one with headers of its own."""
    place = [(PARTITION, b"0"), (OFFSET, b"7")]
    own = [("trace", b"\xff"), (OFFSET, b"8")]
    rows: list[tuple[int, int, Sequence[tuple[str, bytes]] | None]] = [
        (0, 7, None),
        (1, 3, [*place, (TIME, b"%d" % START), *own]),
        (1, 4, own),
        (1, 5, [(PARTITION, b"x"), (OFFSET, b"7")]),
    ]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text(
        "\n".join(
            json.dumps({
                "key": "shop", "value": {"type": "report", "agent": "waf-1", "state": "clear"},
                "topic": "attack.reports", "partition": partition, "offset": offset,
                "timestamp": START / 1000 + offset,
                "headers": headers and [
                    {"key": name, "value": b64encode(data).decode()} for name, data in headers
                ],
            })
            for partition, offset, headers in rows
        )
    )  # fmt: skip
    [shop] = run(session, tmp_path).values()
    assert (shop["in_minute"], shop["repeated"], len(shop["recent"])) == (3, 1, 3)


def test_the_graph_shows_each_store(session: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in", 0, (0, "shop", "waf-1"))
    frame = reports(session, tmp_path / "in")
    result = recent_reports(frame)
    places = TopicLayout({"reports": {"attack.reports": 4}}, {})
    nodes = graph_of(PIPELINE, Built({"reports": frame}, result, result), places)
    shown = [(each.name, each.inputs) for each in nodes if each.kind == "store"]
    [operator] = [each.id for each in nodes if each.name == "state per key"]
    assert shown == [(name, (operator,)) for name in ("recent", "rolling", "seen")]
    assert len({each.id for each in nodes}) == len(nodes)
