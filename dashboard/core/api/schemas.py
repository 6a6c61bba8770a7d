"""Schemas of the API's requests and responses, bodies read strictly, and the state of the job's
queries.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec
from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Schema
from ninja.parser import Parser
from pydantic import ConfigDict

from dashboard.core.api.problems import Problem
from dashboard.core.common.times import now_ms
from dashboard.core.job.liveness import Sign, Trend
from dashboard.core.job.models import BucketStatus, JobProgress
from dashboard.core.job.status import restarts
from wire.job import Status

# ---- bodies --------------------------------------------------------------------------------------
# JSON bodies, read strictly and within bounds.
#
# Of a repeated key the last counts, as it does in the log: what is checked is what is sent on.

JSON = "application/json"


class JsonParser(Parser):
    """The parser of the bodies that django-ninja reads itself."""

    def parse_body(self, request: HttpRequest) -> Any:
        """Return the body's data. Raises Problem 400 or 415."""
        require_json(request)
        return decode(request.body)


def require_json(request: HttpRequest) -> None:
    """Raise Problem 415 unless the request says that its body is JSON."""
    if request.content_type != JSON:
        content_type = repr(request.content_type or "none")
        raise Problem(
            415, "unsupported-media-type", f"Content-Type: expected {JSON}, got {content_type}."
        )


def read_json(request: HttpRequest, limit: int) -> Any:
    """Return a body of at most `limit` bytes as data. Raises Problem 400, 413 or 415."""
    require_json(request)
    body = request.read(limit + 1)
    if len(body) > limit:
        raise Problem(413, "too-large", f"Expected at most {limit} bytes.")
    return decode(body)


def decode(body: bytes) -> Any:
    """Return data from JSON. Raises Problem 400."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(400, "bad-request", f"Expected JSON: {error}") from error


# ---- schemas -------------------------------------------------------------------------------------
# Schemas of the API's requests and responses, as its OpenAPI document shows them.

NO_NUL = r"^[^\x00]*$"
"""What a text may be that is kept: PostgreSQL takes no NUL."""


class StrictSchema(Schema):
    """A body, in which a field that is not known is a fault."""

    model_config = ConfigDict(extra="forbid")


class StateOut(Schema):
    """One state of a scenario, as it is shown."""

    name: str
    label: str
    colour: str
    icon: str


class DoubtsOut(Schema):
    """How many assets of a scenario there is each doubt of."""

    disputed: int
    unconfirmed: int
    silent: int
    doubt: int


class ScenarioOut(Schema):
    """One kind of thing watched; `states` from most to least severe, or with `severity` "none" in
    their order, `counts` by state, `doubts`: how many assets are disputed, unconfirmed, have silent
    votes, or have agents in doubt."""

    name: str
    title: str
    noun: str
    vocabulary: Literal["open", "closed"]
    severity: Literal["order", "none"]
    states: list[StateOut]
    counts: dict[str, int]
    doubts: DoubtsOut


class FlapOut(Schema):
    """How a vote turned worse twice within its lifetime: to what, when last, and until when that
    state counts for a dispute. Times in Unix ms."""

    state: str
    time: int
    until: int


class VoteOut(Schema):
    """An agent's vote on an asset. Times in Unix ms.

    `expires`: when it falls silent, null for never; `muted`: until when and by whom its agent is
    muted, of others not there; `silent`: since when its agent has been silent, null for a live
    vote: a silent vote counts against an all-clear and never for it; `doubt`: why it is in doubt by
    its own report, else null: such a vote may raise a state, and gives no all-clear;
    `detail_fault`: why its detail was left out; `flapping`: that its agent goes to and fro.
    """

    model_config = ConfigDict(extra="allow")

    agent: str
    state: str
    reported_at: int
    time: int
    offset: int
    expires: int | None = None
    weight: int
    detail: dict[str, Any] | None = None
    silent: int | None = None
    doubt: str | None = None
    detail_fault: str | None = None
    flapping: FlapOut | None = None


class DoubtOut(Schema):
    """Why an agent is doubted on an asset, with a vote or without one. Times in Unix ms.

    `said`: the worst that it said, null where nobody can read it; `time`, `offset`: of the last
    record that gave cause; `until`: when the doubt ends; `muted`: as in a vote.
    """

    model_config = ConfigDict(extra="allow")

    agent: str
    reason: str
    said: str | None
    time: int
    offset: int
    until: int
    weight: int


class RecordOut(Schema):
    """An asset's state record as it stands on the states topic. Times in Unix ms.

    `unconfirmed_reason`: why it is unconfirmed, in words, null where it is confirmed; `disputed`:
    the worst that a vote or an agent in doubt says, live or silent, where that is worse than
    `state`, else null; `doubts`: of agents in doubt, beside their votes; `tasks`: what is scheduled
    for it, as in the topic.
    """

    asset: str
    state: str
    previous: str | None = None
    since: int
    unconfirmed: bool
    unconfirmed_reason: str | None = None
    disputed: str | None = None
    version: str
    cause: dict[str, Any]
    votes: list[VoteOut] = []
    pending: dict[str, Any] | None = None
    override: dict[str, Any] | None = None
    doubts: list[DoubtOut] = []
    tasks: list[dict[str, Any]] = []
    answer: dict[str, str] | None = None


class AssetOut(RecordOut):
    """An asset's state record, and its labels."""

    labels: dict[str, str] = {}


class AssetsOut(Schema):
    """Assets by name. `next`: give it as `after` for the next page; null on the last."""

    items: list[AssetOut]
    next: str | None


class ReportWarning(Schema):
    """What is wrong with a report that was taken all the same: a name, and words."""

    reason: str
    detail: str


class ReportAnswer(Schema):
    """What became of one report: its place in the log, or why it was not taken.

    `recorded`: whether it is in the log, where `partition` and `offset` say. One that was refused
    for its state or time is recorded too, so that the board doubts its agent; `note` says so.
    """

    accepted: bool
    recorded: bool = False
    partition: int | None = None
    offset: int | None = None
    reason: str | None = None
    detail: str | None = None
    note: str | None = None
    warnings: list[ReportWarning] = []


class ReportsOut(Schema):
    """One answer per report, in their order."""

    accepted: int
    refused: int
    items: list[ReportAnswer]


class PartitionOut(Schema):
    """One source partition: what its log holds, and what its bucket has reached. Times in Unix ms.

    `begin`, `end`: first and next offset, null where the broker does not answer; `offset`,
    `log_time`: the last offset applied, and the bucket's clock; `lag` in records, `lag_s` in
    seconds; `ahead_s`: how far the bucket's clock is ahead of the job's own, 0 up to five seconds.
    `records`, `dead_letters`, and reports that came too late: `stale`, `late`, `silent`: counted
    since the heartbeat before; `records_s`:
    applied a second of late; `skew`: share of the scenario's load of the last minute as a multiple
    of the even one; `trend`: of the lag; `catch_up_s`: seconds until nothing is left, 0 where that
    is so; `signs`: what stands out, the most important first. What is not known is null.
    """

    scenario: str
    topic: str
    partition: int
    begin: int | None
    end: int | None
    offset: int | None
    log_time: int | None
    lag: int | None
    lag_s: float | None
    ahead_s: float | None
    epoch: int | None
    engine: str | None
    executor: str | None
    host: str | None
    assets: int | None
    dues: int | None
    records: int | None
    dead_letters: int | None
    stale: int | None
    late: int | None
    silent: int | None
    heard_at: int | None
    records_s: float | None
    skew: float | None
    trend: Trend | None
    catch_up_s: float | None
    signs: list[Sign]


class PartitionsOut(Schema):
    """Every source partition. `broker`: `answers`, or why begin, end and lag are not known."""

    broker: str
    now: int
    partitions: list[PartitionOut]


class QueryOut(Schema):
    """One query of the job, as it told last. Times in Unix ms.

    `since`: when its status began, as far back as is kept; `told_at`: when it last said anything;
    `heard_at`: its newest heartbeat; `restarts`: of the last 30 days, those of a process that was
    killed too; `batch`: Spark's figures of the last batch that it told.
    """

    query: str
    engine: str
    status: Status
    epoch: int
    since: int
    told_at: int
    heard_at: int | None
    restarts: int
    message: str
    batch: dict[str, Any] | None


class JobOut(Schema):
    """The job's queries, one for each engine; empty where it has told nothing yet."""

    now: int
    queries: list[QueryOut]


# ---- job -----------------------------------------------------------------------------------------
# The state of the job's queries, as last reported.


def query_reports() -> list[dict[str, Any]]:
    """Return each query that has reported anything, by name, as the API gives it.

    A query is one engine's.
    """
    names = JobProgress.objects.order_by("query").values_list("query", flat=True).distinct()
    return [_query(name) for name in names]


def _query(name: str) -> dict[str, Any]:
    reports = JobProgress.objects.filter(query=name).order_by("-id")
    last = reports[0]
    words = reports.filter(batch="").first()
    batch = reports.exclude(batch="").first()
    heard = BucketStatus.objects.filter(engine=name).order_by("-received_at").first()
    return {
        "query": name,
        "engine": name,
        "status": last.status,
        "epoch": last.epoch,
        "since": last.since or _since(reports, last),
        "told_at": last.at,
        "heard_at": heard.received_at if heard else None,
        "restarts": restarts(name, now_ms()).n,
        "message": words.message if words and words.status == last.status else "",
        "batch": {"told_at": batch.at, **json.loads(batch.batch)} if batch else None,
    }


def _since(reports: QuerySet[JobProgress], last: JobProgress) -> int:
    """Return when the status began, as far back as records are kept (Unix ms)."""
    before = reports.exclude(status=last.status).first()
    same = reports.filter(id__gt=before.pk) if before else reports
    first = same.last()
    return first.at if first else last.at
