"""Every page, at any width and in both themes: to be read by everybody, and without an error."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from browsing import Open, live, log_in
from playwright.sync_api import Browser, Page, expect

from stack import Stack

PAGES = {
    "login": ("", "/account/login/"),
    "board": ("operator", "/"),
    "orders": ("operator", "/s/orders/"),
    "asset": ("operator", "/s/attack/a/shop.example/"),
    "asset-manager": ("manager", "/s/attack/a/shop.example/"),
    "tokens": ("operator", "/account/tokens/"),
    "password": ("operator", "/account/password/change/"),
    "second-factor": ("operator", "/account/2fa/"),
    "confirm": ("operator", "/account/2fa/totp/activate/"),
    "logout": ("operator", "/account/logout/"),
}
"""Who looks at which path."""


def serious(page: Page) -> list[str]:
    """What axe holds to be serious or worse, with the first element of each."""
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]} {one['nodes'][0]['failureSummary']}"
        for one in Axe().run(page).response["violations"]
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_page_can_be_read_by_everybody(open_as: Open, name: str, theme: str) -> None:
    page = open_as(*PAGES[name], color_scheme=theme)
    expect(page.locator("h1")).to_have_count(1)
    assert serious(page) == []


def test_address_that_names_nothing_says_so(open_as: Open, faults: list[str]) -> None:
    page = open_as("operator", "/nothing/here/")
    expect(page.get_by_role("heading", level=1)).to_have_text("There is nothing here")
    assert ["404" in fault for fault in faults] == [True]
    faults.clear()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_open_panel_can_be_read_by_everybody(open_as: Open, theme: str) -> None:
    page = live(open_as("operator", "/?scenario=attack", color_scheme=theme))
    page.locator("#tbody .asset").first.click()
    page.locator("#panel summary", has_text="Set a state").click()
    assert serious(page) == []


@pytest.mark.parametrize("width", [2560, 1440, 1024, 390])
def test_nothing_is_wider_than_the_window(open_as: Open, width: int) -> None:
    for user, path in PAGES.values():
        page = open_as(user, path, width=width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        page.close()


def test_theme_is_remembered(open_as: Open) -> None:
    page = open_as("operator", "/", color_scheme="light")
    light = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    page.locator("#theme").click()
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert dark != light


def test_wrong_password_is_told(open_as: Open) -> None:
    page = open_as("", "/")
    page.get_by_label("Name").fill("nobody")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("not correct")


def test_login_leads_back_to_what_was_asked_for(open_as: Open, product: Stack) -> None:
    page = open_as("", "/s/orders/?q=7")
    log_in(page, product, "operator")
    expect(page).to_have_url(f"{product.url}/s/orders/?q=7")


def test_logging_out_ends_the_board_in_another_tab(browser: Browser, product: Stack) -> None:
    context = browser.new_context()
    board = context.new_page()
    log_in(board, product, "operator")
    live(board)
    other = context.new_page()
    other.goto(f"{product.url}/account/logout/")
    other.get_by_role("main").get_by_role("button", name="Log out").click()
    expect(board.get_by_label("Password")).to_be_visible()
    context.close()
