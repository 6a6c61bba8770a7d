"""One run of a pipeline: from its topics through its transform to its topics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as sql
from pyspark.sql.types import IntegralType

from bus.base import Bus, BusError, TopicSpec
from streaming.fold.query import SINK, SOURCE
from streaming.fold.workload import now_ms
from streaming.pipelines.declaration import DeclarationError, OutputTable, Pipeline, Sink
from streaming.pipelines.emitter import Counts, Emitter, printing
from streaming.pipelines.records import LATE, OBSERVED, decode, follow, header
from streaming.pipelines.table_writer import TableWriter
from streaming.state.storage import StoragePath
from wire.topics import BOUNDED, DAY_MS, REPORTS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from config.settings import Settings

PROVIDERS = {
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "memory": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
}

# Nobody reads a tick later than this.
TICKS_KEPT_MS = 3_600_000


class SourceTopicMissing(BusError):
    """A source whose topic is not there (yet)."""


class SinkTopicMissing(BusError):
    """A topic of reports that no scenario has (yet)."""


class NotCoPartitioned(BusError):
    """Sources that are to be co-partitioned and are not."""


class TopicLayout(NamedTuple):
    """The topics of a pipeline as they are: how many partitions each topic has, by source and by
    global table."""

    sources: Mapping[str, Mapping[str, int]]
    tables: Mapping[str, Mapping[str, int]]

    @property
    def topics(self) -> list[str]:
        """Return all topics that are read."""
        return sorted({topic for topics in self._all() for topic in topics})

    def _all(self) -> Iterator[Mapping[str, int]]:
        yield from self.sources.values()
        yield from self.tables.values()


def locate(pipeline: Pipeline, bus: Bus, prefix: str, known: Sequence[str]) -> TopicLayout:
    """Return the topics of each source. known: topics that a pattern may match, without prefix.

    Raises SourceTopicMissing, SinkTopicMissing, NotCoPartitioned and Unavailable.
    """
    _check_reports(pipeline, bus, prefix)
    sources: dict[str, dict[str, int]] = {}
    for name, source in pipeline.sources.items():
        pattern = any(sign in source.topic for sign in "*?")
        names = (
            [one for one in known if fnmatchcase(one, source.topic)] if pattern else [source.topic]
        )
        counts = {prefix + one: bus.partitions(prefix + one) for one in sorted(names)}
        there = {topic: count for topic, count in counts.items() if count}
        if not there or (not pattern and len(there) < len(counts)):
            raise SourceTopicMissing(f"{name}: there is no topic {prefix}{source.topic}")
        sources[name] = there
    _check_partitions(pipeline, sources)
    return TopicLayout(sources, _locate_tables(pipeline, bus, prefix))


def _locate_tables(pipeline: Pipeline, bus: Bus, prefix: str) -> dict[str, dict[str, int]]:
    tables = {name: prefix + table.topic for name, table in pipeline.global_tables.items()}
    counts = {name: {topic: bus.partitions(topic)} for name, topic in tables.items()}
    for name, topic in tables.items():
        if not counts[name][topic]:
            raise SourceTopicMissing(f"{name}: there is no topic {topic}")
    return counts


def _check_reports(pipeline: Pipeline, bus: Bus, prefix: str) -> None:
    for topic in (prefix + sink.topic for sink in pipeline.sinks if _of_reports(sink)):
        if not bus.partitions(topic):
            raise SinkTopicMissing(f"there is no topic {topic}, which the job makes for a scenario")


def _of_reports(sink: Sink) -> bool:
    return sink.topic.endswith(REPORTS)


def _check_partitions(pipeline: Pipeline, sources: Mapping[str, Mapping[str, int]]) -> None:
    counts = {topic: n for name in pipeline.co_partitioned for topic, n in sources[name].items()}
    if len(set(counts.values())) > 1:
        listed = " and ".join(f"{topic} has {n}" for topic, n in sorted(counts.items()))
        raise NotCoPartitioned(
            f"{', '.join(pipeline.co_partitioned)}: expected equally many partitions, but {listed}"
        )


def sink_specs(pipeline: Pipeline, prefix: str) -> list[TopicSpec]:
    """Return the topics that a pipeline writes, as they are to be made, and that of its ticks.

    Those of reports are not among them: they are the job's, with settings of their own.
    """
    ticks = [_tick_sink(pipeline)] if pipeline.trigger.tick_ms else []
    return [
        TopicSpec(prefix + sink.topic, sink.partitions, _config(sink))
        for sink in (*pipeline.sinks, *ticks)
        if not _of_reports(sink)
    ]


def _tick_sink(pipeline: Pipeline) -> Sink:
    return Sink(f"pipelines.{pipeline.name}.ticks", partitions=1, keep_ms=TICKS_KEPT_MS)


def tick_topic(pipeline: Pipeline, prefix: str) -> str:
    """Return the topic of the ticks that make a pipeline begin batches."""
    return prefix + _tick_sink(pipeline).topic


def _config(sink: Sink) -> dict[str, str]:
    policy = "compact,delete" if sink.compacted else "delete"
    segment = {"segment.ms": str(min(sink.keep_ms, DAY_MS))}
    return {**BOUNDED, **segment, "cleanup.policy": policy, "retention.ms": str(sink.keep_ms)}


class Built(NamedTuple):
    """A pipeline's DataFrames. frames: what the transform was given; result: what it returned;
    output: the rows of a Kafka sink, or of a table."""

    frames: Mapping[str, DataFrame]
    result: DataFrame
    output: DataFrame


def build(
    spark: SparkSession,
    settings: Settings,
    pipeline: Pipeline,
    places: TopicLayout,
    dead_letters: str,
) -> Built:
    """Return the DataFrames of a pipeline. Raises DeclarationError for a wrong result."""
    prefix, frames, dead = settings.topic_prefix, {}, []
    for name, source in pipeline.sources.items():
        topics = sorted(places.sources[name])
        raw = _source(spark, settings, pipeline, topics).coalesce(pipeline.parallelism.slots)
        decoded = decode(raw, name, source, topics, prefix)
        frames[name] = decoded.rows
        if decoded.dead is not None:
            dead.append(decoded.dead.withColumn("topic", sql.lit(dead_letters)))
    options = {**settings.spark_kafka_options(), **SOURCE}
    for name, table in pipeline.global_tables.items():
        frames[name] = follow(spark, options, name, table, places.tables[name])
    given = {name: getattr(settings, name) for name in pipeline.parameters}
    result = pipeline.transform(**frames, **given)
    written = _without_late(pipeline, result, places) if pipeline.late else result
    if pipeline.table is not None:
        return Built(frames, result, _table_rows(pipeline, pipeline.table, written))
    rows = _rows(pipeline, written, prefix)
    output = reduce(lambda one, two: one.unionByName(two, allowMissingColumns=True), dead, rows)
    return Built(frames, result, output)


def _without_late(pipeline: Pipeline, result: DataFrame, places: TopicLayout) -> DataFrame:
    """Return the rows to be written; what came too late is counted: see `figures.py`."""
    _check_columns(pipeline, result, {"id", "late"})
    topics = ", ".join(sorted(places.sources[pipeline.late]))
    count = sql.sum("late").alias(f"{LATE}@{topics}")
    counted = result.observe(f"{OBSERVED}{pipeline.late}:{LATE}", count)
    return counted.where("id is not null")


def _source(
    spark: SparkSession, settings: Settings, pipeline: Pipeline, topics: Sequence[str]
) -> DataFrame:
    """Return the records of topics. Ticks are read with them, since a source of their own would
    be asked as often, and are left out."""
    ticks = tick_topic(pipeline, settings.topic_prefix)
    subscribed = [*topics, ticks] if pipeline.trigger.tick_ms else topics
    reader = spark.readStream.format("kafka").option("subscribe", ",".join(subscribed))
    options = {
        **settings.spark_kafka_options(),
        **SOURCE,
        "maxOffsetsPerTrigger": str(pipeline.trigger.max_records),
        "failOnDataLoss": "false",
    }
    rows = reader.options(**options).load()
    return rows.where(sql.col("topic") != ticks) if pipeline.trigger.tick_ms else rows


def _rows(pipeline: Pipeline, result: DataFrame, prefix: str) -> DataFrame:
    """Return a transform's result as the rows of a Kafka sink, each with its id as a header."""
    several = {"topic"} if len(pipeline.sinks) > 1 else set()
    _check_columns(pipeline, result, {"key", "value", "id"} | several)
    topic = sql.col("topic") if len(pipeline.sinks) > 1 else sql.lit(pipeline.sinks[0].topic)
    value = sql.col("value")
    if pipeline.prints is not None:
        value = printing(pipeline.prints.label, sql.col("key"), value)
    identity = sql.concat(sql.lit(f"{pipeline.name}/"), sql.col("id").cast("string"))
    return result.select(
        sql.col("key").cast("binary").alias("key"),
        value.cast("binary").alias("value"),
        sql.array(header("id", identity)).alias("headers"),
        sql.concat(sql.lit(prefix), topic).alias("topic"),
        *_partition(pipeline, result, topic),
    )


def _table_rows(pipeline: Pipeline, table: OutputTable, result: DataFrame) -> DataFrame:
    """Return a transform's result as the rows of a table: those that have a name, a day and a
    time."""
    _check_columns(pipeline, result, set(table.columns))
    return result.dropna(subset=list(table.columns))


def _check_columns(pipeline: Pipeline, result: DataFrame, expected: set[str]) -> None:
    if missing := sorted(expected - set(result.columns)):
        raise DeclarationError(
            f"{pipeline.name}: transform: expected the columns {', '.join(sorted(expected))}, "
            f"and {', '.join(missing)} is missing from {', '.join(result.columns)}"
        )


def _partition(pipeline: Pipeline, result: DataFrame, topic: Column) -> list[Column]:
    """Return the column of the rows' partitions, or none where no sink has a partitioner."""
    chosen: Column | None = None
    for sink in pipeline.sinks:
        if sink.partitioner is None:
            continue
        number = sink.partitioner(result)
        kind = result.select(number).schema[0].dataType
        if not isinstance(kind, IntegralType):
            raise DeclarationError(
                f"{pipeline.name}: {sink.topic}: partitioner: expected whole numbers, "
                f"got {kind.simpleString()}"
            )
        place = sql.pmod(number, sql.lit(sink.partitions)).cast("int")
        here = topic == sink.topic
        chosen = sql.when(here, place) if chosen is None else chosen.when(here, place)
    return [] if chosen is None else [chosen.alias("partition")]


def start(
    settings: Settings, pipeline: Pipeline, built: Built, checkpoint: StoragePath, counts: Counts
) -> StreamingQuery:
    """Start a pipeline's query on a checkpoint. counts: of what its tables gather."""
    writer = built.output.writeStream.queryName(pipeline.name).outputMode(pipeline.mode)
    if pipeline.table is not None:
        url = table_url(settings, pipeline, pipeline.table)
        tasks = pipeline.parallelism.slots
        writer = writer.foreachBatch(TableWriter(url, pipeline.table, now_ms, tasks).write)
    elif pipeline.gathering:
        waits = {
            settings.topic_prefix + sink.topic: sink.emission.every_ms
            for sink in pipeline.gathering
        }
        emitter = Emitter(settings.kafka_options(), waits, pipeline.share, counts)
        writer = writer.foreach(emitter)
    else:
        writer = writer.format("kafka").options(**{**settings.spark_kafka_options(), **SINK})
    writer = writer.option("checkpointLocation", str(checkpoint))
    return writer.trigger(processingTime=f"{pipeline.trigger.every_ms} milliseconds").start()


def table_url(settings: Settings, pipeline: Pipeline, table: OutputTable) -> str:
    """Return where a pipeline's table is. Raises DeclarationError for an unknown setting."""
    url = getattr(settings, table.setting, None)
    if not isinstance(url, str):
        raise DeclarationError(
            f"{pipeline.name}: table: expected a setting with a URL, got {table.setting!r}"
        )
    return url


def outputs(settings: Settings, pipeline: Pipeline) -> list[str]:
    """Return the topics that a pipeline writes, without the prefix, or where its table is."""
    if pipeline.table is not None:
        return [table_url(settings, pipeline, pipeline.table)]
    return [sink.topic for sink in pipeline.sinks]


def session_for(spark: SparkSession, pipeline: Pipeline) -> SparkSession:
    """Return a session of its own for a pipeline, with its state's backend and partitions."""
    own = spark.newSession()
    settings = {
        "spark.sql.streaming.stateStore.providerClass": PROVIDERS[pipeline.state],
        "spark.sql.shuffle.partitions": str(pipeline.parallelism.state_partitions),
        "spark.sql.streaming.numRecentProgressUpdates": "100",
        **pipeline.settings,
    }
    if pipeline.state == "memory":
        settings["spark.sql.streaming.stateStore.checkpointFormatVersion"] = "1"
    for name, value in settings.items():
        own.conf.set(name, value)
    return own
