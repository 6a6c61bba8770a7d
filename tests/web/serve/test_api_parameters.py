"""Query parameters of the API: what is misspelt or blank is refused, and never means everything."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from dashboard.core.api.router import MAY_BE_BLANK
from dashboard.serve.api.api import api
from support.web.web_fixtures import bearer, make_user

pytestmark = pytest.mark.django_db

VALUES = {"number": "1", "id": str(UUID(int=1))}


def readings() -> list[tuple[str, dict[str, Any]]]:
    """The addresses that can be read, with their operations."""
    paths = api.get_openapi_schema()["paths"]
    return [(path, methods["get"]) for path, methods in paths.items() if "get" in methods]


def is_text(parameter: dict[str, Any]) -> bool:
    """Whether a parameter is a text that says which are meant."""
    text = parameter["in"] == "query" and parameter["schema"].get("type") == "string"
    return text and parameter["name"] not in MAY_BE_BLANK


def address(path: str) -> str:
    return re.sub(r"{(\w+)}", lambda match: VALUES.get(match[1], "attack"), path)


@pytest.fixture
def ask() -> Any:
    """Reads an address as an admin; returns the fields that are wrong with it."""
    headers = bearer(make_user("admin"))

    def fields(path: str, query: str) -> list[str]:
        answer = Client().get(f"{address(path)}?{query}", headers=headers)
        assert answer.status_code == 422, (path, query, answer.content)
        return [error["field"] for error in answer.json()["errors"]]

    return fields


def test_a_misspelt_parameter_is_refused_by_every_operation(ask: Any) -> None:
    assert len(readings()) > 30
    for path, _ in readings():
        assert ask(path, "fliter=shop") == ["fliter"]


def test_a_blank_parameter_is_refused_by_every_operation(ask: Any) -> None:
    texts = [
        (path, parameter["name"])
        for path, operation in readings()
        for parameter in operation["parameters"]
        if is_text(parameter)
    ]
    assert len(texts) > 30
    for path, name in texts:
        for blank in ("", "%20"):
            assert name in ask(path, f"{name}={blank}")


def test_the_answer_names_what_may_be_asked(ask: Any) -> None:
    headers = bearer(make_user("manager"))
    answer = Client().get("/api/v1/scenarios/attack/assets?filter=adopt", headers=headers)
    assert "one of" in answer.json()["detail"]
    assert "q" in answer.json()["detail"]


def test_the_document_says_so() -> None:
    for _, operation in readings():
        for parameter in operation["parameters"]:
            schema = parameter["schema"]
            if is_text(parameter):
                assert schema.get("minLength") == 1 or "" not in schema["enum"]
                assert schema.get("default") != ""
