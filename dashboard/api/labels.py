"""The operations on labels."""

# Each operation takes the request, and says its parameters in its signature.
# ruff: noqa: ARG001

from __future__ import annotations

from typing import Annotated, Any

from django.db import transaction
from ninja import Schema
from pydantic import Field

from dashboard.api.auth import ApiRequest
from dashboard.api.problems import invalid
from dashboard.api.router import READ, WRITE, OperationRouter, check_asset, known_scenario
from dashboard.api.schemas import StrictSchema
from dashboard.audit.log import Actor
from dashboard.core.rate_limits import Limit
from dashboard.core.times import now_ms
from dashboard.labels.models import MAX_KEY, MAX_VALUE, Label
from dashboard.labels.queries import keys, labels_of
from dashboard.labels.validation import MOST, fault, key_fault
from dashboard.labels.writer import Wanted, counted, put, replaced, tell
from domain.names import MAX_NAME

MOST_ITEMS = 1_000
"""Most assets of one request."""
LABELS = Limit("labels", 200_000)

router = OperationRouter()

Key = Annotated[str, Field(max_length=MAX_KEY)]
Value = Annotated[str, Field(max_length=MAX_VALUE)]


class LabelsIn(StrictSchema):
    """All labels that people give the asset."""

    labels: dict[Key, Value] = Field(max_length=MOST)


class LabelsChange(StrictSchema):
    """Labels that people give the asset from now on; null takes one away."""

    labels: dict[Key, Value | None] = Field(max_length=2 * MOST)


class LabelsItem(LabelsIn):
    """The same, of the asset that is named."""

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
    wanted = {item.asset: dict(item.labels) for item in given.items}
    for number, item in enumerate(given.items):
        _check(item.asset, item.labels, f"items.{number}.")
    _put(request, name, replaced(name, wanted))
    labels = labels_of(name, list(wanted))
    return {"items": [{"asset": asset, "labels": labels.get(asset, {})} for asset in wanted]}


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


def _put(request: ApiRequest, scenario: str, wanted: Wanted) -> None:
    """Store them, unless one cannot be stored: then nothing. Raises Problem 422 or 429."""
    LABELS.take(request.auth.pk, now_ms(), sum(max(1, len(each)) for each in wanted.values()))
    with transaction.atomic():
        changes = put(scenario, wanted, request.auth.get_username(), now_ms())
        refused = next((each for each in changes if each.fault), None)
        if refused is not None:
            raise invalid("labels", f"{refused.asset!r}, {refused.key}: {refused.fault}")
    tell(Actor.of(request), scenario, wanted, counted(changes))


def _labels(scenario: str, asset: str) -> dict[str, Any]:
    check_asset(asset)
    rows = Label.objects.filter(scenario=scenario, asset=asset, shown=True).order_by("key")
    items = [
        {"key": row.key, "value": row.value, "source": row.source, "by": row.name, "at": row.at}
        for row in rows
    ]
    return {"asset": asset, "labels": {row.key: row.value for row in rows}, "items": items}
