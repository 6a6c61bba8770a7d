"""Every example of the OpenAPI document works: sent as it stands, it is answered with success."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.core.cache import cache
from django.test import Client

from dashboard.core.common import times
from dashboard.core.common.scenarios import scenarios
from dashboard.notify.summaries.models import StatusPage
from dashboard.serve.api.api import COMMAND, OF_OPERATION, PARAMETERS, api
from dashboard.watch.commands import submission
from dashboard.watch.commands.models import Command as Row
from dashboard.watch.filters.models import SavedFilter
from dashboard.watch.incidents.models import Case, Incident
from support.web.web_fixtures import (
    answer,
    bearer,
    known_incident,
    known_notifications,
    known_view,
    known_window,
    make_user,
    memory_bus,
    show,
)

pytestmark = pytest.mark.django_db

DOCUMENT: dict[str, Any] = api.get_openapi_schema(path_prefix="/api/v1/")
OPERATIONS = [
    (method, path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]


def bodies(operation: dict[str, Any]) -> dict[str, Any]:
    """The examples of an operation's body by name; one without a name where it has no body."""
    body = operation.get("requestBody")
    if body is None:
        return {"": None}
    examples = body["content"]["application/json"].get("examples", {})
    return {name: example["value"] for name, example in examples.items()}


CASES = [
    pytest.param(method, path, operation, body, id=f"{operation['operationId']} {name}".strip())
    for method, path, operation in OPERATIONS
    for name, body in bodies(operation).items()
]


def known_other_incident(number: int) -> None:
    """Another incident, and another asset of the one with this number."""
    Case.objects.create(pk=number - 1, scenario="attack", began_at=1, owner="olga")
    Incident.objects.create(
        case_id=number, scenario="attack", asset="blog", place="2", began_at=times.now_ms(),
        state="suspicious", worst="suspicious",
    )  # fmt: skip


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example's asset and command are there, and a job that answers at once."""
    cache.clear()
    show("attack", PARAMETERS["asset"], "suspicious")
    show("orders", PARAMETERS["order"], "picking")
    Row.objects.create(
        id=COMMAND, scenario="attack", asset="shop", kind="set", state="clear", username="x",
        source="form", created_at=times.now_ms(), status="sent",
    )  # fmt: skip
    known_incident(PARAMETERS["number"])
    known_other_incident(PARAMETERS["number"])
    known_window(PARAMETERS["number"])
    known_notifications(PARAMETERS["number"], COMMAND)
    known_view((b"order-1", b"{}"))
    make_user("operator")
    saved = {"scenario": "attack", "title": "US", "text": "team:US", "at": 1}
    SavedFilter.objects.create(
        pk=PARAMETERS["number"], user=make_user("manager"), tab=True, shared=True, **saved
    )
    StatusPage.objects.create(
        slug=PARAMETERS["slug"], title="Acme", scenarios=["attack"], labels=[["customer", "Acme"]],
        changed_at=1,
    )  # fmt: skip
    real = submission._deliver

    def answered(row: Row, command: Any) -> None:
        real(row, command)
        answer(row.pk)

    monkeypatch.setattr(submission, "_deliver", answered)
    with memory_bus(scenarios()):
        yield


def given(operation: dict[str, Any], where: str) -> dict[str, Any]:
    """An operation's examples of parameters in the path, the query or the headers."""
    return {
        parameter["name"]: parameter["example"]
        for parameter in operation["parameters"]
        if parameter["in"] == where and "example" in parameter
    }


@pytest.mark.parametrize(("method", "path", "operation", "body"), CASES)
def test_an_example_works(
    world: None, method: str, path: str, operation: dict[str, Any], body: Any
):
    places = given(operation, "path")
    filled = re.sub(r"\{(\w+)\}", lambda name: quote(str(places[name[1]]), safe=""), path)
    response = Client().generic(
        method.upper(),
        f"{filled}?{urlencode(given(operation, 'query'), doseq=True)}",
        "" if body is None else json.dumps(body),
        content_type="application/json",
        headers=bearer(make_user("admin")) | given(operation, "header"),
    )
    assert response.status_code in (200, 202), response.content
    response_body = response.json()
    if "outcome" in response_body and method != "get":
        assert response_body["outcome"] == "applied"  # `wait` is among the examples
    if "refused" in response_body:
        assert response_body["refused"] == 0


def test_every_parameter_and_body_has_an_example():
    for _, _, operation in OPERATIONS:
        name = operation["operationId"]
        without = [p["name"] for p in operation["parameters"] if "example" not in p]
        assert without == [], name
        assert bodies(operation), name


def test_no_example_is_of_nothing():
    named = {p["name"] for _, _, operation in OPERATIONS for p in operation["parameters"]}
    assert set(PARAMETERS) <= named
    by_name = {operation["operationId"]: operation for _, _, operation in OPERATIONS}
    for operation, values in OF_OPERATION.items():
        assert set(values) <= {p["name"] for p in by_name[operation]["parameters"]}


def test_every_operation_says_how_it_fails():
    for _, _, operation in OPERATIONS:
        statuses = {int(status) for status in operation["responses"]}
        assert statuses >= {401, 403, 429, 500}
        assert (415 in statuses) == ("requestBody" in operation)
