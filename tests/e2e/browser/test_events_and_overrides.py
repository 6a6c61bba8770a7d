"""The lists of events and of overrides renew themselves, and hold still where they are asked to."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from support.browser.browser_pages import Open, Send, live, row, serious


def event(page: Page, asset: str) -> Locator:
    """The events of an asset."""
    return page.locator(f'#events .asset-name[title="{asset}"]')


def test_events_come_by_themselves_and_wait_while_paused(
    open_as: Open, send: Send, prefix: str
) -> None:
    one, other = f"{prefix}one", f"{prefix}other"
    page = live(open_as("manager", f"/events/?scenario=*&q={prefix}"))
    expect(page.get_by_role("heading", name="Nothing matches")).to_be_visible()
    send("orders", one, "desk", "picking")
    expect(event(page, one)).to_have_count(1)
    page.keyboard.press("p")
    expect(page.locator("#pause")).to_have_attribute("aria-pressed", "true")
    send("orders", other, "desk", "picking")
    beside = live(open_as("manager", f"/events/?scenario=*&q={prefix}"))
    expect(event(beside, other)).to_have_count(1)
    expect(event(page, other)).to_have_count(0)
    page.keyboard.press("p")
    expect(event(page, other)).to_have_count(1)
    assert serious(page) == []


@pytest.mark.extensive(
    guard="tests/web/board/test_events.py::test_the_filter_narrows_and_keeps_what_was_typed"
)
def test_events_are_filtered_by_keyboard(open_as: Open, send: Send, prefix: str) -> None:
    send("orders", f"{prefix}a", "desk", "picking")
    page = live(open_as("manager", "/events/?scenario=*"))
    page.get_by_role("combobox", name="Filter").focus()
    page.keyboard.type(f"{prefix}a")
    page.keyboard.press("Enter")
    expect(event(page, f"{prefix}a")).to_have_count(1)
    expect(page.locator("#events tbody tr")).to_have_count(1)
    expect(page.get_by_role("combobox", name="Filter")).to_have_value(f"{prefix}a")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert f"{prefix}a" in download.value.path().read_text()


@pytest.mark.extensive(
    guard="tests/web/board/test_overrides.py::test_released_and_purged_assets_are_gone"
)
def test_an_override_is_listed_until_it_is_released(open_as: Open, send: Send, prefix: str) -> None:
    asset = f"{prefix}a"
    send("orders", asset, "desk", "picking")
    board = live(open_as("operator", f"/s/orders/?q={prefix}"))
    listed = live(open_as("operator", "/overrides/?scenario=orders&whose=mine"))
    row(board, asset).locator(".asset").click()
    board.locator("#panel summary", has_text="Set a state").click()
    form = board.locator("#panel .command-set form")
    form.locator("[name=state]").fill("shipped")
    form.locator("[name=reason]").fill("saw the truck leave")
    form.get_by_role("button").click()
    line = listed.locator(f'#overrides tr[data-key="orders/{asset}"]')
    expect(line).to_contain_text("Shipped")
    expect(line).to_contain_text("Picking")
    expect(line).to_contain_text("saw the truck leave")
    assert serious(listed) == []
    board.locator("#panel summary", has_text="Release").click()
    board.locator("#panel .command-release form").get_by_role("button").click()
    expect(line).to_have_count(0)
