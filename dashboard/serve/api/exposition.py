"""`/metrics`: this process's counts, and what the database and the broker report of the whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.db.models import Count, Max, Min
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from django_celery_results.models import TaskResult
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Metric, generate_latest
from prometheus_client.registry import Collector

from dashboard.core.api.problems import Problem
from dashboard.core.api.router import user_of
from dashboard.core.api.schemas import query_reports
from dashboard.core.common import kafka
from dashboard.core.common import metrics as common_metrics
from dashboard.core.common.kafka import gateway
from dashboard.core.common.scenarios import scenarios, topics
from dashboard.core.common.times import now_ms
from dashboard.core.job.pipelines import pipelines
from dashboard.core.job.status import clocks_behind
from dashboard.core.states.models import Divergence, EventCount, FoldSnapshot
from dashboard.core.states.queries import doubt_counts, sink_offsets
from dashboard.notify.notifications.decisions import DECIDED
from dashboard.notify.notifications.delivery import DELIVERED
from dashboard.notify.notifications.models import Message
from dashboard.operate.console.partitions import PartitionEdges, edges, partitions
from dashboard.operate.console.topic_copies import copies
from dashboard.operate.dead_letters.models import DeadLetter
from dashboard.retail.ingestion import OUT_OF_TIME
from dashboard.watch.agents.reports import KINDS
from wire.job import bucket_name
from wire.signature import FAULTS

RUNS = 1_000
# So many newest runs of the worker's tasks are counted.


@login_not_required
@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Return every metric, for a token with the scope `metrics` or a login; to nobody else."""
    try:
        user_of(request, "metrics")
    except Problem as problem:
        return problem.response()
    return HttpResponse(generate_latest(ScrapeCollector()), content_type=CONTENT_TYPE_LATEST)


class ScrapeCollector(Collector):
    """The metrics that a scrape of one web process shows."""

    def collect(self) -> Iterator[Metric]:
        """Yield this process's own counters, then the metrics of the whole."""
        from dashboard.board.live.consumer import (
            BoardConsumer,  # loads sockets: no command needs it
        )

        yield from REGISTRY.collect()
        ends, rows = partitions(now_ms())
        yield common_metrics.BROKER_UP.family([((), 0 if ends.fault else 1)])
        yield from _buckets(rows)
        yield from _job()
        yield from _pipelines()
        yield common_metrics.SINK_LAG.family(_sink_lag(ends))
        yield from _materialiser()
        yield from _worker()
        yield common_metrics.DIVERGED.family([((), Divergence.objects.count())])
        yield common_metrics.DOUBTED.family(_doubted())
        yield common_metrics.DEAD_LETTERS.family(_letters())
        yield from _notifications()
        yield from _views()
        yield common_metrics.APP_LOGS.family(kafka.app_log_outcomes())
        yield common_metrics.SOCKETS.family([((), BoardConsumer.open_sockets)])


def _doubted() -> Iterable[tuple[tuple[str, ...], float]]:
    for scenario in scenarios():
        for doubt, n in doubt_counts(scenario).items():
            yield (scenario, doubt), n


def _views() -> Iterator[Metric]:
    """Yield how this process's copies of views fare."""
    states = {name: table.state() for name, table in copies().items()}
    yield common_metrics.VIEW_STATUS.family(
        ((name, state.status), 1) for name, state in states.items()
    )
    yield common_metrics.VIEW_ROWS.family(
        ((name,), state.records) for name, state in states.items()
    )
    yield common_metrics.VIEW_BYTES.family(((name,), state.size) for name, state in states.items())
    yield common_metrics.VIEW_LAG.family(((name,), state.lag) for name, state in states.items())
    yield common_metrics.VIEW_RESTARTS.family(
        ((name,), state.restarts) for name, state in states.items()
    )
    yield common_metrics.VIEW_REFUSED.family(
        ((name, reason), n) for name, state in states.items() for reason, n in state.refused.items()
    )


def _letters() -> Iterable[tuple[tuple[str, ...], float]]:
    counts = DeadLetter.objects.values_list("fate", "reason").annotate(n=Count("id"))
    return [((fate, reason), n) for fate, reason, n in counts.order_by("fate", "reason")]


def _notifications() -> Iterator[Metric]:
    """Yield what rules decided, and what became of messages."""
    for name, metric in (
        (DECIDED, common_metrics.NOTIFICATION_DECISIONS),
        (DELIVERED, common_metrics.MESSAGE_OUTCOMES),
    ):
        counted = EventCount.objects.filter(name=name).values_list("topic", "n").order_by("topic")
        yield metric.family(((topic,), n) for topic, n in counted)
    stored = Message.objects.values_list("means", "status").annotate(n=Count("pk"))
    yield common_metrics.MESSAGES.family(
        ((means, status), n) for means, status, n in stored.order_by("means", "status")
    )
    oldest = Message.objects.open().aggregate(at=Min("created_at"))["at"]
    waited = 0 if oldest is None else max(0, now_ms() - oldest) / 1000
    yield common_metrics.MESSAGES_OLDEST.family([((), waited)])


_OF_A_BUCKET = {
    "offset": common_metrics.BUCKET_OFFSET,
    "lag": common_metrics.BUCKET_LAG,
    "lag_s": common_metrics.BUCKET_LAG_SECONDS,
    "ahead_s": common_metrics.BUCKET_AHEAD_SECONDS,
    "assets": common_metrics.BUCKET_ASSETS,
    "dues": common_metrics.BUCKET_TIMERS,
}


def _buckets(rows: list[dict[str, Any]]) -> Iterator[Metric]:
    for key, metric in _OF_A_BUCKET.items():
        yield metric.family((_labels(row), row[key]) for row in rows if row[key] is not None)
    times = [(_labels(row), row["log_time"] / 1000) for row in rows if row["log_time"] is not None]
    yield common_metrics.BUCKET_LOG_TIME.family(times)
    yield common_metrics.BROKER_BEHIND_SECONDS.family(_slow_brokers(rows))


def _slow_brokers(rows: list[dict[str, Any]]) -> Iterator[tuple[tuple[str, str], float]]:
    """Yield of each bucket that has been heard of how far its broker's clock is behind, s."""
    clocks = clocks_behind()
    for row in rows:
        if row["log_time"] is not None:
            clock = clocks.get(bucket_name(row["scenario"], row["partition"]))
            yield _labels(row), clock.by / 1000 if clock else 0


def _labels(row: dict[str, Any]) -> tuple[str, str]:
    return row["scenario"], str(row["partition"])


def _job() -> Iterator[Metric]:
    reported = query_reports()
    yield common_metrics.JOB_STATUS.family(
        ((query["query"], query["status"]), 1) for query in reported
    )
    yield common_metrics.JOB_RESTARTS.family(
        ((query["query"],), query["restarts"]) for query in reported
    )


def _pipelines() -> Iterator[Metric]:
    shown = pipelines(now_ms())
    records = [one.record for one in shown]
    yield common_metrics.PIPELINE_STATUS.family(((one.record.name, one.state), 1) for one in shown)
    yield common_metrics.PIPELINE_LAG.family(((one.name,), one.behind) for one in records)
    yield common_metrics.PIPELINE_LAG_SECONDS.family(
        ((one.name,), one.behind_ms / 1000) for one in records
    )
    yield common_metrics.PIPELINE_RESTARTS.family(((one.name,), one.restarts) for one in records)
    yield common_metrics.PIPELINE_DEAD_LETTERS.family(
        ((one.name,), one.dead_letters) for one in records
    )
    yield common_metrics.PIPELINE_INVALID_TIMES.family(
        ((one.name, each.topic, each.reason), each.records)
        for one in records
        for each in one.invalid
    )


# What the materialiser keeps of itself, by its name in the database: the metric, and how many make
# one.
_COUNTED = {
    "records": (common_metrics.MATERIALISED, 1),
    "unreadable": (common_metrics.PASSED_OVER, 1),
    OUT_OF_TIME: (common_metrics.OUT_OF_TIME, 1),
    "gaps": (common_metrics.GAPS, 1),
    "lower-epoch": (common_metrics.LOWER_EPOCH, 1),
    "faults": (common_metrics.MATERIALISER_FAULTS, 1),
    "batches": (common_metrics.BATCHES, 1),
    "batch-us": (common_metrics.BATCH_SECONDS, 1_000_000),
}


def _materialiser() -> Iterator[Metric]:
    """Yield what was counted. What an alarm looks at begins at 0: the first event is an increase,
    too."""
    known, kept = list(scenarios().values()), _kept()
    states = [topics().states(scenario.name) for scenario in known]
    begun = {"lower-epoch": [s.name for s in known], "gaps": states, "unreadable": states}
    for name, (metric, unit) in _COUNTED.items():
        counts = _from_zero(kept, name, begun.get(name, ()))
        yield metric.family(((topic,) if metric.labels else (), n / unit) for topic, n in counts)
    reports = [topics().reports(scenario.name) for scenario in known]
    yield common_metrics.REFUSED_COMMANDS.family(
        ((topic, reason), n) for reason in FAULTS for topic, n in _from_zero(kept, reason, reports)
    )
    buckets = [bucket_name(s.name, at) for s in known for at in range(s.partitions)]
    yield common_metrics.LATE_REPORTS.family(
        ((*bucket.split("/"), kind), n)
        for kind in KINDS
        for bucket, n in _from_zero(kept, kind, buckets)
    )


def _kept() -> Mapping[str, Mapping[str, int]]:
    """Return what the materialiser has counted: by name, by topic or bucket."""
    kept: dict[str, dict[str, int]] = {}
    for name, topic, n in EventCount.objects.values_list("name", "topic", "n"):
        kept.setdefault(name, {})[topic] = n
    return kept


def _from_zero(
    kept: Mapping[str, Mapping[str, int]], name: str, places: Iterable[str]
) -> Iterable[tuple[str, int]]:
    return {**dict.fromkeys(places, 0), **kept.get(name, {})}.items()


def _worker() -> Iterator[Metric]:
    """Yield metrics from the results that Celery keeps for a day, and from what its tasks made."""
    runs: dict[tuple[str, str], TaskResult] = {}
    results = TaskResult.objects.filter(task_name__isnull=False).order_by("-date_done")
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


def _sink_lag(source: PartitionEdges) -> Iterable[tuple[tuple[str, str], float]]:
    """Yield the lag of each sink partition, in records.

    Yields nothing where the broker has just not answered: it would be waited for twice.
    """
    if source.fault:
        return
    reached = sink_offsets()
    bounds = edges([gateway().topics.states(name) for name in scenarios()]).found
    for (topic, at), (begin, end) in bounds.items():
        yield (topic, str(at)), max(0, end - reached.get((topic, at), begin))
