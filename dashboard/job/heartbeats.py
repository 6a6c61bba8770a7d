"""The newest heartbeat of each bucket. Times in Unix ms."""

from __future__ import annotations

from collections.abc import Mapping

from dashboard.core.scenarios import scenarios
from dashboard.job.freshness import WEB_LATE_MS
from dashboard.job.liveness import process_signs
from dashboard.job.models import FIGURES, BucketStatus
from wire.job import Heartbeat, bucket_name

Beats = Mapping[str, tuple[int, Heartbeat]]
"""By bucket: when its newest heartbeat was heard, and what it told."""


def newest_beats(now: int) -> Beats:
    """Return the newest heartbeats: as this process hears them, else as the database has them."""
    with process_signs().paces() as paces:
        heard = dict(paces.newest)
    reached = process_signs().facts().reached
    if reached is not None and now - reached <= WEB_LATE_MS and heard.keys() >= _all_buckets():
        return heard
    return heard | {row.bucket: _of_row(row) for row in BucketStatus.objects.all()}


def _all_buckets() -> set[str]:
    return {
        bucket_name(scenario.name, at)
        for scenario in scenarios().values()
        for at in range(scenario.partitions)
    }


def _of_row(row: BucketStatus) -> tuple[int, Heartbeat]:
    return row.received_at, Heartbeat(**{name: getattr(row, name) for name in FIGURES})
