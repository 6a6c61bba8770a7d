"""The frame of every page: themes, contrast, widths of the board, login and logout."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from support.browser.browser_pages import (
    COLOURS,
    Open,
    live,
    log_in,
    resize,
    serious,
    serious_in_both,
    violations,
    widths_to_check,
)
from support.run.stack import Stack


def test_address_that_names_nothing_says_so(open_as: Open, faults: list[str]) -> None:
    page = open_as("operator", "/nothing/here/")
    expect(page.get_by_role("heading", level=1)).to_have_text("There is nothing here")
    assert ["404" in fault for fault in faults] == [True]
    faults.clear()


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_pages.py::test_board_can_be_read_in_each_theme_and_width"
)
def test_open_panel_can_be_read_by_everybody(open_as: Open) -> None:
    page = live(open_as("operator", "/?scenario=attack"))
    page.locator("#tbody .asset").first.click()
    page.locator("#panel summary", has_text="Set a state").click()
    assert serious_in_both(page) == []


def test_theme_is_remembered(open_as: Open) -> None:
    page = open_as("operator", "/", color_scheme="light")
    light = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    page.locator("#theme").click()
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert dark != light


@pytest.mark.parametrize("theme", ["light", "dark", "contrast"])
@pytest.mark.spread(1)
def test_board_can_be_read_in_each_theme_and_width(open_as: Open, theme: str) -> None:
    page = open_as("operator", "/?scenario=attack", reduced_motion="reduce")
    page.evaluate("theme => localStorage.setItem('theme', theme)", theme)
    page.reload()
    live(page)
    expect(page.locator("html")).to_have_attribute("data-theme", theme)
    rules = () if theme == "light" else COLOURS
    for width in widths_to_check():
        resize(page, width)
        assert serious(page, *rules) == []
        page.keyboard.press("w")
        expect(page.locator("header.top")).to_be_hidden()
        assert serious(page, *rules) == []
        if width == widths_to_check()[-1]:
            page.keyboard.press("?")
            expect(page.locator("#help")).to_be_visible()
            assert serious(page, *rules) == []
        else:
            page.keyboard.press("w")
            expect(page.locator("header.top")).to_be_visible()


@pytest.mark.parametrize("asked_by", ["theme", "system"])
@pytest.mark.spread(1)
def test_high_contrast_is_seven_to_one(open_as: Open, asked_by: str) -> None:
    asked = {"contrast": "more"} if asked_by == "system" else {}
    page = open_as("operator", "/?scenario=attack", **asked)
    if asked_by == "theme":
        for _ in range(3):
            page.locator("#theme").click()
    live(page)
    page.locator("#tbody .asset").first.click()
    expect(page.locator("#panel-title")).to_be_visible()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        axe_violations = violations(page, "color-contrast-enhanced")
        nodes = [node for one in axe_violations for node in one["nodes"]]
        assert [(node["html"][:120], node["failureSummary"]) for node in nodes] == [], scheme


def test_colours_of_the_system_leave_states_apart(open_as: Open) -> None:
    page = live(open_as("operator", "/?scenario=attack", forced_colors="active"))
    colour = "element => getComputedStyle(element).color"
    state = page.locator("#tbody .col-state > .state").first
    text = page.locator("#tbody .asset").first.evaluate(
        "() => getComputedStyle(document.body).color"
    )
    assert state.locator(".icon").evaluate(colour) == text
    assert state.evaluate("element => getComputedStyle(element).borderTopWidth") == "1px"
    expect(state.locator(".word")).to_be_visible()
    shapes = page.eval_on_selector_all(
        ".chip use", "uses => uses.map(use => use.getAttribute('href'))"
    )
    own = [shape for shape in shapes if shape != "#i-hand"]  # of what somebody has acknowledged
    assert len(set(own)) == len(own) == 8  # three states, unhandled, and doubts
    box = page.locator(".chip").first
    before = box.evaluate("element => getComputedStyle(element).backgroundColor")
    box.click()
    assert box.evaluate("element => getComputedStyle(element).backgroundColor") != before


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
