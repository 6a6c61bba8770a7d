"""What the API reads can be written back as it is: it is accepted, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from dashboard.core.audit.models import AuditEntry
from dashboard.core.common.times import now_ms
from dashboard.notify.notifications.models import Channel
from dashboard.notify.summaries.models import StatusPage
from dashboard.serve.api.api import api
from dashboard.watch.annotations.models import Label
from dashboard.watch.filters.models import FirstBoard, SavedFilter
from support.web.web_fixtures import bearer, make_user, show

pytestmark = pytest.mark.django_db

COMMANDS = {"/api/v1/scenarios/{scenario}/assets/{asset}"}
"""Addresses whose PUT is a command to the job: what it sets is not what is read there."""
COLLECTIONS = {"/api/v1/scenarios/{scenario}/labels"}
"""Addresses that are read as a list of keys, and written as labels of many assets."""


@pytest.fixture
def admin() -> User:
    """Who calls the API."""
    return make_user("admin")


@pytest.fixture
def call(admin: User) -> Callable[..., Any]:
    """Calls the API as an admin."""
    headers = bearer(admin)

    def send(method: str, path: str, body: Any = None) -> Any:
        given = {} if body is None else {"data": body, "content_type": "application/json"}
        answer = getattr(Client(), method)(f"/api/v1/{path}", headers=headers, **given)
        assert answer.status_code == 200, answer.content
        return answer.json()

    return send


def written_back(call: Callable[..., Any], path: str, read: Callable[[], Any]) -> None:
    """Write what is read, and compare what is read then; nothing is in the audit either."""
    before, entries = read(), AuditEntry.objects.count()
    assert call("put", path, before) == before
    assert read() == before
    assert AuditEntry.objects.count() == entries


def rule(call: Callable[..., Any]) -> str:
    channel = Channel.objects.create(name="mail", kind="mail", changed_at=1)
    stages = [{"channels": [channel.pk]}]
    definition = {"stages": stages, "budgets": True, "agents": ["agent-late"], "labels": ["a=b"]}
    made = call("post", "notifications/rules", {"name": "All", "definition": definition})
    assert made["definition"]["budgets"] is True
    return f"notifications/rules/{made['id']}"


def test_every_address_that_is_read_and_written_is_here() -> None:
    paths = api.get_openapi_schema()["paths"]
    both = {path for path, methods in paths.items() if methods.keys() >= {"get", "put"}}
    assert both - COMMANDS - COLLECTIONS == {
        "/api/v1/first-board",
        "/api/v1/notifications/rules/{number}",
        "/api/v1/scenarios/{scenario}/labels/{asset}",
    }


def test_a_rule(call: Callable[..., Any]) -> None:
    path = rule(call)
    written_back(call, path, lambda: call("get", path))


def test_labels_of_people_and_of_agents(call: Callable[..., Any]) -> None:
    show("attack", "shop", "clear")
    for key, source in (
        ("tier", "agent"),
        ("site", "person"),
        ("both", "person"),
        ("both", "agent"),
    ):
        Label.objects.create(
            scenario="attack", asset="shop", key=key, value=source, source=source, at=1, name="x"
        )
    path = "scenarios/attack/labels/shop"
    written_back(call, path, lambda: call("get", path))
    sources = {item["key"]: item["source"] for item in call("get", path)["items"]}
    assert sources == {"tier": "agent", "site": "person", "both": "person"}


@pytest.mark.parametrize("chosen", ["none", "scenario", "filter"])
def test_the_first_board(call: Callable[..., Any], admin: User, chosen: str) -> None:
    if chosen != "none":
        saved = SavedFilter.objects.create(
            user=admin, scenario="attack", title="EU", text="shop", shared=True, at=now_ms()
        )
        FirstBoard.objects.choose(admin, "attack", saved if chosen == "filter" else None)
    written_back(call, "first-board", lambda: call("get", "first-board"))


def test_a_status_page(call: Callable[..., Any]) -> None:
    StatusPage.objects.create(
        slug="customers", title="Status", scenarios=["attack"], labels=[["tier", "gold"]],
        changed_at=1,
    )  # fmt: skip
    written_back(call, "status-pages/customers", lambda: call("get", "status-pages")[0])
