"""The asset's page and panel by keyboard: why, the record behind it, and a command that is late."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Page, expect

from support.browser.browser_pages import (
    Open,
    Send,
    live,
    press_to,
    resize,
    row,
    serious,
    serious_in_both,
    too_wide_in,
    widths_to_check,
)


def page_of(
    open_as: Open, user: str, scenario: str, asset: str, width: int = 1440, **options: Any
) -> Page:
    """The asset's own page, once the board shows it."""
    page = live(open_as(user, f"/s/{scenario}/?q={asset}", width, **options))
    link = row(page, asset).locator(".asset")
    expect(link).to_be_visible()
    page.goto(urljoin(page.url, link.get_attribute("href")))
    return live(page)


def attacked(send: Send, asset: str) -> None:
    """Three agents see an attack, two do not."""
    for agent in ("w1", "w2", "w3"):
        send("attack", asset, agent, "under-attack")
    for agent in ("w4", "w5"):
        send("attack", asset, agent, "clear")


@pytest.mark.extensive(
    guard="tests/unit/board/test_explanation.py::test_what_is_said_to_flip_it_flips_it_and_less_does_not"
)
def test_why_follows_the_votes(open_as: Open, send: Send, prefix: str) -> None:
    asset = f"{prefix}site"
    attacked(send, asset)
    page = page_of(open_as, "manager", "attack", asset)
    expect(page.locator("#why")).to_contain_text("Under attack: 3 of 5 live votes; ")
    expect(page.locator("tr.differs")).to_have_count(2)
    send("attack", asset, "w3", "clear")
    expect(page.locator("#why")).to_contain_text("Clear waits with 3 of 5 live votes")
    countdown = page.locator(".note-pending [data-until]").first
    expect(countdown).to_be_visible()
    expect(page.locator("#why")).to_contain_text("Clear: 3 of 5 live votes")
    expect(page.locator(".history .entry").first).to_contain_text("Clear for ")


def test_whole_walk_by_keyboard(open_as: Open, send: Send, prefix: str) -> None:
    asset = f"{prefix}10.0.0.0/8"
    send("orders", asset, "desk", "picking")
    page = live(open_as("operator", f"/s/orders/?q={prefix}"))
    expect(row(page, asset)).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("#panel-title")).to_be_focused()
    # The record behind the state, fetched from Kafka, and back to where one was.
    link = page.locator("#panel .history a.record-link").first
    press_to(page, link)
    page.keyboard.press("Enter")
    dialog = page.locator("#record-dialog")
    expect(dialog.locator(".record-raw")).to_contain_text('"agent":"desk"')
    assert serious(page) == []
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.locator("#panel")).to_be_visible()
    expect(link).to_be_focused()
    # A form is opened; then the asset changes; what was typed is kept, and nothing was done.
    press_to(page, page.locator("#panel .command-set summary"))
    page.keyboard.press("Enter")
    state = page.locator("#panel .command-set [name=state]")
    press_to(page, state)
    page.keyboard.type("delivered")
    press_to(page, page.locator("#panel .command-set [name=reason]"))
    page.keyboard.type("saw it")
    send("orders", asset, "desk", "shipped")
    expect(page.locator("#panel-state")).to_contain_text("Shipped")
    page.keyboard.press("Enter")
    notice = page.locator("#panel .command-set .command-changed")
    expect(notice).to_contain_text("It was Picking at")
    expect(notice).to_contain_text(re.compile(r"is Shipped since [\d:]+, reported by desk"))
    expect(notice).to_be_focused()
    expect(state).to_have_value("delivered")
    assert serious(page) == []
    # The choice to do it anyway.
    press_to(page, page.locator("#panel .command-set").get_by_role("button", name="Set anyway"))
    page.keyboard.press("Enter")
    expect(page.locator("#panel .command-following .phase-applied")).to_contain_text("version")
    expect(page.locator("#why")).to_contain_text("Delivered: pinned by operator")
    expect(page.locator(".history .entry").first).to_contain_text("“saw it”")
    page.keyboard.press("Escape")
    expect(page.locator("#panel")).to_be_hidden()


@pytest.mark.extensive(guard="tests/e2e/browser/test_asset.py::test_whole_walk_by_keyboard")
def test_form_opened_after_a_change_is_about_what_is_shown(
    open_as: Open, send: Send, prefix: str
) -> None:
    asset = f"{prefix}a"
    send("orders", asset, "desk", "picking")
    page = page_of(open_as, "operator", "orders", asset)
    send("orders", asset, "desk", "shipped")
    expect(page.locator("#panel-state")).to_contain_text("Shipped")
    page.locator(".command-set summary").click()
    page.locator(".command-set [name=state]").fill("delivered")
    page.locator(".command-set [name=reason]").fill("saw it")
    page.locator(".command-set form").get_by_role("button", name="Set").click()
    expect(page.locator(".command-following .phase-applied")).to_be_visible()


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_commands.py::test_purge_asks_once_more_and_takes_the_asset_off"
)
def test_left_form_is_closed(open_as: Open, send: Send, prefix: str) -> None:
    asset = f"{prefix}a"
    send("orders", asset, "desk", "picking")
    page = page_of(open_as, "operator", "orders", asset)
    page.locator(".command-purge summary").click()
    page.locator(".command-purge").get_by_role("button", name="Purge…").click()
    expect(page.locator(".command-purge .returning")).to_contain_text("desk says")
    expect(page.locator(".command-purge")).to_contain_text("It will be back")
    page.locator(".command-purge").get_by_role("link", name="Keep it").click()
    expect(page.locator(".command-purge summary")).to_be_focused()
    expect(page.locator(".command-purge form")).to_be_hidden()


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_every_page.py::test_every_page_can_be_read_by_everybody"
)
def test_page_can_be_read_by_everybody(open_as: Open, send: Send, prefix: str) -> None:
    asset = f"{prefix}{'a-long-name-' * 6}"
    attacked(send, asset)
    page = page_of(open_as, "operator", "attack", asset)
    expect(page.locator("#why")).to_contain_text("Under attack")
    assert too_wide_in(page) == []
    page.locator(".command-set summary").click()
    for width in widths_to_check():
        resize(page, width)
        assert serious_in_both(page) == []
