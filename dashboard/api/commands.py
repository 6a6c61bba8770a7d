"""The operations on commands: pinning, purging and releasing an asset, and a command's outcome."""

# Each operation takes the request, and says its parameters in its signature.
# ruff: noqa: ARG001, B008

from __future__ import annotations

import json
import time
import uuid
from typing import Any

from django.forms.models import model_to_dict
from django.http import HttpResponse
from django.urls import reverse
from ninja import Header, Query, Schema, Status
from pydantic import Field

from dashboard.api.auth import ApiRequest
from dashboard.api.problems import Problem, invalid
from dashboard.api.router import READ, SEND, OperationRouter, known_scenario
from dashboard.api.schemas import (
    NO_NUL,
    AssetIn,
    AssetOut,
    CommandOut,
)
from dashboard.api.store_answers import VIA_OF_ASSETS, RecordAnswerOut, one_by
from dashboard.audit.log import Actor
from dashboard.commands.models import Command as Row
from dashboard.commands.status import phase_of, phase_of_outcome
from dashboard.commands.submission import IdTaken, Invalid, Submitter, submit
from dashboard.core.rate_limits import TooMany
from dashboard.core.roles import OPERATORS
from dashboard.core.times import now_ms
from dashboard.labels.queries import labels_of
from dashboard.states.models import Answer, AssetState
from dashboard.stores.ways import Via
from domain.names import name_ok
from domain.records import Command, Kind
from domain.scenario import Scenario
from domain.version import Version
from wire.source import MAX_REASON

MAX_WAIT_S = 30

router = OperationRouter()

_BARE = (404, 409, 422, 503)

COMMAND_OUT = {200: CommandOut, 202: CommandOut}

POLL_S = 0.05
"""How often a waiting request looks for the outcome, seconds."""

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
    """One asset's state record."""
    if via is not None:
        return one_by(via, known_scenario(scenario), asset)
    row = shown_asset(known_scenario(scenario), asset)
    return {**json.loads(row.record), "labels": labels_of(scenario, [asset]).get(asset, {})}


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
    by = Submitter(request.auth, Actor.of(request), "api")
    row, refusal = submit(scenario, command, by)
    if row is None:
        raise _problem_of(refusal)
    if row.status == "unsent":
        raise Problem(503, "unsent", row.outcome)
    row = _outcome(row, wait_s)
    response["Location"] = reverse("api-v1:get_command", args=(row.pk,))
    return Status(200 if wait_s and row.status == "answered" else 202, command_out(row))


def _problem_of(refusal: Invalid | IdTaken | TooMany | None) -> Exception:
    """Return the answer to a command that was refused."""
    if isinstance(refusal, Invalid):
        return invalid(refusal.field, str(refusal))
    if isinstance(refusal, TooMany):
        return refusal
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
    return model_to_dict(row) | {
        "id": str(row.pk),
        "state": row.state or None,
        "if_version": row.if_version or None,
        "user": row.username,
        "phase": phase_of(row, now_ms()),
        "outcome": row.outcome if row.status == "answered" else None,
        "version": str(Version.parse(row.version)) if row.version else None,
    }


def answer_out(answer: Answer) -> dict[str, Any]:
    """Return the answer to a command that was not sent from here: all that is known of it."""
    return model_to_dict(answer) | {
        "id": answer.command,
        "phase": phase_of_outcome(answer.outcome),
        "version": str(Version.parse(answer.version)),
        "answered_at": answer.at,
    }
