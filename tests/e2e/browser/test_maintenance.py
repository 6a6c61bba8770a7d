"""Maintenance windows in a browser: planned by a form, marked on the board, ended early."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from support.browser.browser_pages import (
    Open,
    Send,
    live,
    row,
    serious,
    serious_in_both,
    too_wide_in,
)


def checked(page: Page) -> None:
    """Nothing serious in either theme, and nothing wider than a phone."""
    assert serious_in_both(page) == []
    assert too_wide_in(page) == []


def test_a_window_is_planned_by_keyboard_marks_rows_and_is_ended(
    open_as: Open, send: Send, prefix: str
) -> None:
    asset = f"{prefix}site"
    send("attack", asset, "waf-1", "clear")
    board = live(open_as("operator", f"/?scenario=attack&q={prefix}"))
    expect(row(board, asset)).to_have_count(1)
    page = open_as("operator", "/maintenance/new/?scenario=attack&q=clear")
    page.get_by_label("Name", exact=True).fill("")
    page.get_by_role("button", name="Plan maintenance").press("Enter")
    page.get_by_label("Name", exact=True).fill(f"{prefix}racks")
    page.get_by_label("Filter", exact=True).fill(f"{prefix}site")
    begun = page.evaluate("new Date(Date.now() - 120000).toISOString().slice(0, 16)")
    page.get_by_label("From (UTC)").fill(begun)
    page.get_by_label("Why").fill("new cables")
    checked(page)
    page.get_by_role("button", name="Plan maintenance").press("Enter")
    expect(page.get_by_role("heading", name=f"{prefix}racks")).to_be_visible()
    expect(page.locator("#window")).to_contain_text("running")
    expect(page.locator("#window")).to_contain_text(asset)

    mark = row(board, asset).locator(".badge.work")
    expect(mark).to_contain_text("maintenance")  # without a reload
    assert serious(board) == []
    asset_page = open_as("operator", f"/s/attack/a/{asset}/")
    expect(asset_page.locator(".note-work")).to_contain_text(f"{prefix}racks")

    page.get_by_role("button", name="End now").press("Enter")
    expect(page.locator("#window")).to_contain_text("ended")
    expect(mark).to_have_count(0)


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_every_page.py::test_every_page_can_be_read_by_everybody"
)
def test_the_list_of_windows(open_as: Open) -> None:
    page = open_as("manager", "/maintenance/")
    expect(page.get_by_role("heading", name="Maintenance", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="Plan maintenance")).to_have_count(0)
    checked(page)
