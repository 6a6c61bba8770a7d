"""Heartbeats of buckets, as the job sends them and as the database has them."""

from __future__ import annotations

from typing import Any

from dashboard.core.common.scenarios import topics
from dashboard.core.job.models import FIGURES, BucketStatus
from support.web.world import World
from wire.job import Heartbeat, bucket_name, encode


def heartbeat(at: int, scenario: str = "attack", partition: int = 0, /, **fields: Any) -> Heartbeat:
    """Return a heartbeat that is sent at `at`, Unix ms, where the bucket's log is read up to then.

    fields: what else it says.
    """
    plain: dict[str, Any] = {
        "bucket": bucket_name(scenario, partition), "scenario": scenario, "partition": partition,
        "epoch": 1, "executor": "driver", "host": "here", "log_time": at, "offset": 7, "assets": 1,
        "timers": 0, "records": 0, "dead_letters": 0, "stale": 0, "engine": "kernel", "at": at,
    }  # fmt: skip
    return Heartbeat(**plain | fields)


def store(beat: Heartbeat, **columns: Any) -> BucketStatus:
    """Have the database know of a heartbeat, by default as soon as it was sent."""
    row = {name: getattr(beat, name) for name in FIGURES} | {"received_at": beat.at} | columns
    return BucketStatus.objects.update_or_create(bucket=beat.bucket, defaults=row)[0]


def materialise(world: World, *beats: Heartbeat) -> None:
    """Send heartbeats into the topic, and from there into the database."""
    for each in beats:
        world.job.producer.send_and_wait(topics().buckets, each.bucket.encode(), encode(each))
    world.materialise()
