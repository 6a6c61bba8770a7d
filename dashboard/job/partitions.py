"""Each source partition: what its log holds, and what its bucket has reached of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bus.base import BusError, TopicPartition
from dashboard.commands.gateway import gateway
from dashboard.job.models import BucketStatus
from dashboard.scenarios import scenarios
from wire.job import bucket_name

ASK_S = 3.0
"""How long the broker may take to say what its partitions hold."""

FIGURES = (
    "epoch",
    "engine",
    "executor",
    "host",
    "offset",
    "log_time",
    "assets",
    "dues",
    "records",
    "dead_letters",
    "stale",
)
"""What a heartbeat tells, under the names that it has there."""


@dataclass(frozen=True, slots=True)
class Edges:
    """First and next offset by partition; fault: why the broker did not say, in words."""

    found: dict[TopicPartition, tuple[int, int]]
    fault: str = ""


def edges(topics: Iterable[str]) -> Edges:
    """What the broker says of these topics."""
    try:
        return Edges(gateway().bus.offsets(topics, timeout_s=ASK_S))
    except BusError as error:
        return Edges({}, f"Kafka does not answer: {error}")


def partitions(now: int) -> tuple[Edges, list[dict[str, object]]]:
    """Every partition of every scenario's source topic at `now` (Unix ms), as the API gives it."""
    names = gateway().topics
    told = edges([names.reports(name) for name in scenarios()])
    beats = BucketStatus.objects.in_bulk(field_name="bucket")
    rows = []
    for scenario in scenarios().values():
        topic = names.reports(scenario.name)
        for at in range(scenario.partitions):
            beat = beats.get(bucket_name(scenario.name, at))
            place = {"scenario": scenario.name, "topic": topic, "partition": at}
            rows.append({**place, **_reach(told.found.get((topic, at)), beat, now)})
    return told, rows


def _reach(edge: tuple[int, int] | None, beat: BucketStatus | None, now: int) -> dict[str, object]:
    begin, end = edge or (None, None)
    figures = {name: getattr(beat, name) if beat else None for name in FIGURES}
    return {
        "begin": begin,
        "end": end,
        **figures,
        "lag": max(0, end - beat.offset - 1) if beat and end is not None else None,
        "lag_s": max(0, now - beat.log_time) / 1000 if beat else None,
        "heard_at": beat.received_at if beat else None,
    }
