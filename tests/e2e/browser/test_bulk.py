"""From a board's filter to one command for all that match, and from stale assets to their purge."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from support.browser.browser_pages import (
    Open,
    Send,
    live,
    order,
    resize,
    row,
    serious_in_both,
    too_wide_in,
)
from support.run.stack import wait_until


def well(page: Page) -> None:
    """Nothing serious in either theme, and nothing wider than a window."""
    assert serious_in_both(page) == []
    assert too_wide_in(page) == []
    resize(page, 1440)


def test_all_that_a_boards_filter_shows_are_pinned(open_as: Open, send: Send, prefix: str) -> None:
    for name in ("a", "b"):
        send("orders", f"{prefix}{name}", "desk", "picking")
    page = live(open_as("operator", "/?scenario=orders"))
    page.locator("#q").fill(prefix)
    expect(row(page, f"{prefix}b")).to_be_visible()
    expect(page.locator("#tbody tr")).to_have_count(2)
    page.locator("#bulk-filter").click()
    expect(page.get_by_role("heading", name="Bulk", exact=True)).to_be_visible()
    expect(page.locator("#id_q")).to_have_value(prefix)
    page.get_by_label("Command").select_option("set")
    page.locator("#id_to").fill("shipped")
    page.get_by_label("Reason").fill("the truck has left")
    page.get_by_role("button", name="Review…").click()
    expect(page.locator(".bulk-sum")).to_contain_text("2 of 2 will be pinned")
    page.get_by_role("button", name="Set 2").click()
    expect(page.locator("#progress-title")).to_have_text("Done")
    expect(page.locator(".bulk-counts")).to_contain_text("Applied2")
    expect(page.locator("#run tbody tr").first).to_contain_text("Applied")
    board = live(open_as("manager", f"/?scenario=orders&q={prefix}"))
    expect(row(board, f"{prefix}a")).to_contain_text("pinned")
    other = open_as("admin", f"/bulk/?scenario=orders&q={prefix}&kind=set&to=picking&reason=again")
    other.get_by_label("Until").select_option("1h")
    other.get_by_role("button", name="Review…").click()
    pins = other.locator(".bulk-pins")
    expect(pins).to_contain_text("2 are pinned by a colleague")
    expect(pins).to_contain_text("operator 2")
    expect(pins).to_contain_text("the truck has left")
    well(other)
    start = other.locator(".bulk-start button")
    expect(start).to_have_text(re.compile(r"Set\s+0", re.IGNORECASE), use_inner_text=True)
    other.get_by_label("Replace the 2 pins of colleagues too").check()
    expect(start).to_have_text(re.compile(r"Set\s+2", re.IGNORECASE), use_inner_text=True)
    start.click()
    expect(other.locator("#progress-title")).to_have_text("Done")
    expect(other.locator(".bulk-counts")).to_contain_text("Applied2")


@pytest.mark.extensive(
    guard="tests/web/watch/test_stale_assets.py::test_chosen_and_all_are_reviewed_to_be_purged"
)
def test_a_stale_asset_is_chosen_and_purged(open_as: Open, prefix: str) -> None:
    asset = f"{prefix}forgotten"
    page = open_as("operator", f"/?scenario=orders&asset={quote(asset)}")
    page.locator("#panel summary", has_text="Set a state").click()
    form = page.locator("#panel .command-set form")
    form.locator("[name=state]").fill("received")
    form.locator("[name=reason]").fill("by hand")
    form.get_by_role("button").click()
    expect(page.locator("#panel")).to_contain_text("Applied")
    page.goto(page.url.split("/?")[0] + "/stale/?scenario=orders&why=voteless")
    box = page.locator(f"#stale [name=asset][value='{asset}']")
    expect(page.get_by_role("button", name="Purge selected…")).to_be_disabled()
    while not box.count():  # as others' assets may come first
        with page.expect_navigation():
            page.get_by_role("link", name="Next page").click()
    box.check()
    expect(page.locator("#chosen")).to_have_text("1 selected")
    page.get_by_label("Reason").fill("nobody reports on it")
    well(page)
    page.get_by_role("button", name="Purge selected…").click()
    expect(page.locator(".bulk-sum")).to_contain_text("1 of 1 will be purged")
    expect(page.locator(".bulk-back")).to_contain_text("1 stays away")
    page.get_by_role("button", name="Purge 1").click()
    expect(page.locator("#progress-title")).to_have_text("Done")
    expect(page.locator(".bulk-counts")).to_contain_text("Applied1")


def test_few_are_pinned_in_a_dialog_over_the_board(open_as: Open, send: Send, prefix: str) -> None:
    for name in ("a", "b", "c"):
        send("connectivity", f"{prefix}{name}", "monitor", "down")
    page = live(open_as("operator", f"/s/connectivity/?q={prefix}"))
    wait_until(lambda: len(order(page)) == 3, 45, "the networks")
    page.keyboard.press("j")
    page.keyboard.press(" ")
    page.locator("#selection-every").click()
    expect(page.locator("#selection-n")).to_have_text("3")
    page.locator("#selection button[value=set]").click()
    dialog = page.locator("#bulk-dialog")
    dialog.locator("[name=to]").select_option("up")
    dialog.get_by_role("button", name="Review…").click()
    expect(dialog.locator("[name=reason]:invalid")).to_be_focused()
    dialog.locator("[name=reason]").fill("a drill")
    dialog.get_by_role("button", name="Review…").click()
    expect(dialog.locator(".bulk-sum")).to_contain_text("3 of 3 will be pinned")
    dialog.locator(".bulk-start button").click()
    expect(dialog.locator(".bulk-counts")).to_contain_text("Applied3", timeout=45_000)
    expect(page.locator("#selection")).to_be_hidden()
    page.keyboard.press("Escape")
    expect(row(page, f"{prefix}a").locator(".badge.override")).to_be_visible()


def test_a_note_and_maintenance_for_what_is_selected(
    open_as: Open, send: Send, prefix: str
) -> None:
    for name in ("a", "b"):
        send("connectivity", f"{prefix}{name}", "monitor", "down")
    page = live(open_as("operator", f"/s/connectivity/?q={prefix}"))
    wait_until(lambda: len(order(page)) == 2, 45, "the networks")
    page.keyboard.press("j")
    page.keyboard.press("Control+a")
    page.locator("#selection-work").click()
    dialog = page.locator("#bulk-dialog")
    expect(dialog.locator("[name=assets]")).to_have_value(re.compile(f"{prefix}a"))
    dialog.locator("[name=name]").fill("cables")
    dialog.get_by_role("button", name="Plan maintenance").click()
    expect(dialog.locator("#messages")).to_contain_text("Saved.")
    page.keyboard.press("Escape")
    page.locator("#selection-note").click()
    page.locator("#note-form textarea").fill("both are in rack 4")
    page.locator("#note-form").get_by_role("button", name="Add note").click()
    for name in ("a", "b"):
        expect(row(page, f"{prefix}{name}").locator(".badge.notes")).to_contain_text("1")
