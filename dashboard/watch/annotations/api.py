"""The operations on acknowledgements and on labels."""

# ruff: noqa: ARG001

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from django.db import transaction
from django.forms.models import model_to_dict
from ninja import Schema
from pydantic import Field

from dashboard.core.api.problems import Problem, invalid
from dashboard.core.api.router import (
    READ,
    WRITE,
    ApiRequest,
    OperationRouter,
    check_asset,
    known_scenario,
)
from dashboard.core.api.schemas import NO_NUL, StrictSchema
from dashboard.core.audit.log import Actor, record
from dashboard.core.common.access import Limit
from dashboard.core.common.times import HOUR_MS, now_ms
from dashboard.watch.annotations.acknowledgements import ABSENT, LONGEST_MS, acknowledge, take_back
from dashboard.watch.annotations.labels import (
    MOST_LABELS,
    LabelEdits,
    counted,
    fault,
    key_fault,
    keys,
    labels_of,
    log_edits,
    put,
    replaced,
)
from dashboard.watch.annotations.models import MAX_KEY, MAX_VALUE, MAX_WHY, Acknowledgement, Label
from domain.names import MAX_NAME
from domain.scenario import Scenario
from wire.source import MAX_TIME

# ---- acknowledgements ----------------------------------------------------------------------------
# The operations on acknowledgements: who has an asset in hand, taking it, giving it back.

# Each operation takes the request, and says its parameters in its signature.


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
    return _plain_acknowledgements(_known(scenario, asset), asset)


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
    record(
        Actor.of(request), "asset.acknowledged", scenario=scenario, target=asset,
        until=until, reason=given.reason,
    )  # fmt: skip
    return _plain_acknowledgements(known, asset)


@router.operation(
    "DELETE scenarios/{scenario}/acknowledgements/{asset:asset}", AcksOut, "command", *READ
)
def take_back_acknowledgement(request: ApiRequest, scenario: str, asset: str) -> Any:
    """Take back the acknowledgement in force, whosever it is; without one nothing changes."""
    known = _known(scenario, asset)
    ended = take_back(known, [asset], request.auth, now_ms())
    for name in ended:
        record(Actor.of(request), "asset.unacknowledged", scenario=scenario, target=name)
    return _plain_acknowledgements(known, asset)


def _known(name: str, asset: str) -> Scenario:
    known = known_scenario(name)
    check_asset(asset)
    return known


def _plain_acknowledgements(scenario: Scenario, asset: str) -> dict[str, Any]:
    rows = Acknowledgement.objects.filter(scenario=scenario.name, asset=asset)
    now, newest = now_ms(), list(rows.order_by("-at", "-id")[:MOST])
    held = next((_plain(row, now) for row in newest if row.in_force(now)), None)
    return {"asset": asset, "in_force": held, "items": [_plain(row, now) for row in newest]}


def _plain(row: Acknowledgement, now: int) -> dict[str, Any]:
    own = {"by": row.username, "ended_at": row.end(now), "ended_why": row.end_words}
    return model_to_dict(row) | own


# ---- labels --------------------------------------------------------------------------------------
# The operations on labels.

# Each operation takes the request, and says its parameters in its signature.


MOST_ITEMS = 1_000
"""Most assets of one request."""
LABELS = Limit("labels", 200_000)


Key = Annotated[str, Field(max_length=MAX_KEY)]
Value = Annotated[str, Field(max_length=MAX_VALUE)]


class LabelsIn(StrictSchema):
    """All labels that people give the asset. What its agents say stays theirs."""

    read_only: ClassVar[tuple[str, ...]] = ("asset", "items")

    labels: dict[Key, Value] = Field(max_length=MOST_LABELS)


class LabelsChange(StrictSchema):
    """Labels that people give the asset from now on; null takes one away."""

    labels: dict[Key, Value | None] = Field(max_length=2 * MOST_LABELS)


class LabelsItem(LabelsIn):
    """The same, of the asset that is named."""

    read_only = ("items",)

    asset: str = Field(min_length=1, max_length=MAX_NAME)


class ManyIn(StrictSchema):
    """Several assets and all labels that people give them."""

    items: list[LabelsItem] = Field(max_length=MOST_ITEMS)


class LabelOut(Schema):
    """A label that is shown. source: person or agent; by: which; at: since when, Unix ms."""

    key: str
    value: str
    source: str
    by: str
    at: int


class LabelsOut(Schema):
    """An asset's labels: key and value, and where each comes from."""

    asset: str
    labels: dict[str, str]
    items: list[LabelOut]


class ManyOut(Schema):
    """The assets in their order, with their labels as they are now."""

    items: list[dict[str, Any]]


class KeysOut(Schema):
    """The keys of a scenario's labels."""

    keys: list[str]


@router.operation("GET scenarios/{scenario}/labels", KeysOut, "read", 404)
def list_label_keys(request: ApiRequest, scenario: str) -> Any:
    """The keys that the labels of a scenario's assets have."""
    return {"keys": list(keys(known_scenario(scenario).name))}


@router.operation("PUT scenarios/{scenario}/labels", ManyOut, "command", *WRITE)
def put_many_labels(request: ApiRequest, scenario: str, given: ManyIn) -> Any:
    """Give several assets the labels that people give them: all of each, or nothing of any."""
    name = known_scenario(scenario).name
    edits = {item.asset: dict(item.labels) for item in given.items}
    for number, item in enumerate(given.items):
        _check(item.asset, item.labels, f"items.{number}.")
    _put(request, name, replaced(name, edits))
    labels = labels_of(name, list(edits))
    return {"items": [{"asset": asset, "labels": labels.get(asset, {})} for asset in edits]}


@router.operation("GET scenarios/{scenario}/labels/{asset:asset}", LabelsOut, "read", *READ)
def get_labels(request: ApiRequest, scenario: str, asset: str) -> Any:
    """An asset's labels. One that is not on the board may have some too."""
    return _labels(known_scenario(scenario).name, asset)


@router.operation("PUT scenarios/{scenario}/labels/{asset:asset}", LabelsOut, "command", *WRITE)
def put_labels(request: ApiRequest, scenario: str, asset: str, given: LabelsIn) -> Any:
    """Give an asset these labels, and none of people's besides."""
    name = known_scenario(scenario).name
    _check(asset, given.labels)
    _put(request, name, replaced(name, {asset: dict(given.labels)}))
    return _labels(name, asset)


@router.operation("PATCH scenarios/{scenario}/labels/{asset:asset}", LabelsOut, "command", *WRITE)
def patch_labels(request: ApiRequest, scenario: str, asset: str, given: LabelsChange) -> Any:
    """Give an asset these labels beside those that it has; null takes one of people's away."""
    name = known_scenario(scenario).name
    _check(asset, given.labels)
    _put(request, name, {asset: given.labels})
    return _labels(name, asset)


@router.operation("DELETE scenarios/{scenario}/labels/{asset:asset}", LabelsOut, "command", *READ)
def delete_labels(request: ApiRequest, scenario: str, asset: str) -> Any:
    """Take away all labels that people have given an asset; what agents say of it is shown then."""
    name = known_scenario(scenario).name
    _check(asset, {})
    _put(request, name, replaced(name, {asset: {}}))
    return _labels(name, asset)


def _check(asset: str, labels: dict[str, Any], before: str = "") -> None:
    """Raise Problem 422 for what can be no asset or no label."""
    check_asset(asset, f"{before}asset")
    for key, value in labels.items():
        wrong = key_fault(key) if value is None else fault(key, value)
        if wrong:
            raise invalid(f"{before}labels.{key}", wrong)


def _put(request: ApiRequest, scenario: str, edits: LabelEdits) -> None:
    """Store them, unless one cannot be stored: then nothing. Raises Problem 422 or 429."""
    LABELS.take(request.auth.pk, now_ms(), sum(max(1, len(each)) for each in edits.values()))
    with transaction.atomic():
        changes = put(scenario, edits, request.auth.get_username(), now_ms())
        refused = next((each for each in changes if each.fault), None)
        if refused is not None:
            raise invalid("labels", f"{refused.asset!r}, {refused.key}: {refused.fault}")
    log_edits(Actor.of(request), scenario, edits, counted(changes))


def _labels(scenario: str, asset: str) -> dict[str, Any]:
    check_asset(asset)
    rows = Label.objects.shown(scenario).filter(asset=asset).order_by("key")
    items = [
        {"key": row.key, "value": row.value, "source": row.source, "by": row.name, "at": row.at}
        for row in rows
    ]
    return {"asset": asset, "labels": {row.key: row.value for row in rows}, "items": items}
