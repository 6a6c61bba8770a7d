"""How each of the job's queries fares, and what an admin requests of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, get_args

import msgspec
from django.conf import settings
from django.db.models import F, Max
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import (
    OPERATORS,
    Role,
    TooMany,
    form_of,
    role_of,
    role_required,
    takes,
    user_of,
)
from dashboard.core.common.navigation import render_page
from dashboard.core.common.scenarios import scenarios, topics
from dashboard.core.common.tables import Column, Table
from dashboard.core.common.times import MINUTE_MS, now_ms
from dashboard.core.job import requests as job_forms
from dashboard.core.job.freshness import (
    SILENT_MS,
    Link,
    furthest_behind,
    named,
    new_log_link,
)
from dashboard.core.job.liveness import process_signs
from dashboard.core.job.models import DAY_MS, HOUR_MS, KEPT_MS, BucketStatus, JobProgress
from dashboard.core.job.pipelines import ASSIGNMENT_TABLE, INVALID_TABLE, pipeline, pipelines
from dashboard.core.job.requests import OFFERS, REQUEST_TABLE, RequestForm, last_of, newest, send
from dashboard.core.job.status import Restarts, clocks_of, problems, restarts
from dashboard.operate.console import samples
from dashboard.operate.dead_letters.ingestion import refused
from wire.job import Action, engine_of, job_of
from wire.pipeline import query_name

# ---- query status --------------------------------------------------------------------------------
# How each of the job's queries fares: what it reported last, compared with its heartbeats.
#
# Times in Unix ms.

State = Literal["running", "restarting", "catching-up", "stalled", "stopped", "waiting"]

GRACE_MS = 20_000
"""So long a query that was just started may be silent: it reads its state first."""
BATCHES = 10
"""How many batches the page lists."""
PHASES = {
    "addBatch": "Processing",
    "walCommit": "Write-ahead log",
    "commitOffsets": "Commit",
    "commitBatch": "Commit of the batch",
    "latestOffset": "Querying Kafka",
    "getBatch": "Planning of the source",
    "queryPlanning": "Planning",
}
"""Spark's names for what a batch goes through, and ours, the longest first."""


BATCH_TABLE = Table(
    "batches", Column.number("Batch"), Column.time("Ended"), Column.number("Took"),
    Column.number("Rows"), Column.number("Applied/s"), Column.number("Entries written"),
    Column.number("Memory"), "Phases",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """Spark's figures of one batch; ms, rows, rows a second, bytes."""

    at: int
    number: int
    duration: int
    rows: int
    came: float
    done: float
    phases: Mapping[str, int]
    state: Mapping[str, int]
    rocksdb: Mapping[str, int]

    @property
    def shown_phases(self) -> list[tuple[str, int]]:
        """Each phase's name and how long it took; those that took no time are left out."""
        return [(title, took) for name, title in PHASES.items() if (took := self.phases.get(name))]


@dataclass(frozen=True, slots=True)
class Live:
    """A query's newest heartbeats, summed over buckets; behind: of its slowest clock, ms."""

    heartbeat_at: int
    buckets: int
    assets: int
    timers: int
    rate: float
    behind: int


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A topic of the diagram, with its partitions and whether each has a heartbeat."""

    name: str
    partitions: list[tuple[int, bool]]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    """One query; `last`: what it reported last; why: its state in words."""

    name: str
    state: State
    since: int
    why: str
    last: JobProgress
    live: Live | None
    batches: list[BatchFigures]
    restarts: Restarts
    reads: list[TopicStatus]
    writes: list[TopicStatus]

    @property
    def job(self) -> str:
        """The job whose query it is, empty for the main one."""
        return job_of(self.name)

    @property
    def engine(self) -> str:
        """The engine that it runs."""
        return engine_of(self.name)

    @property
    def batch(self) -> BatchFigures | None:
        """The last batch."""
        return self.batches[0] if self.batches else None

    @property
    def broker_clock(self) -> tuple[str, int] | None:
        """How far the broker's clock is behind the job's own and where, and since when; None where
        it is not."""
        clocks = clocks_of(self.last)
        if not clocks:
            return None
        what = f"{furthest_behind(clocks.values())} behind in {named(sorted(clocks))}"
        return what, min(clock.since for clock in clocks.values())

    @property
    def new_logs(self) -> list[Link]:
        """Where to have it read the logs that were created again, as it waits for that."""
        if self.last.status != "waiting":
            return []
        return [new_log_link(self.name, name) for name in self.last.replaced.split()]

    @property
    def state_partitions(self) -> range:
        """The partitions of its state."""
        return range(self.batch.state.get("numShufflePartitions", 0) if self.batch else 0)


def queries(now: int) -> list[Query]:
    """Return every query that has reported anything, by name."""
    newest = JobProgress.objects.values("query").annotate(last=Max("id"))
    ids = newest.values_list("last", flat=True)
    beats = _beats()
    return [
        _query(last, [beat for beat in beats if beat[1].query == last.query], now)
        for last in JobProgress.objects.filter(pk__in=list(ids)).order_by("query")
    ]


def names() -> set[str]:
    """Return the names of the queries that have reported anything."""
    return set(JobProgress.objects.values_list("query", flat=True).distinct())


Beats = list[tuple[int, BucketStatus]]
"""Of each bucket when its last heartbeat was received, and what the database has of it."""


def _beats() -> Beats:
    """Return each bucket's row, and when its last heartbeat was received (Unix ms).

    This process may have received one later than the database.
    """
    received = process_signs().facts().beats
    beats = []
    for row in BucketStatus.objects.all():
        here = received.get(row.bucket)
        beats.append((max(row.received_at, here.received_at if here else 0), row))
    return beats


def _query(last: JobProgress, beats: Beats, now: int) -> Query:
    live = _live(beats, now)
    reports = JobProgress.objects.filter(query=last.query).order_by("-id")
    state, since, why = judge(last, live.heartbeat_at if live else None, now)
    if not why and (words := reports.filter(batch="", status=last.status).first()) is not None:
        why = words.message
    batches = (batch for row in reports.exclude(batch="")[:BATCHES] if (batch := read(row)))
    reads, writes = _topics(last.query, beats, now)
    return Query(
        last.query, state, since, why, last, live, list(batches), restarts(last.query, now),
        reads, writes,
    )  # fmt: skip


def judge(last: JobProgress, heartbeat_at: int | None, now: int) -> tuple[State, int, str]:
    """Return a query's state, since when, and why where that is not what it reported itself.

    heartbeat_at: when its newest heartbeat was received, or None.
    """
    since = last.since or last.at
    match last.status:
        case "running" | "catching-up":
            if now - max(heartbeat_at or 0, since + GRACE_MS - SILENT_MS) > SILENT_MS:
                why = "no heartbeat since then, though it reported no problem"
                return "stalled", heartbeat_at or since, why
            if now - (heartbeat_at or 0) > SILENT_MS:
                return "restarting", since, "it has started, and its first heartbeat is yet to come"
            return ("running" if last.status == "running" else "catching-up"), since, ""
        case "stopped":
            if last.stopped_by:
                return "stopped", since, f"by {last.stopped_by}: {last.stopped_reason}"
            return "stopped", since, "the job's process was ended"
        case "waiting":
            return "waiting", since, ""
        case "starting":
            return "restarting", since, "the job's process has started"
        case _:
            return "restarting", since, ""


def _live(beats: Beats, now: int) -> Live | None:
    if not beats:
        return None
    fresh = [(at, beat) for at, beat in beats if now - at <= SILENT_MS]
    return Live(
        heartbeat_at=max(at for at, _ in beats),
        buckets=len(beats),
        assets=sum(beat.assets for _, beat in beats),
        timers=sum(beat.timers for _, beat in beats),
        rate=float(sum(beat.records for _, beat in fresh)),
        behind=max(max(0, now - beat.log_time) for _, beat in beats),
    )


def _topics(query: str, beats: Beats, now: int) -> tuple[list[TopicStatus], list[TopicStatus]]:
    """Return the topics that the query reads and writes, by buckets with heartbeats."""
    known, of = topics(), scenarios()
    fresh: dict[str, dict[int, bool]] = {}
    for at, beat in beats:
        fresh.setdefault(beat.scenario, {})[beat.partition] = now - at <= SILENT_MS
    carried = {name: parts for name, parts in sorted(fresh.items()) if name in of}
    shown = {name: sorted(parts.items()) for name, parts in carried.items()}
    reads = [TopicStatus(known.reports(name), parts) for name, parts in shown.items()]
    writes = [
        TopicStatus(known.states(name), [(at, True) for at, _ in parts])
        for name, parts in shown.items()
    ]
    others = {
        known.dead_letters: "what was refused",
        known.buckets: "heartbeats",
        known.progress: f"how {query} fares",
    }
    return reads, writes + [TopicStatus(name, [(0, True)], note) for name, note in others.items()]


def read(row: JobProgress) -> BatchFigures | None:
    """Return Spark's figures, as far as they are there, or None where they cannot be read."""
    try:
        spark_figures = msgspec.json.decode(row.batch)
        done = float(spark_figures.get("processedRowsPerSecond") or 0)
        came = float(spark_figures.get("inputRowsPerSecond") or 0)
        return BatchFigures(
            at=row.at,
            number=int(spark_figures.get("batchId", 0)),
            duration=int(spark_figures.get("batchDuration", 0)),
            rows=int(spark_figures.get("numInputRows", 0)),
            came=min(came, done) if done else came,  # Spark divides by the time between two starts
            done=done,
            phases=_numbers(spark_figures.get("durationMs")),
            state=_numbers(spark_figures.get("state")),
            rocksdb=_numbers(spark_figures.get("rocksdb")),
        )
    except (msgspec.DecodeError, TypeError, ValueError, AttributeError):
        return None


def _numbers(spark_figures: Any) -> dict[str, int]:
    return {name: int(n) for name, n in (spark_figures or {}).items() if isinstance(n, int | float)}


# ---- over time ------------------------------------------------------------------------------

Span = Literal["hour", "day", "month"]
SPANS: Mapping[str, tuple[int, int]] = {
    "hour": (HOUR_MS, 5_000),
    "day": (DAY_MS, MINUTE_MS),
    "month": (KEPT_MS, HOUR_MS),
}
"""By name: how far back, and of how long one batch is taken, ms."""


def history(query: str, span: str, now: int) -> dict[str, list[Any]]:
    """Return figures of the query's batches, oldest first: a list for each, and `at` in s."""
    back, width = SPANS[span]
    reports = JobProgress.objects.filter(query=query, at__gte=now - back).exclude(batch="")
    slots = reports.annotate(slot=F("at") / width).values("slot").annotate(keep=Max("id"))
    rows = JobProgress.objects.filter(pk__in=slots.values("keep")).order_by("id")
    batches = [batch for row in islice(rows.iterator(), 5_000) if (batch := read(row))]
    series: dict[str, list[Any]] = {"at": [batch.at / 1000 for batch in batches]}
    for name in PHASES:
        series[name] = [batch.phases.get(name) for batch in batches]
    series["duration"] = [batch.duration for batch in batches]
    series["came"] = [round(batch.came, 1) for batch in batches]
    series["done"] = [round(batch.done, 1) for batch in batches]
    series["rows"] = [batch.state.get("numRowsUpdated") for batch in batches]
    series["memory"] = [batch.state.get("memoryUsedBytes") for batch in batches]
    return series


def spark_page(host: str, job: str) -> str:
    """Return the address of Spark's own page of a job, on the machine it runs on; empty where it is
    off."""
    port = settings.TALLYBOARD.ui_port_of(job)
    return f"http://{host}:{port}/StreamingQuery/" if port else ""


# ---- job views -----------------------------------------------------------------------------------
# The console's page of the job: how its queries fare, and what is asked of them.


@require_safe
@never_cache
@role_required("read", OPERATORS)
def job(request: HttpRequest) -> HttpResponse:
    """List every query and its requests; for a script, the part that refreshes itself."""
    return _page(request)


@form_of("console:job")
@role_required("read", among=(Role.ADMIN,))
def ask(request: HttpRequest, query: str) -> HttpResponse:
    """Send a request to a query; the page's list shows its outcome."""
    action = request.POST.get("action")
    if action not in OFFERS or query not in names():
        raise Http404
    return _send(request, query, f"job.{action}", _form(query, action, request.POST))


@form_of("console:job")
@role_required("read", among=(Role.ADMIN,))
def ask_pipeline(request: HttpRequest, name: str) -> HttpResponse:
    """Send a request to a pipeline; the page's list shows its outcome."""
    action = request.POST.get("action")
    if action not in job_forms.PIPELINE_OFFERS or pipeline(name, now_ms()) is None:
        raise Http404
    form = job_forms.request_form(name, action, request.POST)
    return _send(request, query_name(name), f"pipeline.{action}", form)


def _send(request: HttpRequest, query: str, action: str, form: RequestForm) -> HttpResponse:
    """Send what a form requests of a query; return to the page, with its errors if it has any."""
    if not form.is_valid():
        return _page(request, form, 422)
    data, actor = form.cleaned_data, Actor.of(request)
    reason = data["reason"]
    try:
        row, _ = send(
            query, form.offer.action, user_of(request), now_ms(), reason=reason, id_=data["id"]
        )
    except TooMany as error:
        record(actor, action, target=query, outcome="refused: too many", reason=reason)
        form.add_error(None, str(error))
        return _page(request, form, 429)
    record(actor, action, target=query, outcome=row.status, reason=reason)
    return redirect(f"{reverse('console:job')}#query-{form.query}")


def _form(query: str, action: str, data: Any = None) -> RequestForm:
    return RequestForm(query, action, data, address=reverse("console:ask", args=[query]))


@require_safe
@never_cache
@role_required("read", OPERATORS)
@takes("span")
def figures(request: HttpRequest, query: str) -> HttpResponse:
    """Return a query's figures over time as JSON, for the charts."""
    span = request.GET.get("span", "hour")
    if span not in SPANS:
        raise Http404
    return JsonResponse(history(query, span, now_ms()))


@require_safe
@never_cache
@role_required("read", OPERATORS)
@takes("span")
def samples_of(request: HttpRequest, query: str) -> HttpResponse:
    """Return the figures of the charts as JSON, such as how long reports took to the board."""
    span = request.GET.get("span", "hour")
    if span not in SPANS:
        raise Http404
    back, width = SPANS[span]
    return JsonResponse(samples.history(query, back, max(width, samples.SLOT_MS), now_ms()))


def _page(
    request: HttpRequest, bound: RequestForm | None = None, status: int = 200
) -> HttpResponse:
    now, admin = now_ms(), role_of(request.user) is Role.ADMIN
    all_queries, listed = queries(now), newest(now)
    host = request.get_host().rsplit(":", 1)[0]
    context = {
        "now": now,
        "address": "/job/",
        "missing": problems(now),
        "queries": [
            (
                query,
                _forms(query, bound) if admin else [],
                last_of(query.name, listed, now),
                samples.lines(query.name, now),
                spark_page(host, query.job),
            )
            for query in all_queries
        ],
        "pipelines": [
            (
                shown,
                _with_bound(job_forms.forms_of(shown), bound) if admin else [],
                last_of(query_name(shown.record.name), listed, now, job_forms.PIPELINE_OFFERS),
            )
            for shown in pipelines(now)
        ],
        "assignment_table": ASSIGNMENT_TABLE,
        "invalid_table": INVALID_TABLE,
        "batch_table": BATCH_TABLE,
        "minute_table": samples.MINUTES,
        "asked": listed,
        "request_table": REQUEST_TABLE,
        "refused": refused(),
        "admin": admin,
        "spans": SPANS,
    }
    return render_page(request, "console/job", context, status=status)


def _forms(query: Query, bound: RequestForm | None) -> list[Any]:
    """Return the forms of the possible requests to a query, and whether each is open."""
    offered: list[Action] = ["start" if query.state == "stopped" else "stop", "reload"]
    if query.state in ("waiting", "restarting"):
        offered.insert(0, "start")
    forms = [_form(query.name, name) for name in get_args(Action) if name in offered]
    return _with_bound(forms, bound)


def _with_bound(forms: list[RequestForm], bound: RequestForm | None) -> list[Any]:
    """Return forms of one query, and whether each is open: the one that was sent is."""
    shown = {form.offer.action: form for form in forms}
    if bound is not None and any(form.query == bound.query for form in forms):
        shown[bound.offer.action] = bound
    return [(form, form.is_bound) for form in shown.values()]
