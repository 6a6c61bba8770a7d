"""Shipped pipelines as functions of DataFrames, and what a source makes of times: without Kafka."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.testing import assertDataFrameEqual

import pipelines
from dashboard.core.job.pipelines import write_skeleton
from domain.records import SCHEMA_MISMATCH
from pipelines import station_lookup as lookups
from pipelines.report_rates import report_rates
from pipelines.station_lookup import look_up, station_lookup
from pipelines.station_lookup_direct import station_lookup_direct
from pipelines.station_visits import station_visits
from streaming.pipelines.declaration import Source
from streaming.pipelines.records import Decoded, decode
from support.run.stack import ROOT
from wire.forward import TIME

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]

PLACE = "topic string, partition int, offset long, timestamp timestamp"
HEADERS = "headers array<struct<key string, value binary>>"
REPORT = "value struct<type string, agent string, state string>"
NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)


def reports(
    spark: SparkSession, *rows: tuple[str | None, str, str | None], header: str | None = None
) -> DataFrame:
    """Records of `orders.reports` a second apart: key, type and agent of each, and a header."""
    return spark.createDataFrame(
        [
            (
                key,
                (type_, agent, "received"),
                "orders.reports",
                0,
                at,
                datetime.fromtimestamp(NOON.timestamp() + at, UTC),
                header and [(header, b"0")],
            )
            for at, (key, type_, agent) in enumerate(rows)
        ],
        f"key string, {REPORT}, {PLACE}, {HEADERS}",
    )


def test_report_rates_counts_reports_by_minute_scenario_and_agent(spark: SparkSession) -> None:
    rows = [("o", "report", "a")] * 3 + [(None, "tick", None)] + [("o", "report", "b")] * 60
    arrived = reports(spark, *rows).unionAll(reports(spark, *rows[:5], header=TIME))
    result = report_rates(arrived)
    counts = [("a", NOON_MS, 3), ("b", NOON_MS, 56), ("b", NOON_MS + 60_000, 4)]
    wanted = [
        Row(
            key=f"orders/{agent}/{begin}",
            value=json.dumps(
                {"scenario": "orders", "agent": agent, "begin": begin, "reports": n},
                separators=(",", ":"),
            ),
            id=f"orders/{agent}/{begin}/{n}",
        )
        for agent, begin, n in counts
    ]
    assertDataFrameEqual(result, spark.createDataFrame(wanted))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue that answers at once."""
    monkeypatch.setattr(lookups, "LOOKUP_S", 0)


@pytest.mark.usefixtures("quick")
def test_both_forms_of_the_look_up_say_the_same(spark: SparkSession) -> None:
    source = reports(
        spark, ("o-1", "report", "st-1"), (None, "tick", None), ("o-2", "report", "st-2")
    )
    visits = station_visits(source)
    schema = "station string, state string, at long"
    moved = visits.select(
        "key",
        sql.from_json("value", schema).alias("value"),
        sql.lit("orders.reports").alias("topic"),
        sql.lit(0).alias("partition"),
        sql.element_at(sql.split("id", "/"), 3).alias("offset"),
    )
    assertDataFrameEqual(station_lookup(moved), station_lookup_direct(source))
    places = [json.loads(row["value"]) for row in station_lookup(moved).collect()]
    assert [place["hall"] for place in places] == [look_up("st-1"), look_up("st-2")]


# ---- times --------------------------------------------------------------------------------------


def kafka(spark: SparkSession, *values: str | None) -> DataFrame:
    """Kafka's columns, a record for each value."""
    rows = [
        (b"k", None if value is None else value.encode(), "t.x", 0, at, NOON)
        for at, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, f"key binary, value binary, {PLACE}")


def source(policy: Any) -> Source:
    return Source("x", "at long", time=lambda rows: rows["value.at"], invalid_time=policy)


def decoded(spark: SparkSession, policy: Any, *times: int | None) -> Decoded:
    values = [json.dumps({"at": time}) for time in times]
    return decode(kafka(spark, *values), "x", source(policy), ["t.x"], "t.")


def times(frame: DataFrame) -> list[tuple[int, int]]:
    """Offset and time (ms) of each row."""
    rows = frame.select("offset", sql.unix_millis("timestamp").alias("at")).orderBy("offset")
    return [(row["offset"], row["at"]) for row in rows.collect()]


AHEAD = 4_000_000_000_000


def test_log_and_skip_leaves_out_what_has_no_valid_time(spark: SparkSession) -> None:
    rows = decoded(spark, "log-and-skip", 1_000, -5, None, AHEAD, 2_000).rows
    assert times(rows) == [(0, 1_000), (4, 2_000)]
    assert [row["topic"] for row in rows.collect()] == ["x", "x"]


@pytest.mark.parametrize(
    ("time", "reason"), [(-5, "negative"), (None, "missing"), (AHEAD, "ahead")]
)
def test_fail_names_the_place_and_the_reason(
    spark: SparkSession, time: int | None, reason: str
) -> None:
    rows = decoded(spark, "fail", 1_000, time).rows
    with pytest.raises(PySparkException, match=f"InvalidTimestamp: t.x/0/1: {reason}"):
        rows.collect()


def test_wall_clock_takes_the_time_of_the_batch(spark: SparkSession) -> None:
    before = int(datetime.now(UTC).timestamp() * 1000)
    [(_, first), (_, second)] = times(decoded(spark, "wall-clock", 1_000, -5).rows)
    assert first == 1_000
    assert before <= second <= before + 60_000


def test_previous_takes_the_time_before_it_in_the_partition(spark: SparkSession) -> None:
    rows = decoded(spark, "previous", -1, 1_000, None, AHEAD, 3_000, -7).rows
    assert times(rows) == [(1, 1_000), (2, 1_000), (3, 1_000), (4, 3_000), (5, 3_000)]


@pytest.mark.parametrize("mode", [pytest.param("update", marks=pytest.mark.extensive), "append"])
def test_previous_remembers_its_partition_from_batch_to_batch(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    frame = kafka(spark, *(json.dumps({"at": at}) for at in (1_000, None, 3_000, -1)))
    for number in range(2):
        part = frame.where(f"offset div 2 = {number}").withColumn("offset", sql.col("offset"))
        part.coalesce(1).write.mode("append").parquet(str(tmp_path / "log"))
    stream = spark.readStream.schema(frame.schema).option("maxFilesPerTrigger", 1)
    raw = stream.parquet(str(tmp_path / "log"))
    rows = decode(raw, "x", source("previous"), ["t.x"], "t.").rows
    writer = rows.writeStream.format("memory").queryName(f"previous_{mode}").outputMode(mode)
    query = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    assert query.start().awaitTermination(120)
    previous_times = times(spark.table(f"previous_{mode}"))
    assert previous_times == [(0, 1_000), (1, 1_000), (2, 3_000), (3, 3_000)]


def halved(time: Column, fault: Column) -> Column:
    """Half of a time that is ahead; nothing instead of another."""
    return sql.when(fault == "ahead", time / 2)


def test_a_function_gives_another_time_or_none(spark: SparkSession) -> None:
    rows = decoded(spark, halved, 1_000, AHEAD, -5).rows
    assert times(rows) == [(0, 1_000), (1, AHEAD // 2)]


def test_a_source_without_a_function_takes_kafkas_time(spark: SparkSession) -> None:
    rows = decode(kafka(spark, "a"), "x", Source("x"), ["t.x"], "t.").rows
    assert times(rows) == [(0, NOON_MS)]
    assert bytes(rows.collect()[0]["value"]) == b"a"


def test_values_that_do_not_fit_are_dead_letters_with_their_place(spark: SparkSession) -> None:
    raw = kafka(spark, '{"at": 1}', "{", None, '{"at": "x"}')
    rows, dead = decode(raw, "x", source("log-and-skip"), ["t.x"], "t.")
    assert times(rows) == [(0, 1)]
    assert dead is not None
    headers = [{one["key"]: bytes(one["value"]).decode() for one in row["headers"]}
               for row in dead.orderBy("value").collect()]  # fmt: skip
    assert {(one["source-topic"], one["source-offset"]) for one in headers} == {
        ("t.x", "1"),
        ("t.x", "3"),
    }
    assert {one["reason"] for one in headers} == {SCHEMA_MISMATCH}


# ---- a new pipeline -----------------------------------------------------------------------------


def test_a_new_pipelines_own_test_passes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, test = write_skeleton(tmp_path, "door-counts")
    monkeypatch.setattr(pipelines, "__path__", [*pipelines.__path__, str(tmp_path / "pipelines")])
    [own] = [each for name, each in run_path(str(test)).items() if name.startswith("test_")]
    own(spark)
    monkeypatch.delitem(sys.modules, "pipelines.door_counts")


@pytest.mark.extensive(
    guard="tests/unit/streaming/test_pipelines.py::"
    "test_a_new_pipeline_passes_each_report_on_and_says_what_would_gather"
)
def test_a_new_pipeline_passes_its_own_test_and_prints(tmp_path: Path) -> None:
    module, test = write_skeleton(tmp_path, "try-out")
    (module.parent / "__init__.py").touch()
    paths = f"{tmp_path}:{ROOT}:{ROOT / 'tests'}"
    run = _runner(tmp_path, {"PYTHONPATH": paths, "TALLYBOARD_PIPELINES": "all"})
    listed = run("-m", "streaming.pipelines", "--list")
    assert json.loads(listed.stdout)["name"] == "try-out"
    options = (
        "-c",
        "/dev/null",
        "--rootdir",
        str(tmp_path),
        "-p",
        "support.spark.spark_session",
        "-q",
    )
    plain = ("-p", "no:playwright", "-p", "no:django")
    tested = run("-m", "pytest", *options, *plain, str(test))
    assert "1 passed" in tested.stdout, tested.stdout + tested.stderr
    assert 'prints=Print("try-out")' in module.read_text()


def _runner(folder: Path, more: dict[str, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    import os

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=folder, env=os.environ | more, capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run
