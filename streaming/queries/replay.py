"""What would have been: a scenario's last hours under its rule and under another one.

Both runs are the product's own engines in micro-batches over the same records of the log, from the
same beginning, in a checkpoint that is thrown away. A rule stays in force throughout: `scenario`
records are left out, so that the two differ in nothing else. A state to begin with is put under
the run's rule by the plain fold, as a `scenario` record would, and given to the engine as a seed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import functions as sql

from bus.base import Bus, TopicPartition
from domain.asset import Asset
from domain.fold import Bucket
from domain.quarantine import QuarantinedRange
from domain.records import ScenarioChange
from domain.scenario import PythonRule, Scenario
from domain.scenario_parser import scenario_from_plain
from streaming.fold.epochs import EpochStart
from streaming.fold.plan import Plan
from streaming.fold.processor import TallyProcessor
from streaming.fold.query import SOURCE, rows, through_kernel, through_python
from streaming.fold.rules import dump_rule
from streaming.queries.comparison import History, HistoryTally, compare
from streaming.queries.drain import Drain
from streaming.queries.protocol import OnStep, Publisher, ReplayRequest, scratch_of, width
from streaming.queries.replay_window import EPOCH, ReplayWindow, begin_with, choose, window_of
from streaming.state import quarantine
from streaming.state.buckets import BucketId, Engine, bucket_keys, known
from streaming.state.hadoop import checkpoints_of
from streaming.state.restore import write_initial_state
from streaming.state.storage import LocalPath
from wire.batch_query import Totals, WhatIfResult, portions
from wire.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from config.settings import Settings

# Most records of a batch: a batch query has little memory.
PER_BATCH: Mapping[Engine, int] = {"kernel": 100_000, "python": 50_000}
STATE = "state string, since bigint"


class ShownState(msgspec.Struct):
    """An asset's state, shown since `at` ms; offset, step: of the version that shows it."""

    asset: str
    state: str
    at: int
    offset: int
    step: int


SHOWN = "asset string, state string, at bigint, offset bigint, step bigint"
# Shown, as Spark has it. state: null of an asset that is gone.


def what_if(
    spark: SparkSession,
    settings: Settings,
    bus: Bus,
    request: ReplayRequest,
    publisher: Publisher,
    on_step: OnStep,
) -> str:
    """Replay under both rules, compare, and publish. Returns the outcome in words.

    Raises QueryRefused or BusError.
    """
    started = time.monotonic()
    rules = [scenario_from_plain(plain) for plain in (request.running, request.proposed)]
    parts = zip(rules, ("running", "proposed"), strict=True)
    runs = [ReplayRun(spark, settings, rule, scratch_of(settings) / part) for rule, part in parts]
    window = _begun(bus, settings, request, runs, on_step)
    _replay(window, runs, on_step)
    tally = HistoryTally(window.since, window.until, rules[1])
    compare(tally, histories(*(run.transitions() for run in runs)))
    for part, portion in enumerate(portions(tally.different())):
        publisher.send(WhatIfResult(publisher.ask, part, portion))
    totals = tally.totals(
        {place[1]: began for place, began in window.began.items()},
        window.offsets,
        (runs[0].engine, runs[1].engine),
        (request.running, request.proposed),
        int((time.monotonic() - started) * 1000),
    )
    publisher.send(WhatIfResult(publisher.ask, publisher.parts, last=True, totals=totals))
    publisher.confirm()
    return in_words(totals)


def _begun(
    bus: Bus, settings: Settings, request: ReplayRequest, runs: list[ReplayRun], on_step: OnStep
) -> ReplayWindow:
    """Return what is replayed; the runs have the states that they begin with."""
    rules = [run.scenario for run in runs]
    topic = Topics(settings.topic_prefix).reports(rules[0].name)
    window = window_of(bus, topic, request.since, rules)
    window, chosen = choose(window, rules[0].name, request.buckets)
    window = begin_with(window, chosen, settings.data_dir / "snapshots", runs, on_step)
    window.check()
    return window


def _replay(window: ReplayWindow, runs: list[ReplayRun], on_step: OnStep) -> None:
    total = len(runs) * window.records

    def report(before: int, done: int) -> None:
        on_step(before + done, total, "records")

    for number, run in enumerate(runs):
        run.replay(window, partial(report, number * window.records))
    on_step(total, total, "comparing")


def in_words(totals: Totals) -> str:
    """Return the outcome in one line."""
    moved = totals.earlier + totals.later
    return (
        f"{totals.records:,} records, {totals.assets:,} assets: {totals.gained:,} transitions "
        f"gained, {totals.lost:,} lost, {moved:,} moved"
    )


# ---- one run -----------------------------------------------------------------------------------


class ReplayRun:
    """One replay under one rule."""

    def __init__(
        self, spark: SparkSession, settings: Settings, scenario: Scenario, home: Path
    ) -> None:
        self._spark, self._settings, self.scenario = spark, settings, scenario
        self._home, self._begun = home, home / "begun"
        self._begun.mkdir(parents=True)
        self._seeds: dict[str, str] = {}
        self._topics = Topics(settings.topic_prefix)
        self.engine: Engine = "python" if isinstance(scenario.rule, PythonRule) else "kernel"

    def take_up(self, bucket: Bucket) -> None:
        """Begin a partition with this state, put under the run's rule."""
        bucket.apply(ScenarioChange(self.scenario), bucket.offset, bucket.clock)
        seed = self._home / f"{bucket.partition}.seed"
        write_initial_state(seed, bucket, {}, self.engine, EPOCH)
        self._seeds[str(BucketId(self.scenario.name, bucket.partition))] = str(seed)
        with (self._begun / f"{bucket.partition}.json").open("wb") as file:
            for name, asset in bucket.assets.items():
                if asset.shown is not None:
                    file.write(msgspec.json.encode(_shown(name, asset)) + b"\n")

    def replay(self, window: ReplayWindow, on_records: Callable[[int], None]) -> None:
        """Run through the window. on_records: called with how many records are through."""

        def stream(one_by_one: bool) -> DataFrame:
            return self._through(self._source(window, one_by_one=one_by_one), window)

        def report(done: int) -> None:
            on_records(min(done, window.records))

        drain = Drain(self._spark, LocalPath(self._home / "checkpoint"), stream, self._keep)
        drain.run(window.begin, self._asides(window), report)

    def _asides(self, window: ReplayWindow) -> dict[TopicPartition, list[QuarantinedRange]]:
        """Return what was set aside in the window."""
        held, quarantined = quarantine.known(checkpoints_of(self._settings, self._spark)), {}
        for place, (_, end) in window.edges.items():
            spans = held.get(str(BucketId(self.scenario.name, place[1])), [])
            quarantined[place] = [span for span in spans if span[0] < end]
        return quarantined

    def _source(self, window: ReplayWindow, *, one_by_one: bool) -> DataFrame:
        """Return a stream of the window's records without the rules."""
        begin: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in window.begin.items():
            begin.setdefault(topic, {})[str(partition)] = offset
        partitions = {topic: [int(at) for at in places] for topic, places in begin.items()}
        options = {
            **self._settings.spark_kafka_options(),
            **SOURCE,
            "assign": json.dumps(partitions),
            "startingOffsets": json.dumps(begin),
            "maxOffsetsPerTrigger": str(PER_BATCH[self.engine]),
        }
        if one_by_one:
            options["kafka.max.poll.records"] = "1"
        stream = self._spark.readStream.format("kafka").options(**options).load()
        return stream.where(_within(window)).where(~_is_rule())

    def _through(self, source: DataFrame, window: ReplayWindow) -> DataFrame:
        """Return the records for the states topic that an engine makes of the source."""
        name, rule = self.scenario.name, dump_rule(self.scenario)
        buckets = {BucketId(name, at): rule for _, at in window.begin}
        partitions, folder = (
            {name: self.scenario.partitions},
            checkpoints_of(self._settings, self._spark),
        )
        start = EpochStart(seeds=self._seeds, bounds=known(folder))
        keys = str(self._settings.command_keys_file)
        plan = Plan(self._topics.prefix, EPOCH, partitions, buckets, start, keys)
        groups = bucket_keys(buckets, width(self._spark))
        places = {(self._topics.reports(name), b.partition): key for b, key in groups.items()}
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
        """Return the times (Unix ms) and states of each asset's changes of state, in order."""
        from pyspark.sql import Window as Over

        (self._home / "emitted").mkdir(parents=True, exist_ok=True)
        reader = self._spark.read.schema(SHOWN)
        emitted = reader.json(str(self._begun)).union(reader.parquet(str(self._home / "emitted")))
        order = Over.partitionBy("asset").orderBy("offset", "step")
        emitted = emitted.withColumn("before", sql.lag("state").over(order))
        moment = sql.struct("offset", "step", "at", "state")
        changed = emitted.where(~sql.col("state").eqNullSafe(sql.col("before"))).groupBy("asset")
        listed = changed.agg(sql.sort_array(sql.collect_list(moment)).alias("all"))
        moments = sql.transform("all", lambda m: sql.struct(m["at"], m["state"]))
        return listed.select("asset", moments.alias("moments"))


def _within(window: ReplayWindow) -> Column:
    """Return the condition for records before each partition's end."""
    conditions = [
        (sql.col("partition") == partition) & (sql.col("offset") < end)
        for (_, partition), (_, end) in window.edges.items()
    ]
    return reduce(lambda one, other: one | other, conditions)


def _is_rule() -> Column:
    kind = sql.get_json_object(sql.col("value").cast("string"), "$.type")
    return sql.coalesce(sql.col("key").isNull() & (kind == "scenario"), sql.lit(False))


def _shown(name: str, asset: Asset) -> ShownState:
    """Return what an asset shows as a run begins."""
    return ShownState(name, asset.shown or "", asset.since, asset.offset, asset.step)


def histories(running: DataFrame, proposed: DataFrame) -> Iterator[History]:
    """Yield every asset that was seen, with its history under each rule; read bit by bit."""
    both = running.withColumnRenamed("moments", "running").join(
        proposed.withColumnRenamed("moments", "proposed"), "asset", "full_outer"
    )
    for row in both.orderBy("asset").toLocalIterator():
        yield History(
            row["asset"],
            [(at, state) for at, state in row["running"] or ()],
            [(at, state) for at, state in row["proposed"] or ()],
        )
