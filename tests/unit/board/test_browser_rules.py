"""What every answer tells the browser: what it may run, frame, keep and pass on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from support.web.web_fixtures import bearer, make_user

pytestmark = pytest.mark.django_db

FOLDER = Path(settings.BASE_DIR, "templates")
MAILS = {FOLDER / "summaries" / "digests" / "mail.html"}
"""A mail program knows no style sheet; the mail catcher shows a mail under a policy of its own."""
TEMPLATES = sorted(set(FOLDER.rglob("*.html")) - MAILS)
PATHS = [
    "/", "/s/attack/a/shop/", "/account/login/", "/account/tokens/", "/account/2fa/",
    "/account/password/change/", "/nothing/here/", "/healthz", "/api/v1/scenarios",
    "/api/v1/nothing", "/metrics",
]  # fmt: skip


@pytest.mark.parametrize("anonymous", [True, False])
@pytest.mark.parametrize("path", PATHS)
def test_every_answer_has_its_headers(shop, path: str, anonymous: bool):
    client = Client()
    if not anonymous:
        client.force_login(make_user("operator"))
    response = client.get(path)
    policy = response["Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'self'"
    assert rules["object-src"] == rules["base-uri"] == rules["frame-ancestors"] == "'none'"
    assert rules["form-action"] == "'self'"
    assert "unsafe" not in policy
    assert "http:" not in policy
    assert response["X-Frame-Options"] == "DENY"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Referrer-Policy"] == "same-origin"
    assert response["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "Server" not in response


@pytest.mark.parametrize("path", ["/", "/account/tokens/", "/api/v1/scenarios", "/metrics"])
def test_what_is_for_one_user_is_kept_by_no_cache(shop, path: str):
    client = Client()
    client.force_login(make_user("operator"))
    assert "no-store" in client.get(path)["Cache-Control"]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_no_template_needs_what_the_policy_forbids(template: Path):
    text = template.read_text(encoding="utf-8")
    assert not re.search(r"\son[a-z]+\s*=", text), "an inline handler"
    assert not re.search(r"\sstyle\s*=", text), "an inline style"
    assert "<style" not in text
    assert "javascript:" not in text
    for attributes, body in re.findall(r"<script([^>]*)>(.*?)</script>", text, re.DOTALL):
        assert "src=" in attributes or "application/json" in attributes or not body.strip()
    assert "|safe" not in text.replace("help_text|safe", "")  # Django's own words
    assert "autoescape off" not in text


def test_cookies_are_kept_from_scripts_and_other_sites(shop):
    make_user("operator", "long-enough-7")
    client = Client()
    client.get("/account/login/")
    client.post("/account/login/", {"login": "operator", "password": "long-enough-7"})
    session = client.cookies[settings.SESSION_COOKIE_NAME]
    assert session["httponly"]
    assert session["samesite"] == "Lax"
    assert client.cookies[settings.CSRF_COOKIE_NAME]["samesite"] == "Lax"


def test_a_login_makes_a_new_session(shop):
    make_user("operator", "long-enough-7")
    client = Client()
    client.cookies[settings.SESSION_COOKIE_NAME] = "known-to-somebody-else"
    client.post("/account/login/", {"login": "operator", "password": "long-enough-7"})
    assert client.cookies[settings.SESSION_COOKIE_NAME].value != "known-to-somebody-else"


def test_a_token_is_told_to_nobody_by_a_url(shop):
    headers = bearer(make_user("operator"))
    token = headers["Authorization"].removeprefix("Bearer ")
    for path in (f"/api/v1/scenarios?token={token}", f"/api/v1/scenarios?access_token={token}"):
        assert Client().get(path).status_code == 401
