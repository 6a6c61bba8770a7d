"""A user from being made to being let go, and what the audit says of it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from support.browser.browser_pages import Open, live, serious_in_both, too_wide_in
from support.run.stack import Stack

NEW = "staple-correct-8"

ENTRIES = "#events tbody tr:not(.facts-row)"


def confirm(page: Page, product: Stack) -> None:
    """Give the admin's password once more, where it is asked for."""
    expect(page.get_by_role("heading", name="Confirm that it is you")).to_be_visible()
    page.get_by_label("Password").fill(product.logins["admin"])
    page.get_by_role("button", name="Confirm").click()


def enter(page: Page, name: str, password: str) -> None:
    """Send the login form."""
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def make(admin: Page, product: Stack, name: str) -> str:
    """Have the admin make an operator; the password of the first login."""
    admin.get_by_label("Name", exact=True).fill(name)
    admin.get_by_label("Role").select_option("operator")
    admin.get_by_role("button", name="Create the user").click()
    confirm(admin, product)
    password = admin.locator(".once code").inner_text()
    assert serious_in_both(admin) == []
    assert too_wide_in(admin) == []
    return password


def enter_first(page: Page, product: Stack, name: str, password: str) -> None:
    """Log in for the first time: a password of one's own comes before everything else."""
    enter(page, name, password)
    expect(page.get_by_role("heading", name="Change password")).to_be_visible()
    page.goto(f"{product.url}/events/")  # nothing else is shown before
    expect(page.get_by_role("heading", name="Change password")).to_be_visible()
    page.get_by_label("Current Password").fill(password)
    page.get_by_label("New Password", exact=True).fill(NEW)
    page.get_by_label("New Password (again)").fill(NEW)
    page.get_by_role("button", name="Change password").click()
    live(page)


def end_others(page: Page, elsewhere: Page, product: Stack) -> None:
    """End all other sessions of the user, of which `elsewhere` is the only one."""
    page.goto(f"{product.url}/account/sessions/")
    page.get_by_role("button", name="End all others").click()
    expect(page.get_by_text("Sessions that ended: 1.")).to_be_visible()
    expect(elsewhere.get_by_role("heading", name="Log in")).to_be_visible()  # by itself
    page.goto(product.url)
    live(page)


def deactivate(admin: Page, product: Stack, name: str) -> None:
    """Have the admin deactivate a user."""
    admin.goto(f"{product.url}/users/?q={name}")
    admin.get_by_role("link", name=name).click()
    admin.locator("summary", has_text="Deactivate").click()
    admin.get_by_role("button", name=f"Yes, deactivate {name}").click()
    expect(admin.get_by_text(f"{name} is deactivated")).to_be_visible()


def test_a_user_comes_and_goes_and_the_audit_tells_of_it(
    open_as: Open, product: Stack, prefix: str
) -> None:
    name = f"{prefix}eve"
    admin = open_as("admin", "/users/new/")
    password = make(admin, product, name)
    eve = open_as("", "/")
    enter_first(eve, product, name, password)
    elsewhere = open_as("", "/")
    enter(elsewhere, name, NEW)
    live(elsewhere)
    end_others(eve, elsewhere, product)
    deactivate(admin, product, name)
    expect(eve.get_by_role("heading", name="Log in")).to_be_visible()  # by itself
    enter(eve, name, NEW)
    expect(eve.get_by_role("heading", name="This account is switched off")).to_be_visible()

    audit = open_as("admin", f"/audit/?q={name}")
    rows = audit.locator(ENTRIES)
    expect(rows.first).to_contain_text("entered a wrong name")
    for did in ("created a user", "changed their password", "ended sessions", "deactivated a user"):
        expect(rows.filter(has_text=did)).to_have_count(1)
    opened = rows.filter(has_text="created a user")
    others = [each for each in rows.all() if "created a user" not in each.inner_text()]
    opened.locator("summary").click()
    facts = audit.locator(".facts-row", has_text="user.created")
    expect(facts).to_contain_text("operator")
    box = facts.bounding_box()
    assert box is not None
    for each in others:  # none is hidden by it
        other = each.bounding_box()
        assert other is not None
        below = other["y"] >= box["y"] + box["height"] - 1
        assert below or other["y"] + other["height"] <= box["y"] + 1
    assert serious_in_both(audit) == []
    assert too_wide_in(audit) == []


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_events_and_overrides.py::"
    "test_events_come_by_themselves_and_wait_while_paused"
)
def test_the_audit_waits_while_it_is_paused(open_as: Open, prefix: str) -> None:
    audit = live(open_as("admin", f"/audit/?q={prefix}"))
    rows, pause = audit.locator(ENTRIES), audit.locator("#pause")
    expect(audit.get_by_role("heading", name="Nothing matches")).to_be_visible()
    nobody = open_as("", "/")
    enter(nobody, f"{prefix}one", "wrong")
    expect(rows).to_have_count(1)
    pause.click()
    expect(pause).to_have_attribute("aria-pressed", "true")
    expect(pause).to_contain_text("Resume")
    enter(nobody, f"{prefix}two", "wrong")
    beside = open_as("admin", f"/audit/?q={prefix}")
    expect(beside.locator(ENTRIES)).to_have_count(2)
    expect(rows).to_have_count(1)
    pause.click()
    expect(rows).to_have_count(2)
