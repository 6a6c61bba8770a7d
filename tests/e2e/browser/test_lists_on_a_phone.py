"""Lists on a phone: the filter is one line until it is opened, and the first row is in view."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from support.browser.browser_pages import Open, Send, send_refused, serious_in_both
from support.run.stack import Stack

PHONE = {"width": 390, "height": 844}
LISTS = {
    "/events/?scenario=attack&q={prefix}": "operator",
    "/incidents/?q={prefix}": "operator",
    "/agents/?scenario=attack": "operator",
    "/audit/": "admin",
    "/users/": "admin",
    "/dead-letters/": "admin",
}
"""By address, who looks at it."""


@pytest.fixture
def rows(product: Stack, send: Send, prefix: str) -> str:
    """An asset under attack, with its change and its incident, and a refused record."""
    send("attack", f"{prefix}shop", "waf-1", "under-attack")
    send_refused(product, f"{prefix}shop")
    return prefix


def phone(open_as: Open, role: str, address: str) -> Page:
    page = open_as(role, "/account/tokens/", width=PHONE["width"])
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    page.goto(page.url.replace("/account/tokens/", address))
    return page


@pytest.mark.parametrize("address", LISTS)
def test_the_first_row_is_in_view(open_as: Open, rows: str, address: str) -> None:
    page = phone(open_as, LISTS[address], address.format(prefix=rows))
    first = page.locator("main tbody tr").first
    expect(first).to_be_attached(timeout=30_000)
    box = first.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= PHONE["height"], box
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_a_filter_opens_by_the_keyboard_and_says_how_much_it_narrows(
    open_as: Open, rows: str
) -> None:
    page = phone(open_as, "operator", f"/events/?scenario=attack&q={rows}")
    line = page.locator(".filter-fields > summary")
    expect(line).to_have_text("Filter: 2 set")
    expect(page.get_by_role("button", name="Filter", exact=True)).to_be_hidden()
    line.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("combobox", name="Filter")).to_be_visible()
    expect(page.get_by_role("button", name="Filter", exact=True)).to_be_visible()
    assert serious_in_both(page) == []
    page.set_viewport_size({"width": 1440, "height": 900})
    expect(line).to_be_hidden()
    expect(page.get_by_role("combobox", name="Filter")).to_be_visible()


def test_a_filter_with_a_mistake_is_open(open_as: Open, rows: str, faults: list[str]) -> None:
    page = phone(open_as, "operator", "/events/?q=state:")
    expect(page.locator(".filter-fields")).to_have_attribute("open", "")
    expect(page.locator(".field-errors").first).to_be_visible()
    faults[:] = [each for each in faults if not re.search("status of 422", each)]
