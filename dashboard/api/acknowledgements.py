"""The operations on acknowledgements: who has an asset in hand, taking it, giving it back."""

# Each operation takes the request, and says its parameters in its signature.
# ruff: noqa: ARG001

from __future__ import annotations

from typing import Any

from django.forms.models import model_to_dict
from ninja import Schema
from pydantic import Field

from dashboard.annotations.acknowledgements import ABSENT, LONGEST_MS, acknowledge, take_back
from dashboard.annotations.models import MAX_WHY, Acknowledgement
from dashboard.api.auth import ApiRequest
from dashboard.api.problems import Problem, invalid
from dashboard.api.router import READ, WRITE, OperationRouter, check_asset, known_scenario
from dashboard.api.schemas import NO_NUL, StrictSchema
from dashboard.audit.log import Actor, note
from dashboard.core.times import HOUR_MS, now_ms
from domain.scenario import Scenario
from wire.source import MAX_TIME

USUAL_MS = HOUR_MS
"""How long an acknowledgement lasts of which no end is said."""
MOST = 20
"""Most acknowledgements that are told of one asset."""

router = OperationRouter()


class AckIn(StrictSchema):
    """What is being done, and until when (Unix ms, within seven days); null for an hour."""

    reason: str = Field("", max_length=MAX_WHY, pattern=NO_NUL)
    until: int | None = Field(None, ge=0, le=MAX_TIME)


class AckOut(Schema):
    """An acknowledgement, given on this state. ended_at: null while it is in force; ended_why: in
    words, empty where its time was its end. Times in Unix ms."""

    by: str
    at: int
    until: int
    reason: str
    state: str
    ended_at: int | None
    ended_why: str
    ended_by: str


class AcksOut(Schema):
    """Who has the asset in hand now, or null; and the newest acknowledgements, that one too."""

    asset: str
    in_force: AckOut | None
    items: list[AckOut]


@router.operation("GET scenarios/{scenario}/acknowledgements/{asset:asset}", AcksOut, "read", *READ)
def get_acknowledgements(request: ApiRequest, scenario: str, asset: str) -> Any:
    """Who has an asset in hand, and who had it: the newest twenty. It need not be on the board."""
    return _told(_known(scenario, asset), asset)


@router.operation(
    "POST scenarios/{scenario}/acknowledgements/{asset:asset}", AcksOut, "command", 409, *WRITE
)
def acknowledge_asset(request: ApiRequest, scenario: str, asset: str, given: AckIn) -> Any:
    """Take an asset in hand. It takes the place of the acknowledgement in force, whosever it is."""
    known, now = _known(scenario, asset), now_ms()
    until = now + USUAL_MS if given.until is None else given.until
    if not now < until <= now + LONGEST_MS:
        raise invalid("until", "a future time within seven days, Unix milliseconds")
    outcome = acknowledge(known, [asset], request.auth, given.reason, until, now)
    for name, why in outcome.left:
        if why == ABSENT:
            detail = f"{known.name} shows no {known.noun} {name!r}."
            raise Problem(404, "unknown-asset", detail)
        raise Problem(409, "calm", f"{name!r}: {why}.")
    note(
        Actor.of(request), "asset.acknowledged", scenario=scenario, target=asset,
        until=until, reason=given.reason,
    )  # fmt: skip
    return _told(known, asset)


@router.operation(
    "DELETE scenarios/{scenario}/acknowledgements/{asset:asset}", AcksOut, "command", *READ
)
def take_back_acknowledgement(request: ApiRequest, scenario: str, asset: str) -> Any:
    """Take back the acknowledgement in force, whosever it is; without one nothing changes."""
    known = _known(scenario, asset)
    ended = take_back(known, [asset], request.auth, now_ms())
    for name in ended:
        note(Actor.of(request), "asset.unacknowledged", scenario=scenario, target=name)
    return _told(known, asset)


def _known(name: str, asset: str) -> Scenario:
    known = known_scenario(name)
    check_asset(asset)
    return known


def _told(scenario: Scenario, asset: str) -> dict[str, Any]:
    rows = Acknowledgement.objects.filter(scenario=scenario.name, asset=asset)
    now, newest = now_ms(), list(rows.order_by("-at", "-id")[:MOST])
    held = next((_plain(row, now) for row in newest if row.in_force(now)), None)
    return {"asset": asset, "in_force": held, "items": [_plain(row, now) for row in newest]}


def _plain(row: Acknowledgement, now: int) -> dict[str, Any]:
    own = {"by": row.username, "ended_at": row.end(now), "ended_why": row.end_words}
    return model_to_dict(row) | own
