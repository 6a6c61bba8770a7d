"""Going anywhere by the keyboard, and looking back at a board as it was."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from support.browser.browser_pages import (
    Open,
    Send,
    live,
    open_palette,
    row,
    serious,
    serious_in_both,
    too_wide_in,
)


def test_the_palette_finds_pages_and_assets_by_keyboard(
    open_as: Open, send: Send, prefix: str
) -> None:
    send("orders", f"{prefix}far-away", "desk", "picking")
    page = live(open_as("manager", f"/s/orders/?q={prefix}"))
    expect(row(page, f"{prefix}far-away")).to_have_count(1)
    open_palette(page)
    field = page.get_by_role("combobox", name="Page, or part of an asset's name")
    expect(field).to_be_focused()
    often = page.locator("#palette .option-name")
    expect(often).to_have_text(
        ["Summary", "Attacks", "Connectivity", "Incidents", "Maintenance", "Events"]
    )
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
    open_palette(page)
    page.keyboard.type("no page and no asset")
    expect(page.locator("#palette-none")).to_have_text("No page or asset has this in its name.")
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()


@pytest.mark.extensive(
    guard="tests/web/board/test_palette.py::test_a_text_leads_to_the_form_filled_in_and_does_nothing"
)
def test_the_palette_leads_to_a_form_that_is_filled_in(
    open_as: Open, send: Send, prefix: str
) -> None:
    asset = f"{prefix}far-away"
    send("orders", asset, "desk", "picking")
    page = live(open_as("operator", f"/s/orders/?q={prefix}"))
    expect(row(page, asset)).to_have_count(1)
    open_palette(page)
    page.keyboard.type("se")
    verb = page.locator("#palette-verbs .option", has_text="set")
    expect(verb).to_be_visible()
    verb.click()
    field = page.locator("#palette input")
    expect(field).to_have_value("set ")
    expect(field).to_be_focused()
    page.keyboard.type(f"{asset} shipped")
    chosen = page.locator("#palette [aria-selected=true]")
    expect(chosen).to_contain_text("to Shipped…")
    assert serious(page) == []
    page.keyboard.press("Enter")
    form = page.locator(".command-set")
    expect(form.locator("[name=state]")).to_have_value("shipped")
    expect(form.locator("[name=reason]")).to_be_focused()
    expect(form.locator("[name=end]")).to_have_value("1h")
    expect(page.locator("#panel-state")).to_contain_text("Picking")  # nothing was sent


@pytest.mark.extensive(
    guard="tests/web/core/test_access.py::test_what_a_form_was_answered_with_can_be_loaded_anew"
)
def test_a_page_that_a_form_was_answered_with_is_loaded_anew_by_its_address(
    open_as: Open, send: Send, prefix: str, faults: list[str]
) -> None:
    send("attack", f"{prefix}shop", "waf-1", "under-attack")
    page = open_as("operator", "/bulk/?scenario=attack")
    page.locator("#bulk-form").evaluate("form => { form.noValidate = true; }")
    page.get_by_role("button", name="Review…").click()
    expect(page.locator("#bulk-form .field-errors").first).to_be_visible()
    with page.expect_response(lambda response: urlsplit(response.url).path == "/bulk/") as renewed:
        pass  # its list of runs renews itself, and does not ask the form's own address
    assert renewed.value.ok
    expect(page.locator("#cut-off")).to_be_hidden()
    again = page.reload()
    assert again is not None
    assert (again.request.method, again.status) == ("GET", 200)
    badge = page.locator('.tabs [data-scenario="attack"] .tab-count')
    expect(badge).to_be_visible()
    count = badge.get_attribute("data-count")
    assert page.title().startswith("(")
    send("attack", f"{prefix}other", "waf-1", "under-attack")
    expect(badge).not_to_have_attribute("data-count", count or "")  # by itself
    faults[:] = [each for each in faults if "status of 422" not in each]  # the form's answer


@pytest.mark.extensive(
    guard="tests/web/board/test_past_board.py::test_every_past_board_comes_back_as_it_was"
)
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
