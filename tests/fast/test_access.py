"""Who may do what: every role against every page and operation of accounts, commands and API."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.conf import settings
from django.core.cache import cache
from django.test import Client
from django.urls import URLResolver, get_resolver
from webkit import ROLES, bearer, commands_sent, make_user, memory_bus, sent, show

from dashboard.commands.models import Command as Row
from dashboard.commands.sending import now_ms
from dashboard.scenarios import scenarios

pytestmark = pytest.mark.django_db

COMMAND = uuid.UUID("6f1d7a9e-0000-4000-8000-000000000001")
FORM = {"id": str(COMMAND), "state": "clear", "reason": "a drill", "confirm": "yes"}
LOGIN = 302

# method, path, form or JSON, and the status for ROLES: anonymous, none, manager, operator, admin
PAGES: list[tuple[str, str, tuple[int, ...]]] = [
    ("get", "/account/tokens/", (LOGIN, 403, 200, 200, 200)),
    ("post", "/account/tokens/", (LOGIN, 403, 200, 200, 200)),
    ("post", "/s/attack/command/set/shop/", (LOGIN, 403, 403, 302, 302)),
    ("post", "/s/attack/command/vote/shop/", (LOGIN, 403, 403, 302, 302)),
    ("post", "/s/attack/command/release/shop/", (LOGIN, 403, 403, 302, 302)),
    ("post", "/s/attack/command/purge/shop/", (LOGIN, 403, 403, 302, 302)),
    ("get", "/s/attack/command/set/shop/", (405, 405, 405, 405, 405)),
    ("get", f"/commands/{COMMAND}/", (LOGIN, 403, 200, 200, 200)),
]
REPORT = {"asset": "shop", "agent": "waf-1", "state": "clear"}
PUT = {"state": "clear", "reason": "a drill"}
API: list[tuple[str, str, Any, tuple[int, ...]]] = [
    ("get", "scenarios", None, (401, 403, 200, 200, 200)),
    ("get", "scenarios/attack/assets", None, (401, 403, 200, 200, 200)),
    ("get", "scenarios/attack/assets/shop", None, (401, 403, 200, 200, 200)),
    ("put", "scenarios/attack/assets/shop", PUT, (401, 403, 403, 202, 202)),
    ("put", "scenarios/attack/assets/shop", PUT | {"mode": "vote"}, (401, 403, 403, 202, 202)),
    ("delete", "scenarios/attack/assets/shop", None, (401, 403, 403, 202, 202)),
    ("post", "scenarios/attack/release/shop", None, (401, 403, 403, 202, 202)),
    ("post", "scenarios/attack/reports", REPORT, (401, 403, 403, 202, 202)),
    ("get", f"commands/{COMMAND}", None, (401, 403, 200, 200, 200)),
]


@pytest.fixture
def bus():
    cache.clear()
    show("attack", "shop", "clear")
    with memory_bus(scenarios()) as gateway:
        yield gateway


def known_command() -> None:
    Row.objects.create(
        id=COMMAND, scenario="attack", asset="shop", kind="set", state="clear", username="x",
        source="form", created_at=now_ms(), status="sent",
    )  # fmt: skip


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(("method", "path", "statuses"), PAGES)
def test_pages(bus, role: str, method: str, path: str, statuses: tuple[int, ...]):
    client = Client()
    if role != "anonymous":
        client.force_login(make_user(role))
    if "/commands/" in path:
        known_command()
    expected = statuses[ROLES.index(role)]
    response = getattr(client, method)(path, FORM if method == "post" else None)
    assert response.status_code == expected
    written = "/command/" in path and method == "post" and role in ("operator", "admin")
    assert bool(sent(bus, "attack")) == written
    if expected == LOGIN and role == "anonymous":
        assert response["Location"].startswith("/account/login/")


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(("method", "path", "body", "statuses"), API)
@pytest.mark.parametrize("by", ["token", "session"])
def test_api(bus, role: str, method: str, path: str, body: Any, statuses: tuple[int, ...], by: str):
    client, headers = Client(), {}
    if role != "anonymous":
        user = make_user(role)
        if by == "session":
            client.force_login(user)
        else:
            headers = bearer(user)
    if "commands" in path:
        known_command()
    response = getattr(client, method)(
        f"/api/v1/{path}", body, content_type="application/json", headers=headers
    )
    assert response.status_code == statuses[ROLES.index(role)], response.content
    written = method != "get" and role in ("operator", "admin")
    assert bool(sent(bus, "attack")) == written
    if response.status_code >= 400:
        assert response["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/api/v1/openapi.json"])
def test_health_and_the_openapi_document_are_for_anybody(bus, path: str):
    assert Client().get(path).status_code in (200, 503)


def test_the_tables_leave_no_url_out():
    """Each URL of these apps is in a table, so that a new one cannot be forgotten."""
    listed = [row[1] for row in PAGES] + [f"/api/v1/{row[1]}" for row in API]
    listed += ["/healthz", "/readyz", "/api/v1/openapi.json", "/api/v1/"]
    resolver = get_resolver()
    tested = {resolver.resolve(path).route for path in listed}
    assert _routes(resolver.url_patterns) - tested == set()


OURS = ("dashboard.accounts", "dashboard.commands", "dashboard.api", "ninja")


def _routes(patterns: list[Any], prefix: str = "") -> set[str]:
    """Routes of our views."""
    found: set[str] = set()
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            found |= _routes(pattern.url_patterns, route)
        elif getattr(pattern.callback, "__module__", "").startswith(OURS):
            found.add(route)
    return found


def test_a_page_without_role_says_whom_to_ask(bus):
    make_user("admin")
    client = Client()
    client.force_login(make_user("none"))
    page = client.get("/account/tokens/").content.decode()
    assert "nobody has given you a role" in page
    assert "<strong>admin</strong>" in page


def test_a_manager_is_told_which_role_it_takes(bus):
    client = Client()
    client.force_login(make_user("manager"))
    page = client.post("/s/attack/command/set/shop/", FORM).content.decode()
    assert "Your role is <strong>manager</strong>" in page
    assert "<strong>operator</strong>" in page
    assert commands_sent(bus, "attack") == []


def test_a_fragment_moves_the_whole_page_to_the_login(bus):
    response = Client().post("/s/attack/command/set/shop/", FORM, headers={"HX-Request": "true"})
    assert response.status_code == 401
    assert response["HX-Redirect"] == "/account/login/"


def test_a_session_needs_its_csrf_token_to_command(bus):
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("operator"))
    path = "/api/v1/scenarios/attack/assets/shop"
    response = client.put(path, PUT, content_type="application/json")
    assert (response.status_code, response.json()["reason"]) == (403, "csrf-failed")
    assert client.get(path).status_code == 200
    token = "a" * 32
    client.cookies[settings.CSRF_COOKIE_NAME] = token
    response = client.put(
        path, PUT, content_type="application/json", headers={"X-CSRFToken": token}
    )
    assert response.status_code == 202


def test_a_token_needs_no_csrf_token(bus):
    client = Client(enforce_csrf_checks=True)
    headers = bearer(make_user("operator"))
    path = "/api/v1/scenarios/attack/assets/shop"
    response = client.put(path, PUT, content_type="application/json", headers=headers)
    assert response.status_code == 202


def test_a_wrong_token_is_not_saved_by_a_session(bus):
    client = Client()
    client.force_login(make_user("operator"))
    response = client.get("/api/v1/scenarios", headers={"Authorization": "Bearer tb_00_00"})
    assert response.status_code == 401


def test_only_the_tokens_owner_revokes_it(bus):
    owner, other = make_user("operator"), make_user("manager")
    headers = bearer(owner)
    prefix = headers["Authorization"].split("_")[1]
    client = Client()
    for user, status in ((other, 200), (owner, 401)):
        client.force_login(user)
        client.post("/account/tokens/", {"revoke": prefix})
        assert Client().get("/api/v1/scenarios", headers=headers).status_code == status
