"""Going anywhere by the keyboard, and looking back at a board as it was."""

from __future__ import annotations

from browsing import Open, Send, live, row, serious, serious_in_both, too_wide_in
from playwright.sync_api import expect


def test_the_palette_finds_pages_and_assets_by_keyboard(
    open_as: Open, send: Send, prefix: str
) -> None:
    send("orders", f"{prefix}far-away", "desk", "picking")
    page = live(open_as("manager", f"/s/orders/?q={prefix}"))
    expect(row(page, f"{prefix}far-away")).to_have_count(1)
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Page, or part of an asset's name")
    expect(field).to_be_focused()
    page.keyboard.type("over")
    chosen = page.locator("#palette [aria-selected=true]")
    expect(chosen).to_contain_text("Overrides")
    page.keyboard.press("Control+a")
    page.keyboard.type(f"{prefix}far")
    expect(chosen).to_contain_text(f"{prefix}far-away")
    assert chosen.get_attribute("id") == field.get_attribute("aria-activedescendant")
    assert serious(page) == []
    page.keyboard.press("Enter")
    expect(page).to_have_title(f"{prefix}far-away · Tallyboard")
    page.keyboard.press("Control+k")
    page.keyboard.type("no page and no asset")
    expect(page.locator("#palette-none")).to_have_text("No page and no asset has this in its name.")
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()


def test_the_board_comes_back_as_it_was(open_as: Open, send: Send, prefix: str) -> None:
    asset = f"{prefix}a"
    send("orders", asset, "desk", "picking")
    board = live(open_as("manager", f"/s/orders/?q={prefix}"))
    expect(row(board, asset)).to_contain_text("Picking")
    between = board.evaluate("new Date(Date.now() + 1000).toISOString().slice(0, 19)")
    board.wait_for_function("at => new Date().toISOString().slice(0, 19) > at", arg=between)
    send("orders", asset, "desk", "shipped")
    expect(row(board, asset)).to_contain_text("Shipped")
    query = f"scenario=orders&at={between}&q={prefix}"
    page = open_as("manager", f"/as-of/?{query}")
    line = page.locator(f'tr:has(.asset-name[title="{asset}"])')
    page.wait_for_function(  # the database is a moment behind the board
        "query => document.querySelector('.asset-name') || location.replace('/as-of/?' + query)",
        arg=query,
    )
    expect(line).to_contain_text("Picking")
    expect(line).to_contain_text("Shipped")
    page.get_by_role("link", name="The board then").click()
    expect(line).to_contain_text("Picking")
    expect(line).not_to_contain_text("Shipped")
    assert serious_in_both(page) == []
    assert too_wide_in(page) == []
