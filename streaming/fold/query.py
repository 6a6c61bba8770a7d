"""The streaming query: from its source to its sinks, and started with an engine."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec
from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from streaming.fold.epochs import EARLIEST
from streaming.fold.plan import HANDED_OUT, Plan
from streaming.state.buckets import Engine, Trigger, bucket_keys
from streaming.state.checkpoint import positions
from streaming.state.hadoop import storage_at
from streaming.state.storage import StoragePath
from wire.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StatefulProcessor, StreamingQuery

    from config.settings import Settings


# ---- pipeline ------------------------------------------------------------------------------------
# The job's pipeline: Kafka's columns in, records for the sink topics out.

# Columns of the Python processor. headers: a JSON list of objects, key and value (base64).
SINK_ROWS = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("headers", StringType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
    ]
)

_HEADERS = "array<struct<key:string,value:binary>>"


def rows(source: DataFrame, keys: Mapping[tuple[str, int], str]) -> DataFrame:
    """Return what an engine reads, out of Kafka's columns.

    time: append time (Unix ms); headers: null for none;
    keys: the grouping key of every (topic, partition) that is read.
    """
    return source.select(
        _grouping_key(keys).alias("bucket"),
        "key",
        "value",
        "offset",
        sql.unix_millis("timestamp").alias("time"),
        sql.when(sql.size("headers") > 0, sql.col("headers")).alias("headers"),
    )


def blocks(source: DataFrame, keys: Mapping[tuple[str, int], str]) -> DataFrame:
    """Return what the kernel reads of BlockSource's columns: the same, a block of records a row."""
    return source.select(_grouping_key(keys).alias("bucket"), "offset", "records")


def through_kernel_in_blocks(source: DataFrame, plan: str) -> DataFrame:
    """Pass blocks of records through the kernel. Returns BlockSink's column.

    plan: as Plan.json writes it.
    """
    spark = source.sparkSession
    kernel = spark._jvm.tallyboard.kernel.Kernel  # type: ignore[union-attr]  # noqa: SLF001
    return type(source)(kernel.applyToBlocks(source._jdf, plan), spark)  # noqa: SLF001


def through_kernel_from_blocks(source: DataFrame, plan: str) -> DataFrame:
    """Pass blocks of records through the kernel. Returns a Kafka sink's columns.

    plan: as Plan.json writes it.
    """
    spark = source.sparkSession
    kernel = spark._jvm.tallyboard.kernel.Kernel  # type: ignore[union-attr]  # noqa: SLF001
    return type(source)(kernel.applyFromBlocks(source._jdf, plan), spark)  # noqa: SLF001


def through_kernel(source: DataFrame, plan: str) -> DataFrame:
    """Pass rows through the kernel. Returns a Kafka sink's columns.

    plan: as Plan.json writes it.
    """
    spark = source.sparkSession
    kernel = spark._jvm.tallyboard.kernel.Kernel  # type: ignore[union-attr]  # noqa: SLF001
    return type(source)(kernel.apply(source._jdf, plan), spark)  # noqa: SLF001


def through_python(source: DataFrame, processor: StatefulProcessor) -> DataFrame:
    """Pass rows through the Python engine. Returns a Kafka sink's columns."""
    encoded = source.withColumn("headers", sql.to_json("headers"))
    records = encoded.groupBy("bucket").transformWithStateInPandas(
        processor, outputStructType=SINK_ROWS, outputMode="Update", timeMode="None"
    )
    return records.select(
        "key", "value", sql.from_json("headers", _HEADERS).alias("headers"), "topic", "partition"
    )


def _grouping_key(keys: Mapping[tuple[str, int], str]) -> Column:
    """Return the column of the grouping key, looked up by topic, then by partition.

    For each record this is cheaper than building a name from both.
    """
    column: Column = sql.lit(None).cast("string")
    for topic in sorted({topic for topic, _ in keys}, reverse=True):
        of_topic = sql.create_map(
            *(
                sql.lit(part)
                for (t, at), key in sorted(keys.items())
                if t == topic
                for part in (at, key)
            )
        )
        column = sql.when(sql.col("topic") == topic, of_topic[sql.col("partition")]).otherwise(
            column
        )
    return column


# ---- query ---------------------------------------------------------------------------------------
# One run of the query: from topics to topics.

# Most records of one micro-batch: a long backlog comes in many, each of some seconds.
MAX_PER_BATCH: Mapping[Engine, int] = {"kernel": 1_000_000, "python": 100_000}

# The kernel takes a backlog in blocks, many records to a row: see kernel/BlockSource.java.
BLOCK_SOURCE, BLOCK_SINK = "tallyboard.kernel.BlockSource", "tallyboard.kernel.BlockSink"

# Whether Spark counts the state's entries, which costs a search of the store for each one written.
COUNTED = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows"

# Whether a commit writes what has changed in the state, or the store's new files. Where much has
# changed the files cost no more, and who starts after a crash has nothing to replay.
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"

# The number of state partitions of a checkpoint that begins; afterwards that is its own.
PARTITIONS = "spark.sql.shuffle.partitions"

# Each engine has a driver of its own, and both start their queries in one session.
_STARTING = threading.Lock()

# How often one looks whether the query is due to end, and how often for a batch's figures.
LOOK_S, PROGRESS_S = 0.2, 2.0

# Nobody's open transaction holds a query up: nothing of ours is written in one.
SOURCE = {
    "startingOffsets": "earliest",
    "includeHeaders": "true",
    "kafkaConsumer.pollTimeoutMs": "15000",
    "kafka.isolation.level": "read_uncommitted",
    "kafka.default.api.timeout.ms": "15000",
    "kafka.request.timeout.ms": "10000",
    "kafka.reconnect.backoff.max.ms": "1000",
    "kafka.fetch.max.bytes": str(16 << 20),
    "kafka.max.partition.fetch.bytes": str(1 << 20),
}
# What a backlog is read with: many records at once.
BULK = {
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(4 << 20),
}
SINK = {
    "kafka.acks": "all",
    "kafka.enable.idempotence": "true",
    "kafka.linger.ms": "5",
    "kafka.batch.size": "262144",
    "kafka.buffer.memory": "67108864",
    "kafka.max.block.ms": "15000",
    "kafka.request.timeout.ms": "10000",
    "kafka.delivery.timeout.ms": "30000",
    "kafka.reconnect.backoff.max.ms": "1000",
}


def start(
    spark: SparkSession,
    settings: Settings,
    plan: Plan,
    checkpoint: StoragePath,
    *,
    engine: Engine,
    trigger: Trigger,
    loss_known: bool = False,
    one_by_one: bool = False,
    only_to: str = "",
) -> StreamingQuery:
    """Start the query of all buckets of the plan.

    loss_known: go on although the log has lost records after the checkpoint;
    one_by_one: unpack no record before it is needed;
    only_to: the topic that all goes to which the query writes; empty: to where it belongs.
    """
    keys = _places(plan)
    readers = str(_readers(spark, settings, plan))
    options = {"failOnDataLoss": str(not loss_known).lower(), **_log_range(plan)}
    if one_by_one:
        options["kafka.max.poll.records"] = "1"
    if trigger not in ("real-time", "leg"):
        options["maxOffsetsPerTrigger"] = str(MAX_PER_BATCH[engine])
    if (
        engine == "kernel"
        and trigger in ("micro-batch", "catch-up")
        and not (one_by_one or only_to)
    ):
        stream = _source(spark, settings, BLOCK_SOURCE, {**BULK, "readers": readers, **options})
        records = through_kernel_in_blocks(blocks(stream, keys), plan.json(real_time=False))
        sink = BLOCK_SINK
    else:
        stream = _source(spark, settings, "kafka", options)
        if engine == "python" and not positions(checkpoint):
            plan = handed_out(spark, plan)
        if trigger != "real-time":
            stream = stream.coalesce(int(readers))
        read = rows(stream, keys)
        if only_to:  # a rehearsal leaves out partitions that it knows no bucket of
            read = read.where(sql.col("bucket").isNotNull())
        records = _through(read, plan, engine, trigger)
        sink = "kafka"
    if only_to:
        records = records.withColumn("topic", sql.lit(only_to)).drop("partition")
    writer = _writer(records, settings, sink, engine, checkpoint)
    writer.trigger(**_trigger(trigger, settings))
    with _STARTING:
        _configure(spark, settings, trigger, plan.start.state_partitions)
        return writer.start()


def _configure(
    spark: SparkSession, settings: Settings, trigger: Trigger, state_partitions: int
) -> None:
    """Set what the session's next query takes over from it."""
    spark.conf.set(COUNTED, "false")
    spark.conf.set(CHANGELOG, str(trigger != "catch-up").lower())
    spark.conf.set(PARTITIONS, str(state_partitions))
    if trigger == "real-time":
        _limit_batches(spark, settings)


def _readers(spark: SparkSession, settings: Settings, plan: Plan) -> int:
    """Return how many tasks read the source partitions of a micro-batch.

    One for each partition would cost more than the reading; on a cluster no slot is to idle.
    """
    number = plan.start.state_partitions
    if settings.one_machine:
        return number
    return min(len(plan.rules), max(number, spark.sparkContext.defaultParallelism))


def _writer(
    records: DataFrame, settings: Settings, sink: str, name: str, checkpoint: StoragePath
) -> DataStreamWriter:
    """Return the writer of a query of this name, which packs only what travels."""
    compression = "none" if settings.one_machine else "lz4"
    options = {**settings.spark_kafka_options(), **SINK, "kafka.compression.type": compression}
    writer = records.writeStream.format(sink).queryName(name).outputMode("update")
    return writer.options(**options).option("checkpointLocation", str(checkpoint))


def _through(stream: DataFrame, plan: Plan, engine: Engine, trigger: Trigger) -> DataFrame:
    """Return the records for the sink topics that an engine makes of rows of a record each."""
    if engine == "python":
        # Here, as its pandas is a third of a second of each start, of the kernel's too.
        from streaming.fold.processor import TallyProcessor

        return through_python(stream, TallyProcessor(plan))
    return through_kernel(stream, plan.json(real_time=trigger == "real-time"))


def handed_out(spark: SparkSession, plan: Plan) -> Plan:
    """Return a plan whose seeds Python's workers can read: Spark hands out those at a URL.

    Raises OSError.
    """
    seeds, scratch = dict(plan.start.seeds), Path(str(spark.conf.get("spark.local.dir")))
    for bucket, seed in seeds.items():
        if "://" in seed:
            copy = storage_at(seed, spark, scratch).lent(scratch)
            # Spark takes no second file of a name.
            handed = copy.rename(copy.with_name(f"{uuid4()}-{copy.name}"))
            spark.sparkContext.addFile(str(handed))
            seeds[bucket] = f"{HANDED_OUT}{handed.name}"
    start = msgspec.structs.replace(plan.start, seeds=seeds)
    return replace(plan, start=start)


def _places(plan: Plan) -> dict[tuple[str, int], str]:
    """Return the grouping key of every (topic, partition) that is read."""
    topics = Topics(plan.prefix)
    keys = bucket_keys(plan.rules, plan.start.state_partitions)
    return {(topics.reports(b.scenario), b.partition): key for b, key in keys.items()}


def _log_range(plan: Plan) -> dict[str, str]:
    """Return the options of the topics that are read, and of where a new checkpoint begins."""
    options = {"subscribe": ",".join(sorted({topic for topic, _ in _places(plan)}))}
    return options | ({"startingOffsets": _starting(plan)} if plan.start.offsets else {})


def _starting(plan: Plan) -> str:
    """Return the `startingOffsets` of a new checkpoint, for every partition."""
    topics, offsets = Topics(plan.prefix), dict[str, dict[str, int]]()
    for bucket in plan.rules:
        offset = plan.start.offsets.get(str(bucket), EARLIEST)
        offsets.setdefault(topics.reports(bucket.scenario), {})[str(bucket.partition)] = offset
    return json.dumps(offsets)


def _source(
    spark: SparkSession,
    settings: Settings,
    source: str,
    options: Mapping[str, str],
) -> DataFrame:
    """Return a stream of the records of the topics or partitions that the options name."""
    reader = spark.readStream.format(source)
    return reader.options(**{**settings.spark_kafka_options(), **SOURCE, **options}).load()


def _limit_batches(spark: SparkSession, settings: Settings) -> None:
    """Have the session's next query commit after so many reports, and often in a cold JVM."""
    jvm: Any = spark._jvm  # noqa: SLF001
    session: Any = spark._jsparkSession  # noqa: SLF001
    limit = jvm.tallyboard.kernel.BatchLength.limit
    limit(session, settings.warm_up_s * 1000, settings.batch_reports)


def _trigger(trigger: Trigger, settings: Settings) -> dict[str, Any]:
    match trigger:
        case "real-time":
            return {"realTime": f"{settings.batch_s} seconds"}
        case "micro-batch":
            return {"processingTime": f"{settings.trigger_ms} milliseconds"}
        case "catch-up":
            return {"availableNow": True}
        case "leg":
            return {"once": True}


def batch_metadata(spark: SparkSession, state_partitions: int) -> str:
    """Return what Spark writes into its write-ahead log with the offsets of a first batch."""
    jvm: Any = spark._jvm  # noqa: SLF001
    spark_metadata = (
        jvm.org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata.apply(
            0,
            int(time.time() * 1000),
            spark._jsparkSession.conf(),  # noqa: SLF001
        )
    )
    metadata = json.loads(str(spark_metadata.json()))
    # Spark fills this one in once a query runs, and takes no batch that was planned without it.
    metadata["conf"][PARTITIONS] = str(state_partitions)
    return json.dumps(metadata)


def watch(
    query: StreamingQuery,
    due_to_end: Callable[[], bool],
    on_batch: Callable[[dict[str, Any]], None],
    every_s: float = PROGRESS_S,
) -> None:
    """Return when the query is due to end or has ended; raises what ended it, if it was an error.

    on_batch: called with Spark's progress, at most once in `every_s` seconds, and at the end of a
    query that ended by itself.
    """
    reported, next_look, ended, end = -1, 0.0, False, end_of(query)
    while not ended and not due_to_end():
        ended = end.wait(LOOK_S)
        if ended:
            query.awaitTermination()  # raises what ended it
        elif time.monotonic() < next_look:
            continue
        next_look = time.monotonic() + every_s
        latest = query.lastProgress
        if latest is not None and latest["batchId"] != reported:
            reported = latest["batchId"]
            on_batch(json.loads(latest.json) if hasattr(latest, "json") else dict(latest))


def end_of(query: StreamingQuery) -> threading.Event:
    """Return what is set once the query has ended, well or not.

    A thread waits for it, as each question costs a call to the JVM.
    """
    end = threading.Event()

    def wait() -> None:
        try:
            with suppress(Exception):  # who asks the query itself is told what ended it
                query.awaitTermination()
        finally:
            end.set()

    threading.Thread(target=wait, name="query-end", daemon=True).start()
    return end
