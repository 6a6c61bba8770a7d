"""The append times of the first records that would be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from time import monotonic

from bus.base import Bus, BusError, TopicPartition
from dashboard.replays.plan import Bucket, Plan
from wire.topics import Topics

# So long the broker may take for all of them; what is not known by then is shown as that.
PATIENCE_S = 2.0


def with_moments(plan: Plan, bus: Bus, topics: Topics) -> Plan:
    """Return the plan with the time of each bucket's first record, where Kafka answers in time."""
    open_ones = [b for b in plan.buckets if b.since is None and b.records]
    places = {_place(bucket, topics): bucket.first for bucket in open_ones}
    try:
        times = moments(bus, places)
    except BusError:
        times = {}
    buckets = [
        replace(bucket, since=bucket.since or times.get(_place(bucket, topics)))
        for bucket in plan.buckets
    ]
    return replace(plan, buckets=buckets)


def _place(bucket: Bucket, topics: Topics) -> TopicPartition:
    return topics.reports(bucket.scenario), bucket.partition


def moments(bus: Bus, places: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the append time of the record at each offset, or of the first behind it.

    Raises BusError.
    """
    if not places:
        return {}
    times: dict[TopicPartition, int] = {}
    give_up = monotonic() + PATIENCE_S
    reader = bus.reader(places)
    try:
        while len(times) < len(places) and monotonic() < give_up:
            for message in reader.poll(0.2, 100):
                times.setdefault((message.topic, message.partition), message.timestamp)
            left = {place: places[place] for place in places if place not in times}
            if times and left and set(reader.positions()) != set(left):
                reader.assign(left)
    finally:
        reader.close()
    return times
