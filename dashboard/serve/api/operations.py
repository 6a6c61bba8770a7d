"""The operations of `/api/v1`."""

# Each operation takes the request, and says its parameters in its signature.
# ruff: noqa: ARG001, B008

from __future__ import annotations

import json
from functools import partial
from typing import Annotated, Any, Literal

from ninja import Query, Status
from pydantic import Field

from dashboard.board.live.page_filter import unknown_states, with_states
from dashboard.core.api import schemas
from dashboard.core.api.problems import invalid
from dashboard.core.api.router import READ, ApiRequest, OperationRouter, known_scenario
from dashboard.core.api.schemas import (
    NO_NUL,
    AssetsOut,
    JobOut,
    PartitionsOut,
    ReportsOut,
    ScenarioOut,
    read_json,
)
from dashboard.core.api.store_answers import (
    VIA_OF_ASSETS,
    RecordsAnswerOut,
    filtered_by_database,
    many_by,
)
from dashboard.core.common.access import OPERATORS, REPORTS
from dashboard.core.common.scenarios import scenarios
from dashboard.core.common.times import now_ms
from dashboard.core.states.filter_parser import MAX_TEXT, FilterError
from dashboard.core.states.filter_terms import Filter, doubt_term
from dashboard.core.states.queries import counts, doubt_counts
from dashboard.core.states.stores import Via
from dashboard.operate.console import partitions
from dashboard.serve.api import alertmanager, reporting
from dashboard.serve.api.reporting import MAX_BODY
from dashboard.watch.annotations.labels import labels_of
from dashboard.watch.filters.search import by_name
from domain.names import MAX_NAME, MAX_STATE
from domain.scenario import Scenario

MAX_PAGE = 1000

router = OperationRouter()

_REPORT = (400, 404, 413, 415, 422, 503)


MAX_STATES = 50
"""Most states in one filter."""

DoubtName = Literal["disputed", "unconfirmed", "silent", "doubt"]
StateName = Annotated[str, Field(max_length=MAX_STATE, pattern=NO_NUL)]


@router.operation("GET scenarios", list[ScenarioOut], "read")
def list_scenarios(request: ApiRequest) -> Any:
    """Every scenario, with how many assets are in each state, and how many there is a doubt of."""
    return [_scenario_out(scenario) for scenario in scenarios().values()]


@router.operation(
    "GET scenarios/{scenario}/assets", AssetsOut | RecordsAnswerOut, "read", *READ, 503
)
def list_assets(
    request: ApiRequest,
    scenario: str,
    state: list[StateName] = Query(
        [], max_length=MAX_STATES, description="Only these states, by name or label."
    ),
    doubt: list[DoubtName] = Query(
        [], max_length=4, description="Only assets with all of these doubts."
    ),
    q: str = Query(
        "", max_length=MAX_TEXT, pattern=NO_NUL, description="Only what this filter finds."
    ),
    after: str = Query(
        "", max_length=MAX_NAME, pattern=NO_NUL, description="Only names past this one."
    ),
    limit: int = Query(100, ge=1, le=MAX_PAGE),
    via: Via | None = Query(
        None, description=f"{VIA_OF_ASSETS} Only the database takes state, doubt and q."
    ),
) -> Any:
    """Assets on the board, by name, a page at a time.

    A page may hold fewer than `limit`, even none, and more follow: `next` alone says so.
    """
    known, now = known_scenario(scenario), now_ms()
    filtered = bool(state or doubt or q)
    if via is not None and not filtered:
        return many_by(via, known, after, limit)
    if via not in (None, "database"):
        raise invalid("via", "database beside state, doubt or q: other stores find names alone")
    if unknown_states(known, state):
        raise invalid("state", f"one of {', '.join(spec.name for spec in known.states)}")
    try:
        wanted = with_states(known, state, q, now)
    except FilterError as error:
        raise invalid("q", f"{error} (characters {error.start} to {error.end})") from error
    wanted = Filter((*wanted.terms, *map(doubt_term, doubt)))
    find = partial(by_name, known, wanted, now, after=after, limit=limit)
    if via == "database":
        return filtered_by_database(known, find)
    records, more = find()
    labels = labels_of(known.name, [asset for asset, _ in records])
    items = [{**json.loads(record), "labels": labels.get(asset, {})} for asset, record in records]
    return {"items": items, "next": more}


@router.operation(
    "POST scenarios/{scenario}/reports",
    {202: ReportsOut},
    "report",
    *_REPORT,
    body=reporting.REPORTS_BODY,
)
def post_reports(request: ApiRequest, scenario: str) -> Any:
    """Send one report or a list of at most 10,000; each is answered by itself.

    202 where at least one was taken, 422 where none could be, 503 where Kafka took none. `warnings`
    say what is wrong with one that was taken: a clock far ahead, a detail that was left out. One
    that is refused for its state or time is recorded all the same, so that the board doubts its
    agent there.
    """
    known, now = known_scenario(scenario), now_ms()
    reports = reporting.as_list(read_json(request, MAX_BODY))
    REPORTS.take(request.auth.pk, now, len(reports))
    items = [reporting.check(known, report, now) for report in reports]
    return Status(202, reporting.answered(reporting.deliver(known, items, "reports")))


@router.operation(
    "POST scenarios/{scenario}/alertmanager",
    {202: ReportsOut},
    "report",
    *_REPORT,
    body=alertmanager.ALERTS_BODY,
)
def post_alerts(
    request: ApiRequest, scenario: str, options: Query[alertmanager.AlertOptions]
) -> Any:
    """What Prometheus Alertmanager's webhook sends: each alert becomes a report.

    Answered alert by alert, as reports are.
    """
    known, now = known_scenario(scenario), now_ms()
    reading = alertmanager.reading(known, options)
    alerts = alertmanager.alerts_of(read_json(request, MAX_BODY))
    REPORTS.take(request.auth.pk, now, len(alerts))
    items = [reading.item(alert, now) for alert in alerts]
    return Status(202, reporting.answered(reporting.deliver(known, items, "alertmanager")))


@router.operation("GET partitions", PartitionsOut, "read", among=OPERATORS)
def list_partitions(request: ApiRequest) -> Any:
    """Every source partition: what its log holds, and how far its bucket has come."""
    now = now_ms()
    ends, rows = partitions.partitions(now)
    return {"broker": ends.fault or "answers", "now": now, "partitions": rows}


@router.operation("GET job", JobOut, "read", among=OPERATORS)
def get_job(request: ApiRequest) -> Any:
    """How the job's queries fare, as they told last."""
    return {"now": now_ms(), "queries": schemas.query_reports()}


def _scenario_out(scenario: Scenario) -> dict[str, Any]:
    plain = scenario.to_plain()
    doubts = doubt_counts(scenario.name)
    return {**plain, "counts": counts(scenario.name), "doubts": doubts}
