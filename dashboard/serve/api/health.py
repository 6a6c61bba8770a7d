"""Health checks, and the metrics collected at each scrape."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.db.models import Max
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.module_loading import import_string
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from django_celery_results.models import TaskResult
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Metric, generate_latest
from prometheus_client.registry import Collector

from bus.base import AccessRefused, BusError, TopicPartition
from dashboard.core.api.problems import Problem
from dashboard.core.api.router import user_of
from dashboard.core.common import metrics as common_metrics
from dashboard.core.common.kafka import Gateway, gateway
from dashboard.core.common.scenarios import jobs, scenarios, topics
from dashboard.core.common.times import now_ms
from dashboard.core.job.liveness import process_signs
from dashboard.core.job.models import BucketStatus, JobProgress
from dashboard.core.job.status import clocks_behind, last_reports, stopped
from dashboard.core.states.models import (
    Divergence,
    FoldSnapshot,
    event_counts,
    from_zero,
)
from dashboard.core.states.queries import doubt_counts, sink_offsets
from domain.scenario import Scenario
from wire.job import AHEAD_MS, ClockBehind, bucket_name
from wire.signature import FAULTS

log = logging.getLogger(__name__)

FRESH_MS = 10_000
"""A bucket whose log time is older than this is not alive."""

CATCH_UP_S = 2.0
"""How long the materialiser may take to reach the end that the log had when it was queried."""

GOING = ("running", "catching-up")
"""Statuses of a query that is tallying; with any other the process is not ready."""

COPIES = (
    "dashboard.operate.console.topic_copies.missing_views",
    "dashboard.core.states.stores.missing_copies",
)
"""Functions of the packages; each returns the copies that have not caught up, in words."""

POLL_S = 0.1
ASK_S = 3.0


@login_not_required
@require_safe
@never_cache
def healthz(_request: HttpRequest) -> HttpResponse:
    """Return 200, to show that this process answers."""
    return HttpResponse("ok\n", content_type="text/plain")


@login_not_required
@require_safe
@never_cache
def readyz(_request: HttpRequest) -> JsonResponse:
    """Return 200, or 503 with what is missing; `resting` if all of it is stopped on purpose."""
    missing, resting = _missing()
    body = {"ready": not missing, "missing": missing, "resting": resting}
    return JsonResponse(body, status=503 if missing else 200)


def _missing() -> tuple[list[str], dict[str, int]]:
    """Return what is missing, in words.

    Kafka's refusal of this process comes first, as a possible cause. Also returns what rests, if
    there is no other reason.
    """
    refusal = process_signs().facts().refusal
    missing, resting = _missing_states()
    if refusal is None:
        return missing, resting
    cause = f"kafka: {refusal.why}"
    return [cause, *(each for each in missing if each != cause)], {}


def _missing_states() -> tuple[list[str], dict[str, int]]:
    """Return, in words, what keeps the board from showing what the job tallies, if anything.

    Also returns the queries that were stopped on purpose and when the job last reported that (Unix
    ms), if there is no other reason.
    """
    try:
        connection.ensure_connection()
        known = list(scenarios().values())
        buckets, failed = missing_buckets(known, now_ms()), missing_queries(known)
        if failed:
            return [*failed, *buckets.values()], {}
        stops = {progress.query: progress.at for progress in stopped()}
        if not buckets and not stops:
            return [*missing_changes(known, gateway()), *missing_copies()], {}
        words = [f"query {name}: was stopped, see the job's page" for name in stops]
        words += buckets.values()
        if not stops or not buckets.keys() <= _carried_by(stops, buckets):
            return words, {}
        behind = [*missing_changes(known, gateway()), *missing_copies()]
        return words + behind, {} if behind else stops
    except DatabaseError:
        log.exception("readiness: the database does not answer")
        return ["database: does not answer"], {}


def _carried_by(queries: Collection[str], buckets: Collection[str]) -> set[str]:
    """Return the buckets that these queries carry; all of `buckets` if there are no others."""
    if not JobProgress.objects.exclude(query__in=queries).exists():
        return set(buckets)
    statuses = BucketStatus.objects.carried_by(*queries)
    return set(statuses.values_list("bucket", flat=True))


def missing_queries(known: Iterable[Scenario]) -> list[str]:
    """Return, in words, the queries that tally nothing though nobody stopped them, and why.

    Queries that no longer carry any of these scenarios are left out.
    """
    names = [scenario.name for scenario in known]
    carrying = {row.query for row in BucketStatus.objects.filter(scenario__in=names)}
    return [
        f"query {progress.query}: {progress.status}{_cause(progress)}"
        for progress in last_reports()
        if progress.status not in GOING and not progress.stopped_by and progress.query in carrying
    ]


_CAUSE = re.compile(r"in [\d.]+ s: (\w+:?(?: \[\w+])?)|([^(]+)")
"""The kind of error from a restarting query's message, else the text before any details: this page
is public, and an error's text may contain names from the log.
"""


def _cause(progress: JobProgress) -> str:
    match = _CAUSE.match(progress.message)
    return f": {(match[1] or match[2]).strip(' :')[:200]}" if match else ""


def missing_buckets(known: Iterable[Scenario], now: int) -> dict[str, str]:
    """Return the buckets whose heartbeats lag, and why, in words. now: Unix ms.

    These are the buckets without a heartbeat whose log time is within 10 s of `now`. Also included
    are buckets whose clock is ahead of the job's own, and those whose broker's clock is behind it:
    until that has passed, no time passes in the bucket.
    """
    statuses = BucketStatus.objects.values_list("bucket", "log_time", "at")
    seen = {name: (log_time, at) for name, log_time, at in statuses}
    names = [bucket_name(s.name, at) for s in known for at in range(s.partitions)]
    slow = clocks_behind()
    faults = {name: _fault(seen.get(name), slow.get(name), now) for name in names}
    return {
        name: f"bucket {name}{_whose(name)}: {fault}" for name, fault in faults.items() if fault
    }


def _whose(bucket: str) -> str:
    """Return which named job is to carry a bucket, in brackets."""
    job = jobs().get(bucket.partition("/")[0])
    return f" (job {job})" if job else ""


def _fault(seen: tuple[int, int] | None, broker: ClockBehind | None, now: int) -> str:
    """Return what is wrong with a bucket, in words, or "".

    seen: the log time and the job's own time in its newest heartbeat; broker: its clock, if that is
    behind.
    """
    if seen is None:
        return "the job has not reported yet"
    log_time, at = seen
    if log_time - at > AHEAD_MS:
        return f"its clock is {(log_time - at) // 1000} s ahead"
    if broker is not None:
        return f"the broker's clock is {round(broker.by / 1000)} s behind"
    return f"{(now - log_time) // 1000} s behind" if now - log_time > FRESH_MS else ""


def missing_copies() -> list[str]:
    """Return this process's copies that are not yet complete, in words."""
    return [words for name in COPIES for words in import_string(name)()]


def missing_changes(known: Iterable[Scenario], to: Gateway) -> list[str]:
    """Return the partitions of states whose current end the database does not reach in time."""
    try:
        edges = to.bus.offsets([to.topics.states(s.name) for s in known], timeout_s=ASK_S)
    except BusError as error:
        log.warning("readiness: %s", error)
        return [f"kafka: {error}" if isinstance(error, AccessRefused) else "kafka: does not answer"]
    goals = {place: end for place, (begin, end) in edges.items() if end > begin}
    until = time.monotonic() + CATCH_UP_S
    while (behind := _behind(goals)) and time.monotonic() < until:
        time.sleep(POLL_S)
    return behind


def _behind(goals: Mapping[TopicPartition, int]) -> list[str]:
    reached = sink_offsets()
    return [
        f"materialiser: {topic}/{at} at {reached.get((topic, at), 0)} of {goal}"
        for (topic, at), goal in sorted(goals.items())
        if reached.get((topic, at), 0) < goal
    ]


# ---- metrics -------------------------------------------------------------------------------------
# `/metrics`: this process's counts, and what the database and the broker report about everything.

COLLECTORS = (
    "dashboard.operate.console.partitions.bucket_metrics",
    "dashboard.core.job.status.metrics",
    "dashboard.core.job.pipelines.metrics",
    "dashboard.operate.console.partitions.sink_metrics",
    "dashboard.serve.api.health.materialiser",
    "dashboard.watch.agents.reports.metrics",
    "dashboard.core.rules.ingestion.metrics",
    "dashboard.serve.api.health.worker",
    "dashboard.serve.api.health.states",
    "dashboard.operate.dead_letters.queries.metrics",
    "dashboard.notify.notifications.outbox.metrics",
    "dashboard.operate.console.topic_copies.metrics",
    "dashboard.core.common.kafka.metrics",
    "dashboard.board.live.consumer.metrics",
)
"""Functions of the packages; each yields the metrics collected at a scrape."""

RUNS = 1_000
# How many of the newest runs of the worker's tasks are counted.


@login_not_required
@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Return all metrics, to a token with the scope `metrics` or a logged-in user only."""
    try:
        user_of(request, "metrics")
    except Problem as problem:
        return problem.response()
    return HttpResponse(generate_latest(ScrapeCollector()), content_type=CONTENT_TYPE_LATEST)


Collect = Callable[[], Iterable[Metric]]


class ScrapeCollector(Collector):
    """The metrics for a scrape of one web process."""

    def collect(self) -> Iterator[Metric]:
        """Yield this process's own metrics, then those of the whole system."""
        yield from REGISTRY.collect()
        for each in COLLECTORS:
            collect: Collect = import_string(each)
            yield from collect()


def states() -> Iterator[Metric]:
    """Yield the divergences and the numbers of assets in doubt."""
    yield common_metrics.DIVERGED.family([((), Divergence.objects.count())])
    yield common_metrics.DOUBTED.family(
        ((scenario, doubt), n)
        for scenario in scenarios()
        for doubt, n in doubt_counts(scenario).items()
    )


# The materialiser's counters: for each name in the database the metric, and the count that makes
# one unit.
_COUNTED = {
    "records": (common_metrics.MATERIALISED, 1),
    "unreadable": (common_metrics.PASSED_OVER, 1),
    "out of time": (common_metrics.OUT_OF_TIME, 1),
    "gaps": (common_metrics.GAPS, 1),
    "lower-epoch": (common_metrics.LOWER_EPOCH, 1),
    "faults": (common_metrics.MATERIALISER_FAULTS, 1),
    "batches": (common_metrics.BATCHES, 1),
    "batch-us": (common_metrics.BATCH_SECONDS, 1_000_000),
}


def materialiser() -> Iterator[Metric]:
    """Yield the materialiser's counters.

    Counters that alarms watch start at 0, so that the first event is an increase too.
    """
    known, kept = list(scenarios().values()), event_counts()
    states = [topics().states(scenario.name) for scenario in known]
    begun = {"lower-epoch": [s.name for s in known], "gaps": states, "unreadable": states}
    for name, (metric, unit) in _COUNTED.items():
        counts = from_zero(kept, name, begun.get(name, ()))
        yield metric.family(((topic,) if metric.labels else (), n / unit) for topic, n in counts)
    reports = [topics().reports(scenario.name) for scenario in known]
    yield common_metrics.REFUSED_COMMANDS.family(
        ((topic, reason), n) for reason in FAULTS for topic, n in from_zero(kept, reason, reports)
    )


def worker() -> Iterator[Metric]:
    """Yield metrics from the task results that Celery keeps for a day, and from their output."""
    runs: dict[tuple[str, str], TaskResult] = {}
    results = TaskResult.objects.filter(task_name__isnull=False).order_by("-date_done", "-pk")
    for run in results.only("task_name", "status", "date_started", "date_done")[:RUNS]:
        runs.setdefault((run.task_name.rpartition(".")[2], run.status.lower()), run)
    yield common_metrics.TASK_TIME.family(
        (at, run.date_done.timestamp()) for at, run in runs.items()
    )
    took = {
        task: (run.date_done - run.date_started).total_seconds()
        for (task, status), run in runs.items()
        if status == "success" and run.date_started
    }
    yield common_metrics.TASK_SECONDS.family(((task,), seconds) for task, seconds in took.items())
    newest = FoldSnapshot.objects.values_list("scenario", "partition").annotate(Max("taken_at"))
    yield common_metrics.SNAPSHOT_TIME.family(
        ((scenario, str(partition)), at / 1000) for scenario, partition, at in newest.order_by()
    )
