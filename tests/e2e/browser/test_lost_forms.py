"""What is typed outlives a login that ended, and a form that was not accepted."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from hashlib import blake2s

import pytest
from playwright.sync_api import Page, expect

from support.browser.browser_pages import Open, Send, log_in, serious
from support.run.stack import Stack


@pytest.fixture
def end_session(product: Stack) -> Callable[[Page], None]:
    """Delete the session of a page's browser from the database."""

    def end(page: Page) -> None:
        names = f"tallyboard-{product.settings.http_port}"
        [key] = (each["value"] for each in page.context.cookies() if each["name"] == names)
        filed = blake2s(key.encode(), digest_size=20).hexdigest()
        path = product.data_dir / "tallyboard.sqlite3"
        with closing(sqlite3.connect(path, timeout=30)) as database, database:
            ended = database.execute("DELETE FROM django_session WHERE session_key = ?", (filed,))
            assert ended.rowcount == 1

    return end


def logged_in(open_as: Open, product: Stack, path: str, user: str = "operator") -> Page:
    """A browser whose session is nobody else's."""
    page = open_as("", path)
    log_in(page, product, user)
    return page


def test_a_handover_outlives_the_login_and_another_one(
    open_as: Open, product: Stack, end_session: Callable[[Page], None], prefix: str,
    faults: list[str],
) -> None:  # fmt: skip
    page = logged_in(open_as, product, "/handover/?hours=1")
    text, saved = page.locator("#handover_text"), page.locator(".handover-text").first
    save = page.get_by_role("button", name="Save the text")
    text.fill(f"{prefix}: all quiet")
    end_session(page)
    save.click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    log_in(page, product, "operator")
    assert page.url.endswith("/handover/?hours=1")
    expect(page.locator(".restored")).to_contain_text("Restored what you had typed.")
    expect(text).to_have_value(f"{prefix}: all quiet")
    assert serious(page) == []
    save.click()
    expect(saved).to_contain_text(f"{prefix}: all quiet")
    expect(text).to_have_value("")
    expect(page.locator(".restored")).to_have_count(0)

    text.fill(f"{prefix}: still quiet")
    other = page.context.new_page()
    other.goto(f"{product.url}/account/logout/")
    other.get_by_role("main").get_by_role("button", name="Log out").click()
    expect(other.get_by_role("heading", name="Log in")).to_be_visible()
    log_in(other, product, "operator")
    save.click()
    expect(page.get_by_role("heading", name="The form was not accepted")).to_be_visible()
    faults.clear()  # the browser's own word of the status 403
    page.get_by_role("link", name="Back to the form").click()
    expect(text).to_have_value(f"{prefix}: still quiet")
    save.click()
    expect(saved).to_contain_text(f"{prefix}: still quiet")


def test_what_was_put_back_can_be_discarded_and_is_nobody_elses(
    open_as: Open, product: Stack, end_session: Callable[[Page], None]
) -> None:
    page = logged_in(open_as, product, "/maintenance/new/?scenario=orders&q=rack")
    name, held = page.get_by_label("Name", exact=True), page.get_by_label("Hold notifications back")
    name.fill("new racks")
    held.uncheck()
    end_session(page)
    page.get_by_role("button", name="Plan maintenance").click()
    log_in(page, product, "operator")
    expect(name).to_have_value("new racks")
    expect(held).not_to_be_checked()
    page.get_by_role("button", name="Discard").click()
    expect(name).to_be_focused()
    expect(name).to_have_value("")
    expect(held).to_be_checked()
    page.reload()
    expect(page.locator(".restored")).to_have_count(0)

    name.fill("the operator's racks")
    end_session(page)
    page.get_by_role("button", name="Plan maintenance").click()
    log_in(page, product, "admin")
    expect(name).to_have_value("")
    assert "racks" not in page.evaluate("JSON.stringify(sessionStorage)")


def test_a_form_within_a_page_comes_back_too(
    open_as: Open, product: Stack, send: Send, end_session: Callable[[Page], None], prefix: str,
    faults: list[str],
) -> None:  # fmt: skip
    asset = f"{prefix}a"
    send("orders", asset, "desk", "picking")
    page = logged_in(open_as, product, f"/s/orders/a/{asset}/")
    note = page.get_by_label("Note", exact=True)
    page.locator(".command-noting summary").click()
    note.fill("it waits for the truck")
    end_session(page)
    page.get_by_role("button", name="Add note").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    faults.clear()  # the browser's own word of the status 401
    log_in(page, product, "operator")
    expect(note).to_have_value("it waits for the truck")
    page.get_by_role("button", name="Add note").click()
    expect(page.locator(".note-text")).to_have_text("it waits for the truck")
    expect(note).to_have_value("")
    expect(page.locator(".restored")).to_have_count(0)
