"""An admin changes a hold while the product runs, sees the job take it up, and takes it back."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from support.browser.browser_pages import Open, Send, serious_in_both, too_wide_in


def settled(page: Page, reason: str) -> None:
    """Wait until the newest change is done and in force everywhere, without loading the page."""
    newest = page.locator("#scenario table[data-sorts=changes] tbody tr").first
    expect(newest).to_contain_text(reason)
    expect(newest.locator(".state")).to_have_text("done")
    expect(page.locator("#scenario table[data-sorts=rules] .state")).to_have_text(["in force"] * 4)
    expect(page.locator("#scenario .note")).to_have_count(0)


def confirm(page: Page, reason: str, button: str) -> None:
    """Say that the proposal is meant."""
    page.get_by_label("Reason").fill(reason)
    page.get_by_label("The scenario's name").fill("orders")
    page.get_by_role("button", name=button).click()


@pytest.mark.extensive(
    guard="tests/web/operate/test_scenarios.py::test_an_admin_changes_a_rule_and_follows_it"
)
@pytest.mark.alone
def test_a_hold_is_changed_taken_up_and_taken_back(open_as: Open, send: Send, prefix: str) -> None:
    send("orders", f"{prefix}order", "station-1", "received")
    page = open_as("admin", "/scenarios/")
    expect(page.locator("#scenarios tbody .state").last).to_have_text("in force")
    assert serious_in_both(page) == []
    assert too_wide_in(page) == []
    page.get_by_role("link", name="Orders", exact=True).last.click()
    page.get_by_role("link", name="Change…").click()
    assert serious_in_both(page) == []
    assert too_wide_in(page) == []
    page.get_by_label("holds: picking").fill("90s")
    page.get_by_role("button", name="Review the change").click()
    expect(page.locator("tr.differs")).to_contain_text("Picking 90 s")
    assert serious_in_both(page) == []
    assert too_wide_in(page) == []
    confirm(page, "a drill", "Change orders")
    settled(page, "a drill")
    expect(page.locator("tr.differs")).to_contain_text("Picking 90 s")
    assert serious_in_both(page) == []
    assert too_wide_in(page) == []

    asset = open_as("operator", f"/s/orders/a/{prefix}order/")
    expect(asset.locator(".flips")).to_contain_text("it must then last 1 m 30 s")

    page.get_by_role("button", name="Revert all…").click()
    confirm(page, "the drill is over", "Revert the change of orders")
    settled(page, "the drill is over")
    expect(page.get_by_text("Nothing was changed in the console")).to_be_visible()
    expect(page.locator("tr.differs")).to_have_count(0)
