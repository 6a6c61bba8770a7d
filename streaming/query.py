"""One run of the query: from topics to topics."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sql

from streaming.buckets import bucket_keys
from streaming.engine import STATE_PARTITIONS, Engine, Trigger
from streaming.epoch_start import EARLIEST
from streaming.pipeline import rows, through_kernel, through_python
from streaming.processor import Plan, TallyProcessor
from wire.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from config.settings import Settings

# Most records of one micro-batch: a long backlog comes in many, each of some seconds.
MAX_PER_BATCH: Mapping[Engine, int] = {"kernel": 500_000, "python": 100_000}

# Tasks that read the source partitions: one for each would cost more than the reading.
READERS = 2

SOURCE = {
    "startingOffsets": "earliest",
    "includeHeaders": "true",
    "kafkaConsumer.pollTimeoutMs": "15000",
    "kafka.isolation.level": "read_committed",
    "kafka.default.api.timeout.ms": "15000",
    "kafka.request.timeout.ms": "10000",
    "kafka.reconnect.backoff.max.ms": "1000",
    "kafka.fetch.max.bytes": str(16 << 20),
    "kafka.max.partition.fetch.bytes": str(1 << 20),
}
SINK = {
    "kafka.acks": "all",
    "kafka.enable.idempotence": "true",
    "kafka.compression.type": "lz4",
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
    checkpoint: Path,
    *,
    engine: Engine,
    trigger: Trigger,
    loss_known: bool = False,
    one_by_one: bool = False,
    only_to: str = "",
) -> StreamingQuery:
    """Start the query of all buckets of the plan.

    loss_known: go on although the log has lost records after the checkpoint;
    one_by_one: unpack no record before it is wanted;
    only_to: the topic that all goes to which the query writes; empty: to where it belongs.
    """
    keys = _places(plan)
    options = {"failOnDataLoss": str(not loss_known).lower()}
    if plan.start.offsets:
        options["startingOffsets"] = _starting(plan)
    if one_by_one:
        options["kafka.max.poll.records"] = "1"
    if trigger not in ("real-time", "leg"):
        options["maxOffsetsPerTrigger"] = str(MAX_PER_BATCH[engine])
    stream = rows(_source(spark, settings, sorted({topic for topic, _ in keys}), options), keys)
    if trigger != "real-time":
        stream = stream.coalesce(READERS)
    if engine == "kernel":
        records = through_kernel(stream, plan.json(real_time=trigger == "real-time"))
    else:
        records = through_python(stream, TallyProcessor(plan))
    if only_to:
        records = records.withColumn("topic", sql.lit(only_to))
    writer = records.writeStream.format("kafka").queryName(engine).outputMode("update")
    writer = writer.options(**{**settings.spark_kafka_options(), **SINK})
    writer = writer.option("checkpointLocation", str(checkpoint))
    return writer.trigger(**_trigger(trigger, settings)).start()


def _places(plan: Plan) -> dict[tuple[str, int], str]:
    """Return the grouping key of every (topic, partition) that is read."""
    topics = Topics(plan.prefix)
    keys = bucket_keys(plan.rules, STATE_PARTITIONS)
    return {(topics.reports(b.scenario), b.partition): key for b, key in keys.items()}


def _starting(plan: Plan) -> str:
    """Return where a new checkpoint begins to read, as Spark's source takes it: every partition."""
    topics, offsets = Topics(plan.prefix), dict[str, dict[str, int]]()
    for bucket in plan.rules:
        offset = plan.start.offsets.get(str(bucket), EARLIEST)
        offsets.setdefault(topics.reports(bucket.scenario), {})[str(bucket.partition)] = offset
    return json.dumps(offsets)


def _source(
    spark: SparkSession, settings: Settings, topics: list[str], options: Mapping[str, str]
) -> DataFrame:
    """Return a stream of the records of a fixed list of topics."""
    reader = spark.readStream.format("kafka").option("subscribe", ",".join(topics))
    return reader.options(**{**settings.spark_kafka_options(), **SOURCE, **options}).load()


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


def batch_metadata(spark: SparkSession) -> str:
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
    metadata["conf"]["spark.sql.shuffle.partitions"] = str(STATE_PARTITIONS)
    return json.dumps(metadata)


def watch(
    query: StreamingQuery,
    due_to_end: Callable[[], bool],
    on_batch: Callable[[dict[str, Any]], None],
    every_s: float = 1.0,
) -> None:
    """Return when the query is due to end or has ended; raises what ended it, if it was an error.

    on_batch: called with Spark's progress, at most once in `every_s` seconds, and at the end of a
    query that ended by itself.
    """
    reported, next_look, ended = -1, 0.0, False
    while not ended and not due_to_end():
        ended = bool(query.awaitTermination(0.2))  # type: ignore[arg-type]
        if not ended and time.monotonic() < next_look:
            continue
        next_look = time.monotonic() + every_s
        latest = query.lastProgress
        if latest is not None and latest["batchId"] != reported:
            reported = latest["batchId"]
            on_batch(json.loads(latest.json) if hasattr(latest, "json") else dict(latest))
