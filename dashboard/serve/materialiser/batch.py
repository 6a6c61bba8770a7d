"""The content of a batch of sink messages, sorted out: nothing here touches the database."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import structlog
from django.utils.module_loading import import_string

from bus.base import ConsumerRecord
from dashboard.core.states.ingestion import SinkBatch, UnreadableSinkRecord
from dashboard.core.states.rows import read
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
from wire.sink import UnreadableState
from wire.topics import Topics

log = structlog.get_logger(__name__)

MAX_NUMBER = 2**63 - 1
MAX_BUCKET = 60
"""Longest name of a bucket, characters."""
MAX_MESSAGE = 10_000
"""How much of a message of the job is kept, characters."""


READ_LETTER = "dashboard.operate.dead_letters.ingestion.read_letter"
"""Returns a record of the dead letters' topic as an unsaved row."""


def sort_out(messages: Iterable[ConsumerRecord], topics: Topics) -> SinkBatch:
    """Read messages of the sink topics and return the batch.

    What cannot be read is counted and passed over.
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
    """Count and log a record of a sink topic that is passed over."""
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
        _check(beat, bucket=MAX_BUCKET, scenario=40, executor=200, host=255, engine=20)
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
    """Return how far a bucket has come: a later heartbeat has a higher one."""
    return (beat.epoch, beat.offset, beat.at)


def _check(record: Heartbeat | LatenessReport | QueryReport, **longest: int) -> None:
    """Raise UnreadableJobRecord for what no column takes."""
    for name, value in msgspec.structs.asdict(record).items():
        if isinstance(value, str) and (len(value) > longest.get(name, 255) or "\0" in value):
            raise UnreadableJobRecord(f"{name}: expected at most {longest.get(name)} characters")
        if isinstance(value, int) and not -1 <= value <= MAX_NUMBER:
            raise UnreadableJobRecord(f"{name}: expected a 64 bit number")
