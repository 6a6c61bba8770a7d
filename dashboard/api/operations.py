"""The operations of `/api/v1`."""

# Each operation takes the request, and says its parameters in its signature.
# ruff: noqa: ARG001, B008

from __future__ import annotations

import json
import time
import uuid
from typing import Annotated, Any, Literal

from django.http import HttpResponse
from django.urls import reverse
from ninja import Header, Query, Router, Schema, Status
from pydantic import Field

from dashboard.api import alertmanager, job, reporting
from dashboard.api.auth import ApiRequest, allow
from dashboard.api.bodies import read_json
from dashboard.api.problems import Problem, documented, invalid, too_many
from dashboard.api.reporting import MAX_BODY, Item, Way
from dashboard.api.schemas import (
    NO_NUL,
    AssetIn,
    AssetOut,
    AssetsOut,
    CommandOut,
    JobOut,
    PartitionsOut,
    ReportsOut,
    ScenarioOut,
)
from dashboard.audit.log import Actor
from dashboard.commands.models import Command as Row
from dashboard.commands.status import phase_of, phase_of_outcome
from dashboard.commands.submission import IdTaken, Invalid, Submitter, submit
from dashboard.console import partitions
from dashboard.core.rate_limits import REPORTS, TooMany
from dashboard.core.scenarios import scenarios
from dashboard.core.times import now_ms
from dashboard.filter_language.parser import MAX_TEXT, FilterError
from dashboard.filter_language.terms import Filter, doubt_term
from dashboard.filters.search import by_name
from dashboard.labels.queries import labels_of
from dashboard.live.typed_filter import asked
from dashboard.states.models import Answer, AssetState
from dashboard.states.queries import counts, doubt_counts
from domain.names import MAX_NAME, MAX_STATE, name_ok
from domain.records import Command, Kind
from domain.scenario import Scenario
from domain.version import Version
from wire.source import MAX_REASON

MAX_WAIT_S = 30
MAX_PAGE = 1000

router = Router()

_READ = documented(404, 422)
_COMMAND = documented(400, 404, 409, 413, 415, 422, 503)
_BARE = documented(404, 409, 422, 503)
_REPORTS = documented(400, 404, 413, 415, 422, 503)
_COMMAND_OUT = {200: CommandOut, 202: CommandOut}

POLL_S = 0.05
"""How often a waiting request looks for the outcome, seconds."""

MAX_STATES = 50
"""Most states in one filter."""

DoubtName = Literal["disputed", "unconfirmed", "silent"]
StateName = Annotated[str, Field(max_length=MAX_STATE, pattern=NO_NUL)]

Wait = Query(0.0, ge=0, le=MAX_WAIT_S, description="Seconds to wait for the outcome.")
Key = Header(
    None,
    alias="Idempotency-Key",
    description="A UUID that names this command: sent again, it is carried out once.",
)


class Options(Schema):
    """What may come with a command that has no body."""

    reason: str = Field("", max_length=MAX_REASON, pattern=NO_NUL)
    if_version: str | None = Field(None, max_length=64)
    wait: float = Field(0.0, ge=0, le=MAX_WAIT_S, description="Seconds to wait for the outcome.")


@router.get(
    "scenarios",
    response=list[ScenarioOut],
    auth=allow("read"),
    openapi_extra=documented(),
)
def list_scenarios(request: ApiRequest) -> Any:
    """Every scenario, with how many assets are in each state, and how many there is a doubt of."""
    return [_scenario_out(scenario) for scenario in scenarios().values()]


@router.get(
    "scenarios/{scenario}/assets",
    response=AssetsOut,
    auth=allow("read"),
    openapi_extra=_READ,
)
def list_assets(
    request: ApiRequest,
    scenario: str,
    state: list[StateName] = Query(
        [], max_length=MAX_STATES, description="Only these states, by name or label."
    ),
    doubt: list[DoubtName] = Query(
        [], max_length=3, description="Only assets of which there is every one of these doubts."
    ),
    q: str = Query(
        "", max_length=MAX_TEXT, pattern=NO_NUL, description="Only what this filter finds."
    ),
    after: str = Query(
        "", max_length=MAX_NAME, pattern=NO_NUL, description="Only names past this one."
    ),
    limit: int = Query(100, ge=1, le=MAX_PAGE),
) -> Any:
    """Assets on the board, by name, a page at a time.

    A page may hold fewer than `limit`, even none, and more follow: `next` alone says so.
    """
    known, now = _known(scenario), now_ms()
    try:
        wanted = asked(known, state, q, now)
    except FilterError as error:
        raise invalid("q", f"{error} (characters {error.start} to {error.end})") from error
    wanted = Filter((*wanted.terms, *map(doubt_term, doubt)))
    records, more = by_name(known, wanted, now, after=after, limit=limit)
    labels = labels_of(known.name, [asset for asset, _ in records])
    items = [{**json.loads(record), "labels": labels.get(asset, {})} for asset, record in records]
    return {"items": items, "next": more}


@router.get(
    "scenarios/{scenario}/assets/{asset:asset}",
    response=AssetOut,
    auth=allow("read"),
    openapi_extra=_READ,
)
def get_asset(request: ApiRequest, scenario: str, asset: str) -> Any:
    """One asset's state record."""
    row = _shown(_known(scenario), asset)
    return {**json.loads(row.record), "labels": labels_of(scenario, [asset]).get(asset, {})}


@router.put(
    "scenarios/{scenario}/assets/{asset:asset}",
    response=_COMMAND_OUT,
    auth=allow("command"),
    openapi_extra=_COMMAND,
)
def put_asset(
    request: ApiRequest,
    response: HttpResponse,
    scenario: str,
    asset: str,
    given: AssetIn,
    wait: float = Wait,
    key: uuid.UUID | None = Key,
) -> Any:
    """Pin the asset's state, or vote for one. An asset that is not there yet is made."""
    known = _known(scenario)
    command = Command(
        kind=given.mode,
        asset=asset,
        id=str(key or uuid.uuid4()),
        user=request.auth.get_username(),
        reason=given.reason,
        state=given.state,
        until=given.until,
        if_version=_version(given.if_version),
    )
    return _submit(request, response, known, command, wait)


@router.delete(
    "scenarios/{scenario}/assets/{asset:asset}",
    response=_COMMAND_OUT,
    auth=allow("command"),
    openapi_extra=_BARE,
)
def purge_asset(
    request: ApiRequest,
    response: HttpResponse,
    scenario: str,
    asset: str,
    options: Query[Options],
    key: uuid.UUID | None = Key,
) -> Any:
    """Take the asset off the board: its state, votes and override go."""
    command = _bare("purge", asset, options, request, key)
    return _on_shown(request, response, scenario, command, options)


@router.post(
    "scenarios/{scenario}/release/{asset:asset}",
    response=_COMMAND_OUT,
    auth=allow("command"),
    openapi_extra=_BARE,
)
def release_asset(
    request: ApiRequest,
    response: HttpResponse,
    scenario: str,
    asset: str,
    options: Query[Options],
    key: uuid.UUID | None = Key,
) -> Any:
    """End the asset's override, and withdraw the user's own vote."""
    command = _bare("release", asset, options, request, key)
    return _on_shown(request, response, scenario, command, options)


@router.post(
    "scenarios/{scenario}/reports",
    response={202: ReportsOut},
    auth=allow("report"),
    openapi_extra={**_REPORTS, "requestBody": reporting.REPORTS_BODY},
)
def post_reports(request: ApiRequest, scenario: str) -> Any:
    """Send one report or a list of at most 10,000; each is answered by itself.

    202 where at least one was taken, 422 where none could be, 503 where Kafka took none.
    """
    known, now = _known(scenario), now_ms()
    reports = reporting.as_list(read_json(request, MAX_BODY))
    _take_reports(request, len(reports))
    return _report(known, [reporting.check(known, report, now) for report in reports], "reports")


@router.post(
    "scenarios/{scenario}/alertmanager",
    response={202: ReportsOut},
    auth=allow("report"),
    openapi_extra={**_REPORTS, "requestBody": alertmanager.ALERTS_BODY},
)
def post_alerts(
    request: ApiRequest, scenario: str, options: Query[alertmanager.AlertOptions]
) -> Any:
    """What Prometheus Alertmanager's webhook sends: each alert becomes a report.

    Answered alert by alert, as reports are.
    """
    known, now = _known(scenario), now_ms()
    reading = alertmanager.reading(known, options)
    alerts = alertmanager.alerts_of(read_json(request, MAX_BODY))
    _take_reports(request, len(alerts))
    return _report(known, [reading.item(alert, now) for alert in alerts], "alertmanager")


@router.get(
    "commands/{uuid:id}",
    response=CommandOut,
    auth=allow("read"),
    openapi_extra=documented(404),
)
def get_command(request: ApiRequest, id: uuid.UUID) -> Any:  # noqa: A002 - as in the URL
    """A command, how far it has come, and its outcome."""
    row = Row.objects.filter(pk=id).first()
    if row is not None:
        return command_out(row)
    answer = Answer.objects.filter(command=str(id)).first()
    if answer is None:
        raise Problem(404, "unknown-command")
    return answer_out(answer)


@router.get("partitions", response=PartitionsOut, auth=allow("read"), openapi_extra=documented())
def list_partitions(request: ApiRequest) -> Any:
    """Every source partition: what its log holds, and how far its bucket has come."""
    now = now_ms()
    ends, rows = partitions.partitions(now)
    return {"broker": ends.fault or "answers", "now": now, "partitions": rows}


@router.get("job", response=JobOut, auth=allow("read"), openapi_extra=documented())
def get_job(request: ApiRequest) -> Any:
    """How the job's queries fare, as they told last."""
    return {"now": now_ms(), "queries": job.queries()}


def _take_reports(request: ApiRequest, number: int) -> None:
    try:
        REPORTS.take(request.auth.pk, now_ms(), number)
    except TooMany as error:
        raise too_many(error) from error


def _report(scenario: Scenario, items: list[Item], way: Way) -> Status[Any]:
    return Status(202, reporting.answered(reporting.deliver(scenario, items, way)))


def _known(name: str) -> Scenario:
    known = scenarios().get(name)
    if known is None:
        names = ", ".join(scenarios())
        raise Problem(404, "unknown-scenario", f"{name!r} is none of: {names}.")
    return known


def _shown(scenario: Scenario, asset: str) -> AssetState:
    rows = AssetState.objects.filter(scenario=scenario.name, asset=asset, purged=False)
    row = rows.first() if name_ok(asset) else None
    if row is None:
        raise Problem(404, "unknown-asset", f"{scenario.name} shows no {scenario.noun} {asset!r}.")
    return row


def _version(text: str | None) -> Version | None:
    try:
        return Version.parse(text) if text else None
    except ValueError as error:
        raise invalid("if_version", "epoch.offset.step, such as 1.42.0") from error


def _bare(
    kind: Kind, asset: str, options: Options, request: ApiRequest, key: uuid.UUID | None
) -> Command:
    return Command(
        kind=kind,
        asset=asset,
        id=str(key or uuid.uuid4()),
        user=request.auth.get_username(),
        reason=options.reason,
        if_version=_version(options.if_version),
    )


def _on_shown(
    request: ApiRequest, response: HttpResponse, scenario: str, command: Command, options: Options
) -> Status[Any]:
    known = _known(scenario)
    if not Row.objects.filter(pk=command.id).exists():  # a repeated purge finds no asset any more
        _shown(known, command.asset)
    return _submit(request, response, known, command, options.wait)


def _submit(
    request: ApiRequest,
    response: HttpResponse,
    scenario: Scenario,
    command: Command,
    wait_s: float,
) -> Status[Any]:
    """Send the command.

    Returns 202 and where to follow it, or 200 and its outcome within the wait.
    """
    by = Submitter(request.auth, Actor.of(request), "api")
    row, refusal = submit(scenario, command, by)
    if row is None:
        raise _problem_of(refusal)
    if row.status == "unsent":
        raise Problem(503, "unsent", row.outcome)
    row = _outcome(row, wait_s)
    response["Location"] = reverse("api-v1:get_command", args=(row.pk,))
    return Status(200 if wait_s and row.status == "answered" else 202, command_out(row))


def _problem_of(refusal: Invalid | IdTaken | TooMany | None) -> Problem:
    """Return the answer to a command that was refused."""
    if isinstance(refusal, Invalid):
        return invalid(refusal.field, str(refusal))
    if isinstance(refusal, TooMany):
        return too_many(refusal)
    return Problem(409, "id-taken", str(refusal))


def _outcome(row: Row, wait_s: float) -> Row:
    """Return the row once it is answered, or as it stands when the wait is over."""
    end = time.monotonic() + wait_s
    while row.status != "answered" and time.monotonic() < end:
        time.sleep(POLL_S)
        row.refresh_from_db()
    return row


def command_out(row: Row) -> dict[str, Any]:
    """Return a command's row as the API gives it."""
    answered_ = row.status == "answered"
    return {
        "id": str(row.pk),
        "scenario": row.scenario,
        "asset": row.asset,
        "kind": row.kind,
        "state": row.state or None,
        "until": row.until,
        "reason": row.reason,
        "if_version": row.if_version or None,
        "user": row.username,
        "source": row.source,
        "created_at": row.created_at,
        "phase": phase_of(row, now_ms()),
        "partition": row.partition,
        "offset": row.offset,
        "outcome": row.outcome if answered_ else None,
        "version": str(Version.parse(row.version)) if row.version else None,
        "answered_at": row.answered_at,
    }


def answer_out(answer: Answer) -> dict[str, Any]:
    """Return the answer to a command that was not sent from here: all that is known of it."""
    return {
        "id": answer.command,
        "scenario": answer.scenario,
        "asset": answer.asset,
        "phase": phase_of_outcome(answer.outcome),
        "outcome": answer.outcome,
        "version": str(Version.parse(answer.version)),
        "answered_at": answer.at,
    }


def _scenario_out(scenario: Scenario) -> dict[str, Any]:
    plain = scenario.to_plain()
    doubts = doubt_counts(scenario.name)
    return {**plain, "counts": counts(scenario.name), "doubts": doubts}
