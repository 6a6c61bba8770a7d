"""The operations on scheduled tasks: their list, scheduling one, cancelling one."""

# Each operation takes the request, and says its parameters in its signature.
# ruff: noqa: ARG001

from __future__ import annotations

import uuid
from typing import Any, Literal

from django.http import HttpResponse
from ninja import Query, Schema
from pydantic import Field

from dashboard.api.auth import ApiRequest
from dashboard.api.commands import COMMAND_OUT, Key, Wait, parsed_version, send_command
from dashboard.api.router import READ, SEND, OperationRouter, known_scenario
from dashboard.api.schemas import NO_NUL, StrictSchema
from dashboard.core.listing import NEWEST_FIRST, page_of
from dashboard.schedules.queries import Wanted, plain
from domain.config_values import MAX_DURATION
from domain.names import MAX_NAME, MAX_STATE
from domain.records import Command, Schedule
from domain.scenario import LEAST_PERIOD, MAX_RUNS, Action
from wire.source import MAX_REASON, MAX_TIME

MAX_NUMBER = 2**63 - 1

router = OperationRouter()


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
    before: int | None = Query(None, ge=0, le=MAX_NUMBER, description="Only older ones."),
    limit: int = Query(100, ge=1, le=500),
) -> Any:
    """Scheduled tasks that are not over, or those of a status."""
    if scenario:
        known_scenario(scenario)
    rows = Wanted(scenario, q, do, owner, status).rows()
    page = page_of(rows, NEWEST_FIRST, limit, None if before is None else (before,))
    following = page.following[0] if page.following else None
    return {"items": [plain(row) for row in page.rows], "next": following}


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
