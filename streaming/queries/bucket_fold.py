"""`python -m streaming.queries.bucket_fold`: buckets' logs through the kernel, for reconcile.

The kernel folds the log in micro-batches, in a checkpoint of its own: however many assets there
are, a bucket's state is on the disk. What it emits is sorted by Spark, on the disk too, and written
to files. Of what precedes the first answer the files hold each asset's last record, and those that
changed what it shows; afterwards they hold every record.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec
from pyspark.sql import Window as Over
from pyspark.sql import functions as sql

from bus.base import Bus, BusError, TopicPartition
from bus.kafka import KafkaBus
from config.entry import enter
from config.logs import configure_logs
from domain.fold import UnknownFoldVersion
from domain.quarantine import QuarantinedRange
from streaming.fold.epochs import EpochStart
from streaming.fold.plan import Plan
from streaming.fold.query import (
    BLOCK_SOURCE,
    BULK,
    SOURCE,
    blocks,
    through_kernel_from_blocks,
)
from streaming.fold.rules import dump_rule, scan
from streaming.kernel import KernelProblem
from streaming.queries.bucket_snapshot import CommittedState, write_snapshots
from streaming.queries.drain import Drain
from streaming.queries.protocol import reason, start_batch_session, width
from streaming.spark.jvm import JvmLost
from streaming.spark.session import VersionProblem
from streaming.state.buckets import BucketId, bucket_keys
from streaming.state.checkpoint import positions
from streaming.state.quarantine import committed
from streaming.state.restore import check_place, read_snapshot, write_initial_state
from streaming.state.storage import LocalPath
from wire.bucket_fold import (
    SAVE,
    FoldAnswer,
    Folded,
    FoldFailed,
    FoldOrder,
    FoldProgress,
    FoldStart,
    Saved,
    read_emissions,
    record_of,
    write_emissions,
)
from wire.keys import KeyFile
from wire.snapshot import DamagedSnapshot, open_snapshot
from wire.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from config.settings import Settings

log = logging.getLogger("streaming.queries")

# Most records of a batch: a batch query has little memory.
PER_BATCH = 200_000
# Fewest and most files that a log's emissions are sorted into, and the records of each: a task
# sorts one, in memory where these are not many more.
FILES, MOST_FILES = 8, 200
PER_FILE = 250_000
# Records at the beginning of a log among which its rule is looked for first.
FIRST_LOOK = 1_000

SHOWN = "state string, unconfirmed boolean, cause struct<type: string>"
# What the kernel emitted, as wire/bucket_fold.py has it.
SCHEMA = (
    "scenario string, asset string, offset bigint, step bigint, value string, "
    "headers map<string, string>, restored boolean"
)


class BucketFold:
    """The fold of the buckets of an order, which goes on from call to call."""

    def __init__(self, spark: SparkSession, settings: Settings, bus: Bus, order: FoldOrder) -> None:
        self._spark, self._settings, self._bus, self._order = spark, settings, bus, order
        self._topics = Topics(settings.topic_prefix)
        self._home = Path(order.folder)
        self._seeded = self._home / "seeded"
        self._seeded.mkdir(parents=True)
        self._rounds = 0
        self._buckets = {BucketId.parse(name): start for name, start in order.buckets.items()}
        self._plan = self._planned()
        self._begun = {
            self._place(bucket): self._buckets[bucket].offset for bucket in self._plan.rules
        }
        self._checkpoint = LocalPath(self._home / "checkpoint")
        self._drain = Drain(spark, self._checkpoint, self._stream, self._keep)

    def fold_on(self, answers: Answers) -> Folded:
        """Fold to the log's present end and return where that is. Raises BusError."""
        reached = positions(self._checkpoint) or self._begun
        ends = {
            place: end
            for place, (_, end) in self._bus.offsets({topic for topic, _ in reached}).items()
            if place in reached
        }
        total = sum(ends.values()) - sum(reached.values())
        if total > 0:
            self._drain.run(reached, self._held(), lambda done: answers.progress(done, total))
        after = positions(self._checkpoint) or reached
        records = sum(after.values()) - sum(reached.values())
        files = self._sorted_files(records)
        self._rounds += 1
        named = {str(self._bucket(place)): end for place, end in after.items()}
        return Folded(named, records, files)

    def save(self) -> Saved:
        """Write a snapshot of each bucket that holds a state, as it was after the first turn.

        Raises OSError.
        """
        assert self._rounds == 1
        batch = committed(self._checkpoint)
        if batch is None:
            return Saved([])
        state = CommittedState(self._spark, self._checkpoint, batch)
        last = read_emissions(sorted((self._home / "sorted-0").glob("*.gz")))
        folder = Path(self._order.snapshots)
        return Saved(write_snapshots(state, last, self._order.partitions, folder))

    def _place(self, bucket: BucketId) -> TopicPartition:
        return self._topics.reports(bucket.scenario), bucket.partition

    def _bucket(self, place: TopicPartition) -> BucketId:
        return BucketId(self._topics.scenario_of(place[0]) or "", place[1])

    def _held(self) -> dict[TopicPartition, list[QuarantinedRange]]:
        """Return what was set aside, where something was."""
        return {
            self._place(bucket): start.asides
            for bucket, start in self._buckets.items()
            if start.asides and bucket in self._plan.rules
        }

    # ---- how the buckets begin ------------------------------------------------------------------

    def _planned(self) -> Plan:
        """Return the plan of the buckets that have a rule; the others hold no state yet."""
        seeded = {b: start for b, start in self._buckets.items() if start.snapshot}
        rules = self._first_rules(self._buckets.keys() - seeded.keys())
        start = EpochStart(bounds={str(b): own.bounds for b, own in self._buckets.items()})
        for bucket, own in seeded.items():
            rules[bucket] = self._seed(bucket, own, start)
        keys = str(self._settings.command_keys_file)
        order = self._order
        return Plan(self._topics.prefix, order.epoch, order.partitions, rules, start, keys)

    def _seed(self, bucket: BucketId, own: FoldStart, start: EpochStart) -> str:
        """Write a bucket's state and last emissions from its snapshot. Returns its rule.

        Raises DamagedSnapshot.
        """
        data = read_snapshot(Path(self._order.snapshots) / own.snapshot, own.digest)
        state, last = open_snapshot(data, self._order.epoch)
        check_place(state, str(bucket), own.offset)
        file = self._home / f"{bucket.scenario}-{bucket.partition}.seed"
        write_initial_state(file, state, {}, "kernel", self._order.epoch)
        start.seeds[str(bucket)] = str(file)
        epoch = self._order.epoch
        records = (record_of(bucket.scenario, one, epoch, restored=True) for one in last.values())
        write_emissions(self._seeded / f"{file.stem}.json.gz", records)
        return dump_rule(state.scenario)

    def _first_rules(self, buckets: set[BucketId]) -> dict[BucketId, str]:
        """Return the first rule that the log of each bucket holds. Raises BusError."""
        edges = self._bus.offsets({self._topics.reports(b.scenario) for b in buckets})
        edges = {place: edge for place, edge in edges.items() if self._bucket(place) in buckets}
        ring = KeyFile(self._settings.command_keys_file).ring
        rules: dict[BucketId, str] = {}
        look = FIRST_LOOK
        while edges:
            parts = {place: (at, min(at + look, end)) for place, (at, end) in edges.items()}
            for place, records in scan(self._bus, self._topics, parts, ring).items():
                if records:
                    rules[self._bucket(place)] = records[0][1]
            edges = {
                place: (parts[place][1], end)
                for place, (_, end) in edges.items()
                if self._bucket(place) not in rules and parts[place][1] < end
            }
            look *= 10
        return rules

    # ---- through the kernel ---------------------------------------------------------------------

    def _stream(self, one_by_one: bool) -> DataFrame:
        """Return the kernel's records for the states topics."""
        keys = bucket_keys(self._plan.rules, width(self._spark))
        places = {self._place(bucket): key for bucket, key in keys.items()}
        stream = blocks(self._source(one_by_one=one_by_one), places)
        records = through_kernel_from_blocks(stream, self._plan.json(real_time=False))
        topics = [self._topics.states(name) for name in self._order.partitions]
        return records.where(sql.col("topic").isin(topics))

    def _source(self, *, one_by_one: bool) -> DataFrame:
        assigned: dict[str, list[int]] = {}
        begin: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in self._begun.items():
            assigned.setdefault(topic, []).append(partition)
            begin.setdefault(topic, {})[str(partition)] = offset
        options = {
            **self._settings.spark_kafka_options(),
            **SOURCE,
            **BULK,
            "assign": json.dumps(assigned),
            "startingOffsets": json.dumps(begin),
            "maxOffsetsPerTrigger": str(PER_BATCH),
        }
        if one_by_one:
            options["kafka.max.poll.records"] = "1"
        return self._spark.readStream.format(BLOCK_SOURCE).options(**options).load()

    def _keep(self, batch: DataFrame, _number: int) -> None:
        headers = sql.map_from_entries("headers")
        version = sql.split(headers["version"].cast("string"), r"\.")
        texts = sql.transform_values(headers, lambda _name, data: data.cast("string"))
        scenario = sql.create_map(
            *(
                sql.lit(text)
                for name in self._order.partitions
                for text in (self._topics.states(name), name)
            )
        )
        kept = batch.select(
            scenario[sql.col("topic")].alias("scenario"),
            sql.col("key").cast("string").alias("asset"),
            version[1].cast("long").alias("offset"),
            version[2].cast("long").alias("step"),
            sql.col("value").cast("string").alias("value"),
            sql.when(sql.col("value").isNull(), texts).alias("headers"),
        )
        kept.write.mode("append").parquet(str(self._emitted))

    @property
    def _emitted(self) -> Path:
        return self._home / f"emitted-{self._rounds}"

    # ---- files ----------------------------------------------------------------------------------

    def _sorted_files(self, records: int) -> list[str]:
        """Sort what was emitted since the last answer, from so many records; return the files."""
        self._emitted.mkdir(exist_ok=True)
        emitted = self._spark.read.schema(SCHEMA).parquet(str(self._emitted))
        if not self._rounds:
            seeded = self._spark.read.schema(SCHEMA).json(str(self._seeded))
            emitted = emitted.unionByName(seeded)
        order = ("scenario", "asset", "offset", "step")
        number = min(max(FILES, width(self._spark), records // PER_FILE), MOST_FILES)
        rows = emitted.repartition(number, "scenario", "asset")
        if not self._rounds:
            rows = _visible(rows)
        rows = rows.sortWithinPartitions(*order)
        line = sql.to_json(sql.struct(*order, "value", "headers", "restored")).alias("value")
        into = self._home / f"sorted-{self._rounds}"
        rows.select(line).write.option("compression", "gzip").text(str(into))
        return sorted(map(str, into.glob("*.gz")))


def _visible(rows: DataFrame) -> DataFrame:
    """Return each asset's last record, and those that may have changed what it shows."""
    of_asset = Over.partitionBy("scenario", "asset").orderBy("offset", "step")
    shown = sql.from_json("value", SHOWN)
    state = shown["state"], shown["unconfirmed"]
    rows = rows.withColumn("shown", sql.struct(*state))
    rows = rows.withColumn("cause", shown["cause"]["type"])
    rows = rows.withColumn("before", sql.lag("shown").over(of_asset))
    rows = rows.withColumn("after", sql.lead("offset").over(of_asset))
    same = sql.col("shown").eqNullSafe(sql.col("before")) & (sql.col("cause") == "report")
    return rows.where(sql.col("after").isNull() | ~sql.coalesce(same, sql.lit(False)))


# ---- process -------------------------------------------------------------------------------------


class Answers:
    """Writes lines that reconcile reads."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def progress(self, done: int, of: int) -> None:
        """Report that `done` of `of` records are read."""
        self.write(FoldProgress(min(done, of), of))

    def write(self, line: FoldAnswer) -> None:
        """Write one line."""
        self._out.write(msgspec.json.encode(line) + b"\n")
        self._out.flush()


def main() -> None:
    """Carry out one order, until standard input ends."""
    # What libraries print goes to standard error: standard output is for answers alone.
    answers = Answers(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    settings = enter()
    configure_logs(settings.log_level, "bucket-fold")
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=FoldOrder)
    turns: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(turns,), daemon=True).start()
    try:
        _carry_out(settings, order, turns, answers)
    except UnknownFoldVersion as problem:
        answers.write(FoldFailed(str(problem)))
    except (BusError, VersionProblem, KernelProblem, JvmLost, DamagedSnapshot) as problem:
        answers.write(FoldFailed(str(problem)))
    except Exception as error:
        log.debug("the log could not be folded", exc_info=error)
        answers.write(FoldFailed(reason(error, settings)))
    os._exit(0)  # the JVM ends with its standard input


def _carry_out(
    settings: Settings, order: FoldOrder, turns: queue.SimpleQueue[bytes], answers: Answers
) -> None:
    """Fold on at each turn, until the process ends."""
    spark = start_batch_session(settings, Path(order.folder))
    fold = BucketFold(spark, settings, KafkaBus(settings.kafka_options()), order)
    while turn := turns.get():
        answers.write(fold.save() if turn == SAVE else fold.fold_on(answers))


def _receive(turns: queue.SimpleQueue[bytes]) -> None:
    """Hand on what is asked. The process ends with who asks."""
    for line in sys.stdin.buffer:
        turns.put(line)
    os._exit(1)


if __name__ == "__main__":
    main()
