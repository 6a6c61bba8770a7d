"""What a batch of sink messages says, sorted out: nothing here touches the database."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import structlog

from bus.base import Message
from dashboard.metrics import MATERIALISED, UNREADABLE
from domain.records import StateRecord, Tombstone
from wire.job import Heartbeat, Progress, UnreadableJobRecord, decode_heartbeat, decode_progress
from wire.sink import UnreadableState, decode_state
from wire.topics import Topics

log = structlog.get_logger(__name__)

Place = tuple[str, str]
"""A scenario and an asset."""


@dataclass
class Batch:
    """Sink messages by what they are; offsets: the next one of each partition."""

    states: dict[Place, list[StateRecord | Tombstone]] = field(default_factory=dict)
    beats: dict[str, Heartbeat] = field(default_factory=dict)
    progress: list[Progress] = field(default_factory=list)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)


def sort_out(messages: Iterable[Message], topics: Topics) -> Batch:
    """Read messages of the sink topics. What cannot be read is counted and passed over."""
    batch = Batch()
    for message in messages:
        try:
            _take(batch, message, topics)
        except (UnreadableState, UnreadableJobRecord) as error:
            UNREADABLE.labels(message.topic).inc()
            log.warning(
                "sink record cannot be read",
                topic=message.topic,
                partition=message.partition,
                offset=message.offset,
                error=str(error),
            )
        batch.offsets[message.topic, message.partition] = message.offset + 1
        MATERIALISED.labels(message.topic).inc()
    return batch


def _take(batch: Batch, message: Message, topics: Topics) -> None:
    if message.topic == topics.buckets:
        beat = decode_heartbeat(message.value)
        batch.beats[beat.bucket] = beat
    elif message.topic == topics.progress:
        batch.progress.append(decode_progress(message.value))
    elif scenario := topics.scenario_of(message.topic):
        record = decode_state(message.key, message.value, message.headers)
        batch.states.setdefault((scenario, record.asset), []).append(record)
