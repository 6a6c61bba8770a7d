"""`/metrics`: this process's counts, and what the database and the broker report of the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from django.contrib.auth.decorators import login_not_required
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.utils.module_loading import import_string
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from django_celery_results.models import TaskResult
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Metric, generate_latest
from prometheus_client.registry import Collector

from dashboard.core.api.problems import Problem
from dashboard.core.api.router import user_of
from dashboard.core.common import metrics as common_metrics
from dashboard.core.common.scenarios import scenarios, topics
from dashboard.core.states.models import (
    Divergence,
    FoldSnapshot,
    event_counts,
    from_zero,
)
from dashboard.core.states.queries import doubt_counts
from wire.signature import FAULTS

COLLECTORS = (
    "dashboard.operate.console.partitions.bucket_metrics",
    "dashboard.core.job.status.metrics",
    "dashboard.core.job.pipelines.metrics",
    "dashboard.operate.console.partitions.sink_metrics",
    "dashboard.serve.api.exposition.materialiser",
    "dashboard.watch.agents.reports.metrics",
    "dashboard.serve.api.exposition.worker",
    "dashboard.serve.api.exposition.states",
    "dashboard.operate.dead_letters.queries.metrics",
    "dashboard.notify.notifications.outbox.metrics",
    "dashboard.operate.console.topic_copies.metrics",
    "dashboard.core.common.kafka.metrics",
    "dashboard.board.live.consumer.metrics",
)
"""Functions of the packages, each of which yields the metrics that are read at each scrape."""

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


Collect = Callable[[], Iterable[Metric]]


class ScrapeCollector(Collector):
    """The metrics that a scrape of one web process shows."""

    def collect(self) -> Iterator[Metric]:
        """Yield this process's own counters, then the metrics of the whole."""
        yield from REGISTRY.collect()
        for each in COLLECTORS:
            collect: Collect = import_string(each)
            yield from collect()


def states() -> Iterator[Metric]:
    """Yield what there is a doubt of, and divergences."""
    yield common_metrics.DIVERGED.family([((), Divergence.objects.count())])
    yield common_metrics.DOUBTED.family(
        ((scenario, doubt), n)
        for scenario in scenarios()
        for doubt, n in doubt_counts(scenario).items()
    )


# What the materialiser keeps of itself, by its name in the database: the metric, and how many make
# one.
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
    """Yield what was counted. What an alarm looks at begins at 0: the first event is an increase,
    too."""
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
