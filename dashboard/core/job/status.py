"""The job's status, its clock, and the restarts of its queries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from django.db.models import Max, QuerySet

from dashboard.core.common.metrics import JOB_RESTARTS, JOB_STATUS, MetricFamily
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.core.job.agent_findings import agent_news
from dashboard.core.job.freshness import (
    SILENT_MS,
    WEB_LATE_MS,
    Beat,
    BoardProblem,
    Pause,
    find_problems,
    silence,
)
from dashboard.core.job.liveness import Signs, process_signs
from dashboard.core.job.models import FIGURES, KEPT_MS, BucketStatus, JobProgress
from domain.scenario import Scenario
from wire.job import ClockBehind, Heartbeat, bucket_name, engine_of, job_of

# ---- restarts ------------------------------------------------------------------------------------
# A query's restarts, counted from what it reported: a process that is killed counts none itself.
#
# Times in Unix ms.

ENDED = ("stopped", "failed")
"""What a process reports last that ends by itself."""
FAILING = ("restarting", "waiting", "failed")
KILLED = "its process ended without a word (killed?)"
LISTED = 20


class Restart(NamedTuple):
    """A restart: when it was reported, what the query said of itself, why, and the whole error."""

    key: int
    at: int
    status: str
    why: str
    error: str


class Restarts(NamedTuple):
    """The restarts that are kept: how many, and the newest."""

    n: int
    newest: list[Restart]


def restarts(query: str, now: int) -> Restarts:
    """Return a query's restarts of the last 30 days, the newest first.

    A process that starts without its predecessor having ended in order is one, too; a start that is
    reported again, with something else that became known, is not.
    """
    reports = JobProgress.objects.filter(query=query, batch="", at__gte=now - KEPT_MS)
    rows = reports.order_by("id").values_list("id", "at", "status", "since", "message", named=True)
    made: list[Restart] = []
    before = ("", 0)
    for row in rows.iterator():
        reported = (row.status, row.since)
        if row.status in FAILING:
            made.append(Restart(row.id, row.at, row.status, row.message, ""))
        elif row.status == "starting" and before[0] not in ("", *ENDED) and reported != before:
            made.append(Restart(row.id, row.at, "restarted", KILLED, ""))
        before = reported
    newest = made[: -LISTED - 1 : -1]
    errors = dict(
        JobProgress.objects.filter(pk__in=[each.key for each in newest]).values_list("id", "error")
    )
    return Restarts(len(made), [each._replace(error=errors[each.key]) for each in newest])


# ---- job -----------------------------------------------------------------------------------------
# The job's status, as this process has heard of it, or else as the database has it.

_CLOCKS = msgspec.json.Decoder(dict[str, ClockBehind])


def known_signs() -> Signs:
    """Return the signs of life that this process has received, else those in the database."""
    signs = process_signs()
    if signs.facts().reached is None:
        recall(signs)
    return signs


def job_signs() -> Signs:
    """Return the same without findings about agents, which take many queries."""
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
        signs.remember(row.bucket, row.at, row.log_time, row.query, row.ahead_since, row.epoch)
    for last in last_reports():
        by, since = last.stopped_by, last.since
        signs.pause(last.query, Pause(by, since, last.stopped_reason) if by else None)
        signs.judge_clocks(last.query, clocks_of(last))
        signs.wait(last.query, last.status, last.message, last.since, last.replaced.split())


def stopped() -> list[JobProgress]:
    """Return the job's last report of each query that was stopped on purpose."""
    return list(last_reports().exclude(stopped_by="").order_by("query"))


def last_reports() -> QuerySet[JobProgress]:
    """Return the job's last report of each query."""
    newest = JobProgress.objects.values("query").annotate(last=Max("id"))
    return JobProgress.objects.filter(pk__in=newest.values("last"))


def clocks_of(report: JobProgress) -> dict[str, ClockBehind]:
    """Return by bucket by how much a report found the broker's clock behind the job's."""
    return _CLOCKS.decode(report.clocks_behind) if report.clocks_behind else {}


def clocks_behind() -> dict[str, ClockBehind]:
    """Return by bucket where the broker's clock is behind the job's own, as the database has it.

    A query's report counts for the buckets that it carries now.
    """
    queries = {row.bucket: row.query for row in BucketStatus.objects.all()}
    return {
        bucket: clock
        for report in last_reports()
        for bucket, clock in clocks_of(report).items()
        if queries.get(bucket) == report.query
    }


def problems(now: int, current: str = "") -> list[BoardProblem]:
    """Return every problem at `now` (Unix ms); those of the scenario `current` first."""
    return find_problems(known_signs().facts(), list(scenarios().values()), current, now)


def unwatched_since(scenario: Scenario, now: int) -> int | None:
    """Return since when no agent has reported on a scenario, where that is unusual; else None."""
    seen = silence(known_signs().facts(), scenario, now)
    return None if seen is None else seen.at


Beats = Mapping[str, tuple[int, Heartbeat]]
"""By bucket: when its newest heartbeat was received, and what it says."""


def newest_beats(now: int) -> Beats:
    """Return the newest heartbeats: as this process hears them, else as the database has them."""
    with process_signs().paces() as paces:
        received = dict(paces.newest)
    reached = process_signs().facts().reached
    if reached is not None and now - reached <= WEB_LATE_MS and received.keys() >= _all_buckets():
        return received
    return received | {row.bucket: _of_row(row) for row in BucketStatus.objects.all()}


def _all_buckets() -> set[str]:
    return {
        bucket_name(scenario.name, at)
        for scenario in scenarios().values()
        for at in range(scenario.partitions)
    }


def _of_row(row: BucketStatus) -> tuple[int, Heartbeat]:
    return row.received_at, Heartbeat(**{name: getattr(row, name) for name in FIGURES})


# ---- job clock -----------------------------------------------------------------------------------
# The job's last sign of life, and the progress of a bucket's clock. Times in Unix ms.

BEHIND_MS = 3_000
"""A bucket's clock that is less behind than this is not worth a word."""


@dataclass(frozen=True, slots=True)
class LogTime:
    """A bucket's clock. at: the log time reached; behind: how far behind now it runs, ms.

    silent: the job is not heard of, so this clock stands still.
    """

    at: int
    behind: int
    silent: bool

    @property
    def late(self) -> bool:
        """Return whether the clock is so far behind that pages say so."""
        return self.behind > BEHIND_MS

    def shows(self, due: int) -> int:
        """Return when what is due at `due` in log time may be seen, if the clock goes on at its
        pace."""
        return due + self.behind if self.late else due


def job_is_silent(scenario: str, now: int) -> bool:
    """Return whether the job that carries a scenario has stopped sending heartbeats."""
    beats = _beats(scenario)
    return bool(beats) and _silent(beats, now)


def log_time(scenario: str, partition: int, now: int) -> LogTime | None:
    """Return the clock of one bucket as of its newest heartbeat, or None before the first."""
    beats = _beats(scenario)
    beat = beats.get(bucket_name(scenario, partition))
    if beat is None:
        return None
    return LogTime(beat.log_time, max(0, beat.received_at - beat.log_time), _silent(beats, now))


def _silent(beats: Mapping[str, Beat], now: int) -> bool:
    return now - max(beat.received_at for beat in beats.values()) > SILENT_MS


def _beats(scenario: str) -> Mapping[str, Beat]:
    """Return the newest heartbeats of the job that carries a scenario, as far as this process, or
    else the database, knows of them."""
    facts = job_signs().facts()
    return facts.of_job(facts.carrier(scenario)).beats


# ---- queries -------------------------------------------------------------------------------------
# The state of the job's queries, as last reported.


def query_reports() -> list[dict[str, Any]]:
    """Return each query that has reported anything, by name, as the API gives it.

    A query is one engine's of one job.
    """
    names = JobProgress.objects.order_by("query").values_list("query", flat=True).distinct()
    return [_query(name) for name in names]


def _query(name: str) -> dict[str, Any]:
    reports = JobProgress.objects.filter(query=name).order_by("-id")
    last = reports[0]
    words = reports.filter(batch="").first()
    batch = reports.exclude(batch="").first()
    newest = BucketStatus.objects.carried_by(name).order_by("-received_at", "-pk").first()
    return {
        "query": name,
        "job": job_of(name),
        "engine": engine_of(name),
        "status": last.status,
        "epoch": last.epoch,
        "since": last.since or _since(reports, last),
        "reported_at": last.at,
        "heartbeat_at": newest.received_at if newest else None,
        "restarts": restarts(name, now_ms()).n,
        "message": words.message if words and words.status == last.status else "",
        "batch": {"reported_at": batch.at, **json.loads(batch.batch)} if batch else None,
    }


def _since(reports: QuerySet[JobProgress], last: JobProgress) -> int:
    """Return when the status began, as far back as records are kept (Unix ms)."""
    before = reports.exclude(status=last.status).first()
    same = reports.filter(id__gt=before.pk) if before else reports
    first = same.last()
    return first.at if first else last.at


def metrics() -> Iterator[MetricFamily]:
    """Yield the status of each query, and how often it began again."""
    reported = query_reports()
    yield JOB_STATUS.family(((query["query"], query["status"]), 1) for query in reported)
    yield JOB_RESTARTS.family(((query["query"],), query["restarts"]) for query in reported)
