"""What would have been: a scenario's last hours under its rule and under another one.

Both runs are the product's own engines in micro-batches over the same records of the log, in a
checkpoint that is thrown away. A rule stays in force throughout: `scenario` records are left out,
so that the two differ in nothing else.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sql

from bus.base import Bus, TopicPartition
from domain.scenario import PythonRule, Scenario
from streaming.buckets import BucketId, bucket_keys
from streaming.errands.comparing import History, Tally, compare
from streaming.errands.log import Times
from streaming.errands.publishing import OnStep, Publisher
from streaming.errands.requests import ReplayRequest
from streaming.errands.session import scratch_of
from streaming.errands.trouble import ErrandRefused
from streaming.pipeline import rows, through_kernel, through_python
from streaming.processor import Plan, TallyProcessor
from streaming.query import SOURCE, Engine
from streaming.rules import dump_rule
from streaming.session import STATE_PARTITIONS
from wire.errand import Compared, Totals, portions
from wire.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from config.settings import Settings

MOST_RECORDS = 10_000_000
"""Most records that are replayed under each rule."""
PER_BATCH: Mapping[Engine, int] = {"kernel": 100_000, "python": 50_000}
"""Most records of a batch: an errand has little memory."""
DAY_MS = 86_400_000
LOOK_S = 0.5
STATE = "state string, since bigint, version string"


@dataclass(frozen=True)
class Window:
    """What is replayed: from `begin` to `end` of each partition; begun, since, until: times, ms."""

    begin: Mapping[TopicPartition, int]
    end: Mapping[TopicPartition, int]
    begun: int
    since: int
    until: int

    @property
    def offsets(self) -> dict[int, tuple[int, int]]:
        """By partition, from where to where."""
        return {place[1]: (self.begin[place], end) for place, end in self.end.items()}

    @property
    def records(self) -> int:
        """How many records."""
        return sum(end - self.begin[place] for place, end in self.end.items())


def what_if(
    spark: SparkSession,
    settings: Settings,
    bus: Bus,
    request: ReplayRequest,
    publisher: Publisher,
    on_step: OnStep,
) -> str:
    """Replay under both rules, compare, and publish; what it came to, in words.

    Raises ErrandRefused or BusError.
    """
    started = time.monotonic()
    scenarios = [Scenario.from_plain(plain) for plain in (request.running, request.proposed)]
    topics = Topics(settings.topic_prefix)
    window = window_of(bus, topics.reports(scenarios[0].name), request.since, scenarios)
    runs = [
        Run(spark, settings, scenario, window, scratch_of(settings) / name)
        for scenario, name in zip(scenarios, ("running", "proposed"), strict=True)
    ]
    for number, run in enumerate(runs):
        run.replay(
            lambda done, n=number: on_step(done + n * window.records, 2 * window.records, "records")
        )
    on_step(2 * window.records, 2 * window.records, "comparing")
    tally = Tally(window.since, window.until, scenarios[1])
    compare(tally, histories(*(run.transitions() for run in runs)))
    for part, portion in enumerate(portions(tally.different())):
        publisher.send(Compared(publisher.ask, part, portion))
    totals = tally.totals(
        window.begun,
        window.offsets,
        (runs[0].engine, runs[1].engine),
        (request.running, request.proposed),
        int((time.monotonic() - started) * 1000),
    )
    publisher.send(Compared(publisher.ask, publisher.parts, last=True, totals=totals))
    publisher.confirm()
    return in_words(totals)


def in_words(totals: Totals) -> str:
    """The outcome in a line."""
    moved = totals.earlier + totals.later
    return (
        f"{totals.records:,} records, {totals.assets:,} assets: {totals.gained:,} transitions "
        f"gained, {totals.lost:,} lost, {moved:,} moved"
    )


# ---- what is replayed ---------------------------------------------------------------------------


def warm_up(scenarios: list[Scenario]) -> int | None:
    """How long before the window a replay begins, ms: a vote's life and the longest hold.

    None: from the log's beginning, as votes do not expire.
    """
    lifetimes = [scenario.vote_lifetime for scenario in scenarios]
    holds = [max((scenario.holds or {"": 0}).values()) for scenario in scenarios]
    if None in lifetimes:
        return None
    return max(life for life in lifetimes if life is not None) + max(holds)


def window_of(bus: Bus, topic: str, since: int, scenarios: list[Scenario]) -> Window:
    """From the warm-up on to the log's end. Raises ErrandRefused or BusError."""
    edges = {place: edge for place, edge in bus.offsets([topic]).items() if edge[0] < edge[1]}
    if not edges:
        raise ErrandRefused(f"{topic} holds no records")
    before = warm_up(scenarios)
    ends = {place: end for place, (_, end) in edges.items()}
    with Times(bus) as times:
        until = max(times.at(place, end - 1) for place, end in ends.items())
        if since >= until:
            raise ErrandRefused("since: expected a time before the log's end")
        begun = 0 if before is None else since - before
        begin = {
            place: times.first_since(place, *edge, begun) if begun else edge[0]
            for place, edge in edges.items()
        }
        if begun == 0:
            begun = min(times.at(place, offset) for place, offset in begin.items())
    window = Window(begin, ends, begun, since, until)
    if window.records > MOST_RECORDS:
        raise ErrandRefused(
            f"{window.records:,} records with the warm-up, at most {MOST_RECORDS:,} are replayed: "
            "take fewer hours"
        )
    return window


class Run:
    """One replay, under one rule."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        scenario: Scenario,
        window: Window,
        home: Path,
    ) -> None:
        self._spark, self._settings, self._scenario = spark, settings, scenario
        self._window, self._home = window, home
        self._topics = Topics(settings.topic_prefix)
        self.engine: Engine = "python" if isinstance(scenario.rule, PythonRule) else "kernel"

    def replay(self, on_records: Any) -> None:
        """Run through the window. on_records: called with how many records are through."""
        query = self._through(self._source()).writeStream.foreachBatch(self._keep)
        query = query.outputMode("update").trigger(availableNow=True)
        running = query.option("checkpointLocation", str(self._home / "checkpoint")).start()
        done: dict[int, int] = {}
        while True:
            ended = running.awaitTermination(LOOK_S)  # type: ignore[arg-type]
            for progress in running.recentProgress:
                done[progress["batchId"]] = progress["numInputRows"]
            on_records(min(sum(done.values()), self._window.records))
            if ended:
                return

    def _source(self) -> DataFrame:
        """The window's records, but for rules."""
        begin: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in self._window.begin.items():
            begin.setdefault(topic, {})[str(partition)] = offset
        partitions = {topic: [int(at) for at in places] for topic, places in begin.items()}
        options = {
            **self._settings.spark_kafka_options(),
            **SOURCE,
            "assign": json.dumps(partitions),
            "startingOffsets": json.dumps(begin),
            "maxOffsetsPerTrigger": str(PER_BATCH[self.engine]),
        }
        stream = self._spark.readStream.format("kafka").options(**options).load()
        return stream.where(_within(self._window.end) & ~_is_rule())

    def _through(self, source: DataFrame) -> DataFrame:
        """The states topic's records."""
        name, rule = self._scenario.name, dump_rule(self._scenario)
        buckets = {BucketId(name, at): rule for _, at in self._window.begin}
        plan = Plan(self._topics.prefix, 1, {name: self._scenario.partitions}, buckets)
        keys = bucket_keys(buckets, STATE_PARTITIONS)
        places = {(self._topics.reports(name), b.partition): key for b, key in keys.items()}
        stream = rows(source, places)
        if self.engine == "kernel":
            records = through_kernel(stream, plan.json(real_time=False))
        else:
            records = through_python(stream, TallyProcessor(plan))
        return records.where(sql.col("topic") == self._topics.states(name))

    def _keep(self, batch: DataFrame, _number: int) -> None:
        """Keep what is needed of the emissions."""
        value = sql.from_json(sql.col("value").cast("string"), STATE)
        headers = sql.map_from_entries("headers")
        cause = sql.from_json(headers["cause"].cast("string"), "time bigint")
        version = sql.split(headers["version"].cast("string"), r"\.")
        kept = batch.select(
            sql.col("key").cast("string").alias("asset"),
            value["state"].alias("state"),
            sql.coalesce(value["since"], cause["time"]).alias("at"),
            version[1].cast("long").alias("offset"),
            version[2].cast("long").alias("step"),
        )
        kept.write.mode("append").parquet(str(self._home / "emitted"))

    def transitions(self) -> DataFrame:
        """Of each asset the times and states at which its state changed, in order."""
        from pyspark.sql import Window as Over

        (self._home / "emitted").mkdir(parents=True, exist_ok=True)
        emitted = self._spark.read.schema(
            "asset string, state string, at bigint, offset bigint, step bigint"
        ).parquet(str(self._home / "emitted"))
        order = Over.partitionBy("asset").orderBy("offset", "step")
        changed = emitted.withColumn("before", sql.lag("state").over(order)).where(
            ~sql.col("state").eqNullSafe(sql.col("before"))
        )
        moment = sql.struct("offset", "step", "at", "state")
        listed = changed.groupBy("asset").agg(sql.sort_array(sql.collect_list(moment)).alias("all"))
        return listed.select(
            "asset",
            sql.transform("all", lambda m: sql.struct(m["at"], m["state"])).alias("moments"),
        )


def _within(end: Mapping[TopicPartition, int]) -> Column:
    """Records before each partition's end."""
    conditions = [
        (sql.col("partition") == partition) & (sql.col("offset") < offset)
        for (_, partition), offset in end.items()
    ]
    return reduce(lambda one, other: one | other, conditions)


def _is_rule() -> Column:
    kind = sql.get_json_object(sql.col("value").cast("string"), "$.type")
    return sql.coalesce(sql.col("key").isNull() & (kind == "scenario"), sql.lit(False))


def histories(running: DataFrame, proposed: DataFrame) -> Iterator[History]:
    """Every asset that was seen, with what became of it under each rule; read bit by bit."""
    both = running.withColumnRenamed("moments", "running").join(
        proposed.withColumnRenamed("moments", "proposed"), "asset", "full_outer"
    )
    for row in both.orderBy("asset").toLocalIterator():
        yield History(
            row["asset"],
            [(at, state) for at, state in row["running"] or ()],
            [(at, state) for at, state in row["proposed"] or ()],
        )
