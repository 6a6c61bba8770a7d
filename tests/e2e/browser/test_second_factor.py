"""A second factor from setting it up to logging in with it, and off again."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from support.browser.browser_pages import Open, serious, view_at
from support.run.stack import Stack

OTHERS = (
    "mfa_view_recovery_codes",
    "mfa_generate_recovery_codes",
    "mfa_reauthenticate",
    "mfa_deactivate_totp",
)
"""Pages of who has a second factor."""


def code(secret: str, at: float) -> str:
    """The six digits that an authenticator app shows at this time (Unix s), as in RFC 6238."""
    key = base64.b32decode(secret)
    digest = hmac.new(key, int(at // 30).to_bytes(8, "big"), hashlib.sha1).digest()
    start = digest[-1] & 15
    number = int.from_bytes(digest[start : start + 4], "big") & 0x7FFFFFFF
    return f"{number % 1_000_000:06}"


PASSWORD = "an-olive-tree-by-the-harbour"


@pytest.fixture
def somebody(product: Stack, prefix: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A user of this test alone: others need theirs without a second factor."""
    name = f"{prefix}olga"
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)
    options = ("--noinput", "--username", name, "--email", "")
    made = product.manage("createsuperuser", *options)
    assert made.returncode == 0, made.stderr
    return name


def enter(page: Page, name: str) -> None:
    """Fill in the login form."""
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()


def confirm(page: Page) -> None:
    """Give the password again, as is asked before the login changes."""
    expect(page.get_by_role("heading", name="Confirm that it is you")).to_be_visible()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Confirm").click()


def test_second_factor_from_set_up_to_off(open_as: Open, product: Stack, somebody: str) -> None:
    page = open_as("", "/account/2fa/")
    enter(page, somebody)
    page.get_by_role("link", name="Set it up").click()
    confirm(page)
    secret = page.locator("#secret").input_value()
    expect(page.locator("img.qr")).to_be_visible()
    assert serious(page) == []
    page.get_by_label("Authenticator code").fill(code(secret, time.time()))
    page.get_by_role("button", name="Switch it on").click()
    expect(page.locator(".codes li")).to_have_count(10)
    recovery = page.locator(".codes li").first.inner_text()
    for view in OTHERS:
        page.goto(f"{product.url}{reverse(view)}")
        assert (view_at(page.url), serious(page)) == (view, [])

    other = open_as("", "/account/2fa/")
    enter(other, somebody)
    expect(other.get_by_role("heading", name="Second factor")).to_be_visible()
    assert serious(other) == []
    other.get_by_role("textbox").fill(recovery)
    other.get_by_role("button", name="Log in").click()
    expect(other.get_by_text("9 of 10 are unused")).to_be_visible()
    other.get_by_role("link", name="Switch it off").click()
    confirm(other)
    other.get_by_role("button", name="Switch it off").click()
    expect(other.get_by_role("link", name="Set it up")).to_be_visible()
