"""The operations on one asset: its record, commands to it, and scheduled tasks."""

# ruff: noqa: ARG001, B008

from __future__ import annotations

import uuid
from typing import Any, Literal

from django.forms.models import model_to_dict
from django.http import HttpResponse
from django.urls import reverse
from ninja import Header, Query, Schema, Status
from pydantic import Field

from dashboard.core.api.problems import Problem, invalid
from dashboard.core.api.router import (
    READ,
    SEND,
    ApiRequest,
    Filtered,
    OperationRouter,
    filtered,
    known_scenario,
)
from dashboard.core.api.schemas import NO_NUL, AssetOut, StrictSchema
from dashboard.core.api.store_answers import VIA_OF_ASSETS, RecordAnswerOut, one_by
from dashboard.core.audit.log import Actor
from dashboard.core.common.access import OPERATORS
from dashboard.core.states.board_rows import plain_record
from dashboard.core.states.models import Answer, AssetState
from dashboard.core.states.stores import Via
from dashboard.watch.annotations.labels import labels_of
from dashboard.watch.commands.models import Command as Row
from dashboard.watch.commands.models import phase_of_outcome
from dashboard.watch.commands.schedules import ScheduleFilterForm, TaskList
from dashboard.watch.commands.submission import Submitter, submit
from dashboard.watch.commands.views import command_out, render_outcome
from domain.config_values import MAX_DURATION
from domain.names import MAX_NAME, MAX_STATE, name_ok
from domain.records import Command, Kind, Schedule
from domain.scenario import LEAST_PERIOD, MAX_RUNS, Action, Scenario
from domain.version import Version
from wire.source import MAX_REASON, MAX_TIME

# ---- commands ------------------------------------------------------------------------------------
# The operations on commands: pinning, purging and releasing an asset, and a command's outcome.

# Each operation takes the request, and says its parameters in its signature.


MAX_WAIT_S = 30

router = OperationRouter()

_BARE = (404, 409, 422, 503)


class AssetIn(StrictSchema):
    """The state to pin (`set`), or to vote for as one more agent (`vote`)."""

    state: str = Field(min_length=1, max_length=MAX_STATE)
    mode: Literal["set", "vote"] = "set"
    reason: str = Field("", max_length=MAX_REASON, pattern=NO_NUL, description="A `set` needs one.")
    until: int | None = Field(
        None, ge=0, le=MAX_TIME, strict=True, description="End of a `set`, Unix ms."
    )
    if_version: str | None = Field(
        None,
        max_length=64,
        description="Refuse where state, pending or override has changed since, such as 1.42.0.",
    )


class CommandOut(Schema):
    """A command and how far it has come. Times in Unix ms.

    `phase`: sending, unknown (not confirmed in time; it may still arrive), sent, applied,
    no-change, refused or unsent. `outcome` is the job's answer, null until then. Of a command that
    was not sent from here only the answer is known.
    """

    id: str
    scenario: str
    asset: str
    phase: Literal["sending", "unknown", "sent", "applied", "no-change", "refused", "unsent"]
    kind: str | None = None
    state: str | None = None
    until: int | None = None
    reason: str | None = None
    if_version: str | None = None
    user: str | None = None
    source: str | None = None
    created_at: int | None = None
    partition: int | None = None
    offset: int | None = None
    outcome: str | None = None
    version: str | None = None
    answered_at: int | None = None


COMMAND_OUT = {200: CommandOut, 202: CommandOut}

Wait = Query(0.0, ge=0, le=MAX_WAIT_S, description="Seconds to wait for the outcome.")

Key = Header(
    None,
    alias="Idempotency-Key",
    description="A UUID of this command: if it is sent again, it is carried out once.",
)


class Options(Schema):
    """What may come with a command that has no body."""

    reason: str = Field("", max_length=MAX_REASON, pattern=NO_NUL)
    if_version: str | None = Field(None, max_length=64)
    wait: float = Field(0.0, ge=0, le=MAX_WAIT_S, description="Seconds to wait for the outcome.")


@router.operation(
    "GET scenarios/{scenario}/assets/{asset:asset}",
    AssetOut | RecordAnswerOut,
    "read",
    *READ,
    503,
)
def get_asset(
    request: ApiRequest,
    scenario: str,
    asset: str,
    via: Via | None = Query(None, description=VIA_OF_ASSETS),
) -> Any:
    """One asset's state record, its labels, and what agents add of the scenario's details."""
    if via is not None:
        return one_by(via, known_scenario(scenario), asset)
    known = known_scenario(scenario)
    row = shown_asset(known, asset)
    return plain_record(known, row.record, labels_of(scenario, [asset]).get(asset, {}))


@router.operation("PUT scenarios/{scenario}/assets/{asset:asset}", COMMAND_OUT, "command", *SEND)
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
    known = known_scenario(scenario)
    command = Command(
        kind=given.mode,
        asset=asset,
        id=str(key or uuid.uuid4()),
        user=request.auth.get_username(),
        reason=given.reason,
        state=given.state,
        until=given.until,
        if_version=parsed_version(given.if_version),
    )
    return send_command(request, response, known, command, wait)


@router.operation(
    "DELETE scenarios/{scenario}/assets/{asset:asset}", COMMAND_OUT, "command", *_BARE
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
    return _command("purge", request, response, scenario, asset, options, key)


@router.operation("POST scenarios/{scenario}/release/{asset:asset}", COMMAND_OUT, "command", *_BARE)
def release_asset(
    request: ApiRequest,
    response: HttpResponse,
    scenario: str,
    asset: str,
    options: Query[Options],
    key: uuid.UUID | None = Key,
) -> Any:
    """End the asset's override, and withdraw the user's own vote."""
    return _command("release", request, response, scenario, asset, options, key)


@router.operation("GET commands/{uuid:id}", CommandOut, "read", 404, among=OPERATORS)
def get_command(request: ApiRequest, id: uuid.UUID) -> Any:  # noqa: A002 - as in the URL
    """A command, how far it has come, and its outcome."""
    row = Row.objects.filter(pk=id).first()
    if row is not None:
        return command_out(row)
    answer = Answer.objects.filter(command=str(id)).first()
    if answer is None:
        raise Problem(404, "unknown-command")
    return answer_out(answer)


def shown_asset(scenario: Scenario, asset: str) -> AssetState:
    rows = AssetState.objects.filter(scenario=scenario.name, asset=asset, purged=False)
    row = rows.first() if name_ok(asset) else None
    if row is None:
        raise Problem(404, "unknown-asset", f"{scenario.name} shows no {scenario.noun} {asset!r}.")
    return row


def parsed_version(text: str | None) -> Version | None:
    """Return the version that a body names, None where it names none. Raises Problem 422."""
    try:
        return Version.parse(text) if text else None
    except ValueError as error:
        raise invalid("if_version", "epoch.offset.step, such as 1.42.0") from error


def _command(
    kind: Kind,
    request: ApiRequest,
    response: HttpResponse,
    scenario: str,
    asset: str,
    options: Options,
    key: uuid.UUID | None,
) -> Status[Any]:
    """Send a command about an asset that the board shows, or that was sent before."""
    command = Command(
        kind=kind,
        asset=asset,
        id=str(key or uuid.uuid4()),
        user=request.auth.get_username(),
        reason=options.reason,
        if_version=parsed_version(options.if_version),
    )
    known = known_scenario(scenario)
    if not Row.objects.filter(pk=command.id).exists():  # a repeated purge finds no asset any more
        shown_asset(known, asset)
    return send_command(request, response, known, command, options.wait)


def send_command(
    request: ApiRequest,
    response: HttpResponse,
    scenario: Scenario,
    command: Command,
    wait_s: float,
) -> Status[Any]:
    """Send the command.

    Returns 202 and where to follow it, or 200 and its outcome within the wait.
    """
    outcome = submit(scenario, command, Submitter(request.auth, Actor.of(request), "api"))
    answer: Status[Any] = render_outcome(request, outcome, wait_s=wait_s)
    response["Location"] = reverse("api-v1:get_command", args=(command.id,))
    return answer


def answer_out(answer: Answer) -> dict[str, Any]:
    """Return the answer to a command that was not sent from here: all that is known of it."""
    return model_to_dict(answer) | {
        "id": answer.command,
        "phase": phase_of_outcome(answer.outcome),
        "version": str(Version.parse(answer.version)),
        "answered_at": answer.at,
    }


# ---- schedules -----------------------------------------------------------------------------------
# The operations on scheduled tasks: their list, scheduling one, cancelling one.

# Each operation takes the request, and says its parameters in its signature.


MAX_NUMBER = 2**63 - 1


class ScheduleIn(StrictSchema):
    """A task. do: what it does, to the asset in the state `if` alone where that is given; state:
    what a `set` sets; after (ms) or at (Unix ms): when it runs first; every: ms from one run to the
    next, else it runs once; times, until (Unix ms): how often, and how long."""

    do: Action
    state: str | None = Field(None, max_length=MAX_STATE, pattern=NO_NUL)
    condition: str | None = Field(None, alias="if", max_length=MAX_STATE, pattern=NO_NUL)
    after: int | None = Field(None, ge=LEAST_PERIOD, le=MAX_DURATION)
    at: int | None = Field(None, ge=0, le=MAX_TIME)
    every: int | None = Field(None, ge=LEAST_PERIOD, le=MAX_DURATION)
    times: int | None = Field(None, ge=1, le=MAX_RUNS)
    until: int | None = Field(None, ge=0, le=MAX_TIME)
    reason: str = Field("", max_length=MAX_REASON, pattern=NO_NUL)
    if_version: str | None = Field(None, max_length=64)


class CancelIn(StrictSchema):
    """Which task of the asset is cancelled, by its id, and why."""

    task: uuid.UUID
    reason: str = Field("", max_length=MAX_REASON, pattern=NO_NUL)


class TaskOut(Schema):
    """A task. next: its next run; owner: in whose name it runs, `the rule` for a task of the
    scenario; outcome, ran_at: of its last run; aside: why it does not run under the rule in force;
    ending: how it ended. Times in Unix ms."""

    id: str
    scenario: str
    asset: str
    do: str
    state: str | None
    condition: str | None = Field(None, alias="if")
    next: int | None
    every: int | None
    until: int | None
    times: int | None
    owner: str
    reason: str
    outcome: str | None
    ran_at: int | None
    aside: str | None
    ended_at: int | None
    ending: str | None


class TasksOut(Schema):
    """Tasks, the last recorded first; next: `before` of the next page, or null."""

    items: list[TaskOut]
    next: int | None


@router.operation("GET schedules", TasksOut, "read", *READ)
def list_schedules(
    request: ApiRequest,
    scenario: str = Query("", max_length=40, pattern=NO_NUL),
    status: Literal["", "waiting", "aside", "over"] = "",
    do: Literal["", "emit", "notify", "set", "release", "purge"] = "",
    owner: str = Query("", max_length=MAX_NAME, pattern=NO_NUL),
    q: str = Query("", max_length=MAX_NAME, pattern=NO_NUL, description="A part of the name."),
    filter: str = Filtered,  # noqa: A002 - the parameter's name
    before: int | None = Query(None, ge=0, le=MAX_NUMBER, description="Only older ones."),
    limit: int = Query(100, ge=1, le=500),
) -> Any:
    """Scheduled tasks: those that are not over, or those of a status or a filter."""
    if scenario:
        known_scenario(scenario)
    narrower = {"scenario": scenario, "status": status, "do": do, "owner": owner, "word": q}
    rows = filtered(ScheduleFilterForm, filter, **narrower)
    return TaskList().answer(rows, limit, before)


@router.operation("POST scenarios/{scenario}/schedule/{asset:asset}", COMMAND_OUT, "command", *SEND)
def schedule_task(
    request: ApiRequest,
    response: HttpResponse,
    scenario: str,
    asset: str,
    given: ScheduleIn,
    wait: float = Wait,
    key: uuid.UUID | None = Key,
) -> Any:
    """Schedule a task for the asset; the command's id is the task's."""
    known = known_scenario(scenario)
    command = Command(
        kind="schedule",
        asset=asset,
        id=str(key or uuid.uuid4()),
        user=request.auth.get_username(),
        reason=given.reason,
        state=given.state,
        until=given.until,
        if_version=parsed_version(given.if_version),
        schedule=Schedule(
            given.do, given.condition, given.after, given.at, given.every, given.times
        ),
    )
    return send_command(request, response, known, command, wait)


@router.operation("POST scenarios/{scenario}/cancel/{asset:asset}", COMMAND_OUT, "command", *SEND)
def cancel_task(
    request: ApiRequest,
    response: HttpResponse,
    scenario: str,
    asset: str,
    given: CancelIn,
    wait: float = Wait,
    key: uuid.UUID | None = Key,
) -> Any:
    """Cancel a task of the asset, one of the scenario's too."""
    known = known_scenario(scenario)
    user, id_ = request.auth.get_username(), str(key or uuid.uuid4())
    command = Command("cancel", asset, id_, user, given.reason, task=str(given.task))
    return send_command(request, response, known, command, wait)
