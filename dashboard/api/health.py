"""Whether the process is up, and whether the board shows what a running job tallies."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.db.models import Max
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from bus.base import BusError, TopicPartition
from dashboard.board.store import sink_offsets
from dashboard.commands.gateway import Gateway, gateway
from dashboard.commands.sending import now_ms
from dashboard.job.models import BucketStatus, JobProgress
from dashboard.scenarios import scenarios
from domain.scenario import Scenario
from wire.job import bucket_name

log = logging.getLogger(__name__)

FRESH_MS = 10_000
"""A bucket whose log time is older than this is not alive."""

CATCH_UP_S = 2.0
"""How long the materialiser may take to reach where the log ended when it was asked."""

POLL_S = 0.1
ASK_S = 3.0


@login_not_required
@require_safe
@never_cache
def healthz(_request: HttpRequest) -> HttpResponse:
    """200: this process answers."""
    return HttpResponse("ok\n", content_type="text/plain")


@login_not_required
@require_safe
@never_cache
def readyz(_request: HttpRequest) -> JsonResponse:
    """200 once all is well, else 503 and what is missing."""
    missing = _missing()
    return JsonResponse({"ready": not missing, "missing": missing}, status=503 if missing else 200)


def _missing() -> list[str]:
    """What keeps the board from showing what the job tallies, in words; empty when nothing does."""
    try:
        connection.ensure_connection()
        wanted = list(scenarios().values())
        buckets = missing_buckets(wanted, now_ms())
        return stopped() + buckets if buckets else missing_changes(wanted, gateway())
    except DatabaseError:
        log.exception("readiness: the database does not answer")
        return ["database: does not answer"]


def stopped() -> list[str]:
    """Queries that were stopped on purpose. Who did it and why is for those who log in."""
    newest = JobProgress.objects.values("query").annotate(last=Max("id"))
    told = JobProgress.objects.filter(pk__in=newest.values("last")).exclude(stopped_by="")
    names = told.order_by("query").values_list("query", flat=True)
    return [f"query {name}: was stopped, see the job's page" for name in names]


def missing_buckets(wanted: Iterable[Scenario], now: int) -> list[str]:
    """Buckets without a heartbeat whose log time is within 10 s of `now` (ms)."""
    seen = dict(BucketStatus.objects.values_list("bucket", "log_time"))
    names = [bucket_name(s.name, at) for s in wanted for at in range(s.partitions)]
    missing = []
    for name in names:
        if name not in seen:
            missing.append(f"bucket {name}: the job has not reported yet")
        elif now - seen[name] > FRESH_MS:
            missing.append(f"bucket {name}: {(now - seen[name]) // 1000} s behind")
    return missing


def missing_changes(wanted: Iterable[Scenario], to: Gateway) -> list[str]:
    """Partitions of states whose present end the database does not reach within seconds."""
    try:
        edges = to.bus.offsets([to.topics.states(s.name) for s in wanted], timeout_s=ASK_S)
    except BusError as error:
        log.warning("readiness: %s", error)
        return ["kafka: does not answer"]
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
