"""The log of requests: who, which route and how it ended, and nobody's name."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from django.test import Client

from agents.log_records import encode
from config.logs import REQUESTS

pytestmark = pytest.mark.usefixtures("bus")


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, REQUESTS)
    return caplog


def records(logged: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The requests that were logged, as the topic has them."""
    return [json.loads(encode(r, {}).value) for r in logged.records if r.name == REQUESTS]


def test_a_request_is_logged_with_its_route_and_no_name(
    client: Client, logged: pytest.LogCaptureFixture
) -> None:
    response = client.get(
        "/s/attack/a/shop.example/?q=secret-7", headers={"User-Agent": "Firefox/Mine"}
    )
    [record] = records(logged)
    assert set(record) == {
        "time", "level", "logger", "message", "client", "method", "route", "status", "duration_ms",
    }  # fmt: skip
    assert (record["method"], record["status"]) == ("GET", response.status_code)
    assert record["client"].startswith("client-")
    text = json.dumps(record)
    for name in ("shop.example", "secret-7", "127.0.0.1", "Firefox", "operator"):
        assert name not in text


@pytest.mark.parametrize(
    ("method", "path", "status", "route"),
    [
        ("get", "/account/login/", 200, "account/login/"),
        ("get", "/no/such/page", 404, ""),
        ("get", "/users/", 302, "users/"),
        ("post", "/api/v1/no-such", 404, ""),
        ("brew", "/account/login/", 405, "account/login/"),
    ],
)
def test_refused_and_unknown_requests_are_logged_too(
    method: str, path: str, status: int, route: str, db: None, logged: pytest.LogCaptureFixture
) -> None:
    response = Client().generic(method.upper(), path)
    [record] = records(logged)
    shown = method.upper() if method != "brew" else "other"
    assert (record["method"], record["status"]) == (shown, response.status_code)
    assert (response.status_code, record["route"]) == (status, route)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/static/css/account.css"])
def test_probes_and_files_of_pages_are_not_logged(
    path: str, db: None, logged: pytest.LogCaptureFixture
) -> None:
    Client().get(path).close()
    assert records(logged) == []
