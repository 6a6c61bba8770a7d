"""The operations on the job and its partitions, and on views."""

# Each operation takes the request, and says its parameters in its signature.
# ruff: noqa: ARG001

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, Literal

from ninja import Query, Schema

from dashboard.core.api.problems import Problem, invalid
from dashboard.core.api.router import READ, ApiRequest, OperationRouter
from dashboard.core.common.access import OPERATORS
from dashboard.core.common.times import now_ms
from dashboard.core.job.liveness import Sign, Trend
from dashboard.core.job.status import query_reports
from dashboard.operate.console.partitions import partitions
from dashboard.operate.console.topic_copies import copies, why_not
from dashboard.operate.console.topic_table import (
    MAX_PATTERN,
    CopyState,
    Refusal,
    Status,
    TopicRow,
    TopicRowFilter,
    ViewTable,
)
from dashboard.operate.console.topics import MAX_EXPRESSION, BadExpression, Form, shown
from wire.job import Status as JobStatus

RETRY_S = 1
"""When to ask again for a view that catches up, s."""
MOST_BYTES = 4 << 20
"""Keys and values of one page, bytes; a page ends before it has more."""
LONGEST_AFTER = 100_000

router = OperationRouter()
"""Of the job and its partitions."""
views = OperationRouter()
"""Of the views."""


# ---- job -----------------------------------------------------------------------------------------
# The operations on the job: its queries, and its partitions.


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
    job: str | None
    executor: str | None
    host: str | None
    assets: int | None
    timers: int | None
    records: int | None
    dead_letters: int | None
    stale: int | None
    late: int | None
    silent: int | None
    heartbeat_at: int | None
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
    """One query of a job, as last reported. Times in Unix ms.

    `job`: whose query it is, empty for the main one; `since`: when its status began, as far back as
    is kept; `reported_at`: when it last reported; `heartbeat_at`: its newest heartbeat; `restarts`:
    of the last 30 days, those of a process that was killed too; `batch`: Spark's figures of the
    last batch.
    """

    query: str
    job: str
    engine: str
    status: JobStatus
    epoch: int
    since: int
    reported_at: int
    heartbeat_at: int | None
    restarts: int
    message: str
    batch: dict[str, Any] | None


class JobOut(Schema):
    """The jobs' queries, one for each engine; empty where none has reported yet."""

    now: int
    queries: list[QueryOut]


@router.operation("GET partitions", PartitionsOut, "read", among=OPERATORS)
def list_partitions(request: ApiRequest) -> Any:
    """Every source partition: what its log holds, and how far its bucket has come."""
    now = now_ms()
    ends, rows = partitions(now)
    return {"broker": ends.fault or "answers", "now": now, "partitions": rows}


@router.operation("GET job", JobOut, "read", among=OPERATORS)
def get_job(request: ApiRequest) -> Any:
    """How the job's queries fare, as they told last."""
    return {"now": now_ms(), "queries": query_reports()}


# ---- views ---------------------------------------------------------------------------------------
# The operations on views: how their copies fare, a page of rows, and one row.


class ViewOut(Schema):
    """How this process's copy of a view fares. read, total: records read and to be read until it
    has caught up; lag: records that it has not read now; as_of: it has all that the topic held
    then, Unix ms; refused: records that can stand in no table; restarts: how often the copy began
    anew, because the topic was another."""

    name: str
    title: str
    topic: str
    status: Status
    records: int
    bytes: int
    max_records: int
    max_bytes: int
    partitions: int
    read: int
    total: int
    lag: int
    as_of: int | None
    refused: dict[Refusal, int]
    restarts: int


class RowOut(Schema):
    """The newest record of a key. key_form: the key is text, or bytes in Base64; value_form: the
    value is JSON as it is, text, or bytes in Base64; timestamp: Unix ms."""

    key: str
    key_form: Literal["text", "base64"]
    value: Any
    value_form: Form
    partition: int
    offset: int
    timestamp: int


class ViewRowOut(RowOut):
    """A row; as_of: nothing newer was in the topic then, Unix ms."""

    as_of: int | None


class RowsOut(Schema):
    """Rows in the order of their keys' bytes; next: `after` of the next page, or null."""

    items: list[RowOut]
    next: str | None
    as_of: int | None


@views.operation("GET views", list[ViewOut], "read", among=OPERATORS)
def list_views(request: ApiRequest) -> Any:
    """Every view, and how this process's copy of it fares."""
    return [_plain(table, table.state()) for table in copies().values()]


@views.operation("GET views/{view}", RowsOut, "read", *READ, 503, among=OPERATORS)
def get_view(
    request: ApiRequest,
    view: str,
    key: str = Query("", max_length=MAX_PATTERN, description="A pattern of keys: order-1*"),
    matches: str = Query(
        "", max_length=MAX_EXPRESSION, description="A regular expression of keys: order-(1|2)."
    ),
    not_empty: bool = Query(False, description="Without rows of which the value is empty."),
    after: str = Query("", max_length=LONGEST_AFTER, description="`next` of the page before."),
    limit: int = Query(100, ge=1, le=1000),
) -> Any:
    """A page of a view's rows, in the order of their keys."""
    table = _known(view)
    state = _ready(table)
    place = _bytes_of(after, "after", "`next` of a page") if after else None
    criteria = TopicRowFilter(key, not_empty, matches)
    try:
        test = criteria.test()
    except BadExpression as error:
        raise invalid("matches", str(error)) from None
    page = table.page(test, limit, place, MOST_BYTES, criteria.prefix())
    following = None if page.following is None else urlsafe_b64encode(page.following).decode()
    return {"items": list(map(_row, page.rows)), "next": following, "as_of": state.as_of}


@views.operation("GET views/{view}/{asset:key}", ViewRowOut, "read", *READ, 503, among=OPERATORS)
def get_view_row(
    request: ApiRequest,
    view: str,
    key: str,
    key_form: Literal["text", "base64"] = Query("text", description="What the path has."),
) -> Any:
    """The row of one key."""
    table = _known(view)
    state = _ready(table)
    encoded = key.encode(errors="surrogateescape")
    if key_form == "base64":
        encoded = _bytes_of(key, "key", "the key in Base64")
    row = table.row(encoded)
    if row is None:
        raise Problem(404, "unknown-key", f"View {view} has no key {key!r}.")
    return _row(row) | {"as_of": state.as_of}


def _known(name: str) -> ViewTable:
    table = copies().get(name)
    if table is None:
        known = ", ".join(copies()) or "none is declared"
        raise Problem(404, "unknown-view", f"{name!r} is none of: {known}.")
    return table


def _ready(table: ViewTable) -> CopyState:
    """Return how a copy fares that can answer. Raises Problem 503."""
    state = table.state()
    if state.status != "ready":
        after = {"Retry-After": str(RETRY_S)}
        raise Problem(503, f"view-{state.status}", why_not(table, state), headers=after)
    return state


def _bytes_of(text: str, field: str, expected: str) -> bytes:
    """Return the bytes that a text has in Base64, of either alphabet. Raises Problem 422."""
    try:
        plain = text.replace("+", "-").replace("/", "_")
        return urlsafe_b64decode(plain.encode("ascii", errors="strict"))
    except (binascii.Error, UnicodeEncodeError):
        raise invalid(field, expected) from None


def _row(row: TopicRow) -> dict[str, Any]:
    value = shown(row.value)
    try:
        key, form = row.key.decode(), "text"
    except UnicodeDecodeError:
        key, form = urlsafe_b64encode(row.key).decode(), "base64"
    return {
        "key": key,
        "key_form": form,
        "value": value.value,
        "value_form": value.form,
        "partition": row.partition,
        "offset": row.offset,
        "timestamp": row.timestamp,
    }


def _plain(table: ViewTable, state: CopyState) -> dict[str, Any]:
    view = table.view
    return {
        "name": view.name,
        "title": view.title,
        "topic": view.topic,
        "status": state.status,
        "records": state.records,
        "bytes": state.size,
        "max_records": view.max_records,
        "max_bytes": view.max_bytes,
        "partitions": state.partitions,
        "read": state.read,
        "total": state.total,
        "lag": state.lag,
        "as_of": state.as_of,
        "refused": state.refused,
        "restarts": state.restarts,
    }
