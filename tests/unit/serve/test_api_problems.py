"""Whatever goes wrong under /api is answered as a problem, whoever notices it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from prometheus_client import REGISTRY

from dashboard.board.assets import api as board_api
from dashboard.core.api import problems, router
from dashboard.core.common.access import Limit
from support.web.web_fixtures import bearer, make_user, sent

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("shop")]

SHOP = "/api/v1/scenarios/attack/assets/shop"
REPORTS = "/api/v1/scenarios/attack/reports"
ALERTS = "/api/v1/scenarios/attack/alertmanager"
SET = json.dumps({"state": "clear", "reason": "a drill"})


def problem(response: Any, status: int, reason: str) -> dict[str, Any]:
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    assert response["Cache-Control"] == "no-store"
    assert int(response["Content-Length"]) == len(response.content)
    body: dict[str, Any] = response.json()
    assert (body["status"], body["reason"]) == (status, reason)
    assert body["title"] == problems.TITLES[reason]
    return body


@pytest.mark.parametrize(
    "path", ["/api", "/api/", "/api/v1/", "/api/v2/scenarios", "/api/v1/nothing", "/api/v1/job/x"]
)
def test_an_address_of_nothing_is_a_404(bus, headers, path: str):
    problem(Client().get(path, headers=headers), 404, "not-found")


def test_only_the_api_answers_so(bus):
    response = Client().get("/nothing/here/")
    assert (response.status_code, response["Content-Type"][:9]) == (404, "text/html")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/api/v1/scenarios", {"GET"}),
        ("PATCH", SHOP, {"GET", "PUT", "DELETE"}),
        ("GET", REPORTS, {"POST"}),
        ("DELETE", "/api/v1/partitions", {"GET"}),
    ],
)
def test_a_wrong_method_is_a_405_that_says_the_right_ones(
    bus, headers, method: str, path: str, allowed: set[str]
):
    response = Client().generic(method, path, headers=headers)
    problem(response, 405, "method-not-allowed")
    assert {name.strip() for name in response["Allow"].split(",")} == allowed


TYPES = [
    "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
    "application/xml", "application/jsonp", "application/octet-stream", "\u00e9",
]  # fmt: skip


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize(("method", "path"), [("PUT", SHOP), ("POST", REPORTS), ("POST", ALERTS)])
def test_another_content_type_is_a_415(bus, headers, method: str, path: str, type_: str):
    response = Client().generic(method, path, SET, content_type=type_, headers=headers)
    body = problem(response, 415, "unsupported-media-type")
    assert "expected application/json" in body["detail"]
    assert sent(bus, "attack") == []


@pytest.mark.parametrize("type_", ["application/json; charset=utf-8", "Application/JSON"])
def test_json_by_any_of_its_names(bus, headers, type_: str):
    response = Client().generic("PUT", SHOP, SET, content_type=type_, headers=headers)
    assert response.status_code == 202


def test_a_fault_of_the_server_is_a_500_that_tells_nothing_else(
    bus, headers, monkeypatch: pytest.MonkeyPatch
):
    def fail(_name: str) -> Any:
        raise RuntimeError("the secret is 42")

    monkeypatch.setattr(board_api, "counts", fail)
    client = Client(raise_request_exception=False)
    response = client.get("/api/v1/scenarios", headers=headers)
    problem(response, 500, "internal-error")
    assert b"42" not in response.content


def test_another_host_is_a_400(bus, headers):
    response = Client(HTTP_HOST="evil.example").get("/api/v1/scenarios", headers=headers)
    problem(response, 400, "bad-request")


def test_too_much_is_not_sent_back(bus, headers):
    long = "x" * 1_000_000
    for path in (f"/api/v1/scenarios/{long}/assets", f"{SHOP}{long}"):
        assert len(Client().get(path, headers=headers).content) < 2_000
    body = {f"{long[:1000]}{n}": 1 for n in range(1_000)} | {"state": "clear"}
    response = Client().put(
        SHOP, json.dumps(body), content_type="application/json", headers=headers
    )
    problem_body = problem(response, 422, "invalid")
    assert len(problem_body["errors"]) == problems.MAX_ERRORS
    assert len(response.content) < 200_000


def test_a_user_who_asks_too_much_is_told_when_to_go_on(
    bus, headers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(router, "REQUESTS", Limit("requests", 2, window=86_400))
    labels = {"limit": "requests"}
    before = REGISTRY.get_sample_value("tallyboard_limited_total", labels) or 0
    statuses = [Client().get("/api/v1/job", headers=headers).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    response = Client().get("/metrics", headers=headers)
    assert (response.status_code, response.json()["reason"]) == (429, "too-many")
    assert 0 < int(response["Retry-After"]) <= 86_400
    assert REGISTRY.get_sample_value("tallyboard_limited_total", labels) == before + 2
    assert Client().get("/api/v1/job", headers=bearer(make_user("admin"))).status_code == 200


def test_every_reason_has_a_status_of_the_document():
    assert set(problems._BY_STATUS.values()) <= set(problems.TITLES)
    assert set(problems._DESCRIPTIONS) >= {400, 401, 403, 404, 413, 415, 422, 429, 500, 503}
