"""When the first records that would be read were appended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from time import monotonic

from bus.base import Bus, BusError, TopicPartition
from dashboard.replays.plan import Bucket, Plan
from wire.topics import Topics

PATIENCE_S = 2.0
"""So long the broker may take for all of them; what is not known by then is shown as that."""


def with_moments(plan: Plan, bus: Bus, topics: Topics) -> Plan:
    """The plan with the time of each bucket's first record, as far as Kafka tells it in time."""
    open_ones = [b for b in plan.buckets if b.since is None and b.records]
    places = {_place(bucket, topics): bucket.first for bucket in open_ones}
    try:
        found = moments(bus, places)
    except BusError:
        found = {}
    told = [
        replace(bucket, since=bucket.since or found.get(_place(bucket, topics)))
        for bucket in plan.buckets
    ]
    return replace(plan, buckets=told)


def _place(bucket: Bucket, topics: Topics) -> TopicPartition:
    return topics.reports(bucket.scenario), bucket.partition


def moments(bus: Bus, places: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The append time of the record at each offset, or of the first behind it. Raises BusError."""
    if not places:
        return {}
    found: dict[TopicPartition, int] = {}
    give_up = monotonic() + PATIENCE_S
    reader = bus.reader(places)
    try:
        while len(found) < len(places) and monotonic() < give_up:
            for message in reader.poll(0.2, 100):
                found.setdefault((message.topic, message.partition), message.timestamp)
            left = {place: places[place] for place in places if place not in found}
            if found and left and set(reader.positions()) != set(left):
                reader.assign(left)
    finally:
        reader.close()
    return found
