"""The login guard's operator against the fold, and against two joins that count the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as sql

from domain.login_windows import THRESHOLD, Client
from domain.records import Report
from pipelines import login_guard as guard
from pipelines.login_guard import PIPELINE, VERIFIED, login_guard
from streaming.pipelines.records import decode
from support.histories.login_logs import Event, LoginLog, client
from wire.source import decode_source

pytestmark = [pytest.mark.timeout(240), pytest.mark.slow]

DAY = 1_763_856_000_000  # 23 November 2025, midnight UTC
HOUR = 3_600_000
BATCHES = 6
TOPIC = "t.app-logs"
PLACED = "key binary, value binary, topic string, partition int, offset long"
EMPTY = "spark.sql.streaming.noDataMicroBatches.enabled"


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session whose queries end with the log, as its batches do in the product."""
    own = spark.newSession()
    own.conf.set(EMPTY, "false")
    return own


def late_burst(log: LoginLog) -> list[Event]:
    """The log, with a burst of a client six hours late, after a record of its own that is not."""
    name, time = client(9_000), log.begin + 2 * HOUR
    burst = [Event(log.begin + 14 * HOUR, name), *[Event(time + n, name) for n in range(8)]]
    at = next(n for n, one in enumerate(log.events) if one.time > log.begin + 14 * HOUR)
    return [Event(time, name), *log.events[:at], *burst, *log.events[at:]]


def write(
    session: SparkSession, folder: Path, events: Sequence[Event], batches: int = BATCHES
) -> None:
    """Write the log as Kafka's columns, a file for each batch."""
    size = -(-len(events) // batches)
    rows = [(one.client.encode(), one.value, TOPIC, 0, at) for at, one in enumerate(events)]
    for begin in range(0, len(rows), size):
        frame = session.createDataFrame(rows[begin : begin + size], PLACED)
        timed = frame.withColumn("timestamp", sql.current_timestamp()).coalesce(1)
        timed.write.mode("append").parquet(str(folder))


def logs(session: SparkSession, folder: Path, name: str = "logs") -> DataFrame:
    """The log as a stream, as the pipeline takes it. name: one for each that a query reads."""
    reader = session.readStream.schema(f"{PLACED}, timestamp timestamp")
    raw = reader.option("maxFilesPerTrigger", 1).parquet(str(folder))
    return decode(raw, name, PIPELINE.sources["logs"], [TOPIC], "t.").rows


def result(frame: DataFrame, name: str, folder: Path, mode: str) -> list[Row]:
    """What a query writes until it has read the whole log."""
    writer = frame.writeStream.format("memory").queryName(name).outputMode(mode)
    writer = writer.option("checkpointLocation", str(folder / name))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(200)
    assert len([one for one in query.recentProgress if one["numInputRows"]]) >= BATCHES
    return frame.sparkSession.table(name).collect()


def report_of(row: Row) -> Report:
    """A row as the job reads it from the log."""
    report = decode_source(row["key"].encode(), row["value"].encode(), DAY + 100 * HOUR)
    assert isinstance(report, Report)
    return report


def test_the_operator_reports_what_the_fold_does(session: SparkSession, tmp_path: Path) -> None:
    events = late_burst(LoginLog(DAY, seed=1))
    write(session, tmp_path / "log", events)
    rows = result(
        login_guard(logs(session, tmp_path / "log"), "event"), "guard", tmp_path, "update"
    )
    clients: dict[str, Client] = {}
    wanted = []
    for one in events:
        fold = clients.setdefault(one.client, Client())
        reports = fold.verify(one.time) if one.action == VERIFIED else fold.act(one.time)
        wanted += [(one.client, each.state, each.at) for each in reports]
    written = [row for row in rows if row["id"] is not None]
    assert {row["late"] for row in written} == {0}
    assert sum(row["late"] for row in rows) == sum(one.late for one in clients.values()) == 8
    decoded = [report_of(row) for row in written]
    assert {one.agent for one in decoded} == {guard.AGENT}
    assert sorted((one.asset, one.state, one.reported_at) for one in decoded) == sorted(wanted)
    assert len({row["id"] for row in written}) == len(written)


# ---- the joins ----------------------------------------------------------------------------------

LENGTH = "15 minutes"


def counts(actions: DataFrame) -> DataFrame:
    """How often each client acted in each window."""
    hops = sql.window("timestamp", "5 seconds", "2 seconds")
    return actions.groupBy(hops, sql.col("value.client").alias("client")).count()


def by_left_join(rows: DataFrame, again: DataFrame) -> DataFrame:
    """Full windows, in which no verification was in force: it answers when none can come.

    again: the same log, read for its verifications.
    """
    actions = rows.where(sql.col("value.action") != VERIFIED).withWatermark(
        "timestamp", "10 seconds"
    )
    windows = counts(actions).withColumn("at", sql.window_time("window"))
    table = again.where(sql.col("value.action") == VERIFIED).select(
        sql.col("value.client").alias("verified"), sql.col("timestamp").alias("since")
    )
    table = table.withWatermark("since", "10 seconds")
    in_force = sql.expr(f"client = verified and at >= since and at < since + interval {LENGTH}")
    joined = windows.join(table, in_force, "left").where("verified is null")
    return joined.where(f"count >= {THRESHOLD}").select("client", "window.start")


def by_look_up(rows: DataFrame, table: DataFrame) -> DataFrame:
    """Full windows of actions that looked up no verification in the table, which each task has
    whole; a function of the record makes the key that it looks up."""
    whole = (
        table.where(sql.col("value.action") == VERIFIED)
        .groupBy(looked_up(sql.col("key"), sql.col("value")).alias("name"))
        .agg(sql.collect_list("timestamp").alias("times"))
    )
    actions = rows.where(sql.col("value.action") != VERIFIED)
    name = looked_up(sql.col("key"), sql.col("value"))
    joined = actions.join(sql.broadcast(whole), name == whole["name"], "left")
    in_force = sql.exists(
        "times",
        lambda since: (
            (sql.col("timestamp") >= since)
            & (sql.col("timestamp") < since + sql.expr(f"interval {LENGTH}"))
        ),
    )
    counted = joined.where(~sql.coalesce(in_force, sql.lit(False)))
    windows = counts(counted.withWatermark("timestamp", "10 seconds"))
    return windows.where(f"count >= {THRESHOLD}").select("client", "window.start")


def looked_up(key: Column, value: Column) -> Column:
    """The key of the table that a record looks up: its client's number."""
    return sql.conv(sql.substring(sql.coalesce(value["client"], key), 8, 16), 16, 10)


def flush(session: SparkSession, folder: Path) -> None:
    """Write records, by which the watermark passes all that was before: that of the table too,
    which else stands still, and every answer with it, until somebody is verified."""
    hours = [DAY + (30 + number) * HOUR for number in range(4)]
    later = [Event(at, client(9_999), what) for at in hours for what in ("login", VERIFIED)]
    write(session, folder, later, len(hours))


def bursts(windows: Iterable[tuple[str, int]]) -> Counter[str]:
    """How often each client had full windows, with a minute or more between."""
    number: Counter[str] = Counter()
    last: dict[str, int] = {}
    for name, begin in sorted(windows, key=lambda one: one[1]):
        number[name] += begin - last.get(name, 0) > 60_000
        last[name] = begin
    return number


@pytest.mark.extensive(
    guard="tests/integration/spark/test_login_guard.py::"
    "test_the_operator_reports_what_the_fold_does"
)
@pytest.mark.parametrize("seed", [2, pytest.param(3, marks=pytest.mark.extensive)])
def test_both_joins_challenge_whom_the_operator_does(
    session: SparkSession, tmp_path: Path, seed: int
) -> None:
    folder = tmp_path / "log"
    write(session, folder, late_burst(LoginLog(DAY, seed=seed)))
    flush(session, folder)
    rows = result(login_guard(logs(session, folder), "event"), "operator", tmp_path, "update")
    reports = [report_of(row) for row in rows if row["id"] is not None]
    challenges = Counter(one.asset for one in reports if one.state == "challenge")
    left = by_left_join(logs(session, folder), logs(session, folder, "again"))
    joined = result(left, "left_join", tmp_path, "append")
    raw = session.read.parquet(str(folder))
    table = decode(raw, "table", PIPELINE.sources["logs"], [TOPIC], "t.").rows
    look_up_frame = by_look_up(logs(session, folder), table)
    looked = result(look_up_frame, "look_up", tmp_path, "update")
    assert sum(challenges.values()) >= 12
    assert max(challenges.values()) == 2
    assert bursts((row["client"], ms(row["start"])) for row in joined) == challenges
    assert bursts((row["client"], ms(row["start"])) for row in looked) == challenges


def ms(time: datetime) -> int:
    """A time of Spark's in Unix ms."""
    return round(time.astimezone(UTC).timestamp() * 1000)
