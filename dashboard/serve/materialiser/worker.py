"""The materialiser: reads the sink topics from where the database is, and has batches written."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

import msgspec
import structlog
from django.db import DatabaseError, DataError, IntegrityError, close_old_connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.models import Case, QuerySet, When
from django.utils.module_loading import import_string

from bus.base import Bus, BusError, ConsumerRecord, Reader, TopicSpec
from bus.follower import TopicConsumer
from dashboard.core.states.caveats import ranks_of
from dashboard.core.states.ingestion import SinkBatch, UnreadableSinkRecord
from dashboard.core.states.models import AssetState, DetailKeys, begin_offsets
from dashboard.core.states.rows import DETAIL_COLUMNS, detail_columns, read
from dashboard.serve.materialiser.writer import write
from domain.scenario import Scenario
from wire.batch_query import decode_result
from wire.job import (
    MAX_ERROR,
    Heartbeat,
    LatenessReport,
    QueryReport,
    UnreadableJobRecord,
    decode_heartbeat,
    decode_progress,
)
from wire.pipeline import decode_pipeline
from wire.sink import UnreadableState, state_value
from wire.topics import Topics

log = structlog.get_logger(__name__)

# Most messages in one transaction.
BATCH = 5_000
# How long to wait for the first message of a batch, s.
WAIT_S = 0.2
# Pause between transactions while little arrives, s; many small ones would use up a core.
PACE_S = 0.05
# How long a broker may gather records for an answer, s: one answer per record costs both sides.
GATHER_S = 0.05
# How many net allocations trigger a collection of young objects, and how many of those a collection
# of older ones: Python's default of 700 took a quarter of the materialiser's time.
COLLECTOR_THRESHOLDS = (200_000, 20, 50)
# SQLite's page cache, KiB, and the number of log pages before a checkpoint. Together they save a
# tenth of the time; either alone saves little.
CACHE_KIB = 131_072
LOG_PAGES = 8_000
# What a database raises for a value that it cannot store.
UNWRITABLE = (DataError, IntegrityError, OverflowError, ValueError)
_TOPIC = attrgetter("topic")


class Materialiser(TopicConsumer):
    """Writes the sink topics into the database.

    Offsets are written together with the data they stand for, so a crash at any point neither loses
    nor repeats anything.
    """

    name = "materialiser"
    faults = (BusError, DatabaseError)
    gaps_are_losses = True

    def __init__(
        self,
        bus: Bus,
        topics: Topics,
        scenarios: dict[str, Scenario],
        clock: Callable[[], int],
        *,
        replication: int = 1,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare the consumer. beat: called at each step."""
        self._bus, self._topics, self._scenarios = bus, topics, scenarios
        self._clock, self._beat = clock, beat
        self._replication = replication
        self._prepared = False
        self._noted: Counter[tuple[str, str]] = Counter()
        """What to count with the next batch, by name and topic."""

    def step(self) -> int:
        """Write one batch. Returns how many messages it had. Raises BusError and DatabaseError."""
        self._beat()
        if self._reader is None:
            self._reader = self._open()
        messages = self._reader.poll(WAIT_S, BATCH)
        self._noted.update(("gaps", gap.topic) for gap in self._pop_gaps(self._reader))
        if messages:
            begun = time.perf_counter()
            self._write(messages)
            self._noted["batches", ""] += 1
            self._noted["batch-us", ""] += round((time.perf_counter() - begun) * 1_000_000)
        return len(messages)

    def pause_s(self, read: int) -> float:
        """Return how long to wait before the next transaction, s; 0 while much arrives."""
        return 0.0 if read == BATCH else PACE_S

    def recover(self, fault: Exception) -> None:
        """Count a fault, and start again from what the database has."""
        self._noted["faults", ""] += 1
        super().recover(fault)
        close_old_connections()

    def _write(self, messages: list[ConsumerRecord]) -> None:
        """Write messages; one that the database cannot store is refused and stops nothing."""
        try:
            self._keep(sort_out(messages, self._topics), messages)
        except UNWRITABLE as error:
            if len(messages) == 1:
                message = messages[0]
                batch = SinkBatch(offsets={(message.topic, message.partition): message.offset + 1})
                refuse(batch, message, repr(error))
                self._keep(batch, messages)
                return
            middle = len(messages) // 2
            self._write(messages[:middle])
            self._write(messages[middle:])

    def _keep(self, batch: SinkBatch, messages: list[ConsumerRecord]) -> None:
        for topic, number in Counter(map(_TOPIC, messages)).items():
            batch.counted["records", topic] += number
        batch.counted.update(self._noted)
        write(batch, self._scenarios, self._clock())
        self._noted.clear()

    def _open(self) -> Reader:
        specs = [TopicSpec(*spec) for spec in self._topics.specs(self._scenarios.values())]
        self._bus.ensure_topics(specs, replication=self._replication)
        if not self._prepared:
            self._prepare()
            self._prepared = True
        sinks = self._sinks()
        places = self._bus.offsets(sinks)
        starts = begin_offsets(places, self._bus.topic_ids(sinks))
        log.info("reading", partitions=len(starts), records_behind=_behind(places, starts))
        return self._bus.reader(starts, gather_s=GATHER_S)

    def _prepare(self) -> None:
        """Update what is stored of assets for this version and its scenarios."""
        rank_anew(self._scenarios)
        fill_details_anew(self._scenarios)

    def _sinks(self) -> list[str]:
        states = [self._topics.states(name) for name in self._scenarios]
        topics = self._topics
        own = (topics.buckets, topics.progress, topics.pipelines, topics.dead_letters)
        return [*states, *own, topics.results]


def enlarge_memory() -> None:
    """Give SQLite more memory in a process that materialises, and make it checkpoint less often.

    A page is then copied into the database once, however many transactions changed it.
    """
    connection_created.connect(_enlarge, dispatch_uid="materialiser")


def _enlarge(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
            cursor.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES}")
            # No file for the rollback data of multi-row statements: saves 5 % of the time.
            cursor.execute("PRAGMA temp_store=MEMORY")


def relax_collector() -> None:
    """Make Python collect cyclic garbage less often in a process that materialises.

    Everything loaded so far is kept, and the many objects of a batch are freed without the
    collector.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)


def rank_anew(scenarios: dict[str, Scenario]) -> None:
    """Update every row's severity and rank to match the configured scenarios."""
    for scenario in scenarios.values():
        rows = AssetState.objects.filter(scenario=scenario.name, purged=False)
        # The index of the board's order lists all pairs; only rows that are wrong are looked up.
        for state, rank in rows.values_list("state", "rank").distinct().order_by():
            severity = scenario.severity(state)
            if rank not in ranks_of(severity):
                _rank(rows.filter(rank=rank, state=state), severity)


def _rank(rows: QuerySet[AssetState], severity: int) -> None:
    """Update the ranks of rows that all have the same state."""
    disputed, undisputed = ranks_of(severity)
    rank = Case(When(disputed=None, then=undisputed), default=disputed)
    rows.update(severity=severity, rank=rank)


def fill_details_anew(scenarios: dict[str, Scenario]) -> None:
    """Fill the columns of details from the records where a scenario's details have changed."""
    for scenario in scenarios.values():
        keys = msgspec.json.encode(scenario.detail_keys).decode()
        before = DetailKeys.objects.filter(scenario=scenario.name).first()
        if keys != (before.keys if before else "[]"):
            rows = AssetState.objects.filter(scenario=scenario.name, purged=False)
            for row in rows.only("record").iterator(BATCH):
                columns = detail_columns(scenario, state_value(row.record))
                rows.filter(pk=row.pk).update(**dict(zip(DETAIL_COLUMNS, columns, strict=True)))
            DetailKeys.objects.update_or_create(scenario=scenario.name, defaults={"keys": keys})


def _behind(
    places: dict[tuple[str, int], tuple[int, int]], starts: dict[tuple[str, int], int]
) -> int:
    return sum(max(0, end - starts[place]) for place, (_, end) in places.items())


# ---- batch ---------------------------------------------------------------------------------------
# Sorting the sink messages of a batch. Nothing here touches the database.

MAX_NUMBER = 2**63 - 1
MAX_BUCKET = 60
"""Longest name of a bucket, characters."""
MAX_MESSAGE = 10_000
"""How much of a job's message is kept, characters."""


READ_LETTER = "dashboard.operate.dead_letters.ingestion.read_letter"
"""Returns a record of the dead letters' topic as an unsaved row."""


def sort_out(messages: Iterable[ConsumerRecord], topics: Topics) -> SinkBatch:
    """Read messages of the sink topics and return the batch.

    Unreadable messages are counted and skipped.
    """
    batch = SinkBatch()
    scenarios: dict[str, str | None] = {}
    for message in messages:
        topic = message.topic
        if topic not in scenarios:
            scenarios[topic] = topics.scenario_of(topic)
        try:
            if (scenario := scenarios[topic]) is not None:
                seen = read(message.key, message.value, message.headers)
                batch.states.setdefault((scenario, seen.asset), []).append(seen)
                if seen.shape.answer is not None:
                    batch.answers.append((scenario, seen))
            else:
                _sort_message(batch, message, topics)
        except (UnreadableState, UnreadableJobRecord, UnreadableSinkRecord) as error:
            refuse(batch, message, str(error))
        batch.offsets[topic, message.partition] = message.offset + 1
    return batch


def refuse(batch: SinkBatch, message: ConsumerRecord, reason: str) -> None:
    """Count and log a record of a sink topic that is skipped."""
    batch.counted["unreadable", message.topic] += 1
    log.warning(
        "sink record cannot be read",
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        error=reason[:500],
    )


def _sort_message(batch: SinkBatch, message: ConsumerRecord, topics: Topics) -> None:
    if message.topic == topics.buckets:
        beat = decode_heartbeat(message.value)
        _check(beat, bucket=MAX_BUCKET, scenario=40, executor=200, host=255, engine=20, job=30)
        for each in beat.agents:
            _check(each, agent=255)
        if beat.agents:
            batch.late.append(beat)
        known = batch.beats.get(beat.bucket)
        if known is None or reach(beat) > reach(known):
            batch.beats[beat.bucket] = beat
    elif message.topic == topics.progress:
        progress = decode_progress(message.value)
        _check(progress, query=100, message=MAX_MESSAGE, error=MAX_ERROR, trigger=20)
        if any(len(name) > MAX_BUCKET for name in (*progress.bounds, *progress.asides)):
            raise UnreadableJobRecord(
                f"bounds, asides: expected names of at most {MAX_BUCKET} characters"
            )
        batch.progress.append(progress)
    elif message.topic == topics.dead_letters:
        batch.letters.append(import_string(READ_LETTER)(message, topics))
    elif message.topic == topics.pipelines:
        batch.pipelines.append(decode_pipeline(message.value))
    elif message.topic == topics.results:
        batch.results.append(decode_result(message.value))


def reach(beat: Heartbeat) -> tuple[int, int, int]:
    """Return how far a bucket has come; a later heartbeat compares higher."""
    return (beat.epoch, beat.offset, beat.at)


def _check(record: Heartbeat | LatenessReport | QueryReport, **longest: int) -> None:
    """Raise UnreadableJobRecord for values that no column can hold."""
    for name, value in msgspec.structs.asdict(record).items():
        if isinstance(value, str) and (len(value) > longest.get(name, 255) or "\0" in value):
            raise UnreadableJobRecord(f"{name}: expected at most {longest.get(name)} characters")
        if isinstance(value, int) and not -1 <= value <= MAX_NUMBER:
            raise UnreadableJobRecord(f"{name}: expected a 64 bit number")
