"""The job's status, as this process has heard of it, or else as the database has it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from django.db.models import Max, QuerySet

from dashboard.core.scenarios import scenarios
from dashboard.core.times import now_ms
from dashboard.job.agent_findings import agent_news
from dashboard.job.freshness import WEB_LATE_MS, Pause, Trouble, find_troubles
from dashboard.job.liveness import Signs, process_signs
from dashboard.job.models import FIGURES, BucketStatus, JobProgress
from wire.job import ClockBehind, Heartbeat, bucket_name

_CLOCKS = msgspec.json.Decoder(dict[str, ClockBehind])


def known_signs() -> Signs:
    """Return what this process has heard of the job, or else what the database has."""
    signs = process_signs()
    if signs.facts().reached is None:
        recall(signs)
    return signs


def job_signs() -> Signs:
    """Return what this process has heard, or else what the database has of the job alone: what
    there is to say of agents takes many queries."""
    signs = process_signs()
    if signs.facts().reached is None:
        _recall_job(signs)
    return signs


def recall(signs: Signs) -> None:
    """Record heartbeats, stops and clocks that the database holds, as the job may be silent since,
    and what there is to say of agents."""
    _recall_job(signs)
    signs.judge_agents(agent_news(now_ms()))


def _recall_job(signs: Signs) -> None:
    for row in BucketStatus.objects.all():
        signs.remember(row.bucket, row.at, row.log_time, row.engine, row.ahead_since, row.epoch)
    for last in last_told():
        by, since = last.stopped_by, last.since
        signs.pause(last.query, Pause(by, since, last.stopped_reason) if by else None)
        signs.judge_clocks(last.query, clocks_of(last))


def stopped() -> list[JobProgress]:
    """Return the job's last report of each query that was stopped on purpose."""
    return list(last_told().exclude(stopped_by="").order_by("query"))


def last_told() -> QuerySet[JobProgress]:
    """Return the job's last report of each query."""
    newest = JobProgress.objects.values("query").annotate(last=Max("id"))
    return JobProgress.objects.filter(pk__in=newest.values("last"))


def clocks_of(told: JobProgress) -> dict[str, ClockBehind]:
    """Return by bucket where a report found the broker's clock behind the job's own."""
    return _CLOCKS.decode(told.clocks_behind) if told.clocks_behind else {}


def clocks_behind() -> dict[str, ClockBehind]:
    """Return by bucket where the broker's clock is behind the job's own, as the database has it.

    A query's report counts for the buckets that it carries now.
    """
    engines = dict(BucketStatus.objects.values_list("bucket", "engine"))
    return {
        bucket: clock
        for told in last_told()
        for bucket, clock in clocks_of(told).items()
        if engines.get(bucket) == told.query
    }


def troubles(now: int, current: str = "") -> list[Trouble]:
    """Return every trouble at `now` (Unix ms); those of the scenario `current` first."""
    return find_troubles(known_signs().facts(), list(scenarios().values()), current, now)


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
