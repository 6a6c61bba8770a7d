"""A refused record, from Kafka to its page, mended by keyboard, and back onto the board."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from support.browser.browser_pages import REFUSED, Open, live, press_to, row, send_refused
from support.run.stack import Stack


def redrive(page: Page, value: str) -> None:
    """Put this into the form, and send it by keyboard."""
    page.get_by_role("textbox", name="Value").fill(value)
    press_to(page, page.get_by_role("button", name="Redrive"))
    page.keyboard.press("Enter")


def test_a_refused_report_is_mended_and_reaches_the_board(
    product: Stack, open_as: Open, prefix: str, faults: list[str]
) -> None:
    asset = f"{prefix}site"
    page = live(open_as("admin", f"/dead-letters/?q={prefix}"))
    expect(page.get_by_role("heading", name="No dead letters here")).to_be_visible()
    send_refused(product, asset)
    newer = page.get_by_role("link", name="There are newer ones")
    expect(newer).to_be_visible()
    newer.click()
    letter = page.locator(".letter-table tbody a", has_text="unknown-state")
    expect(letter).to_be_visible()

    press_to(page, letter)
    page.keyboard.press("Enter")
    expect(page.locator(".fault-text")).to_contain_text("state: expected under-attack")
    expect(page.locator("pre.bytes mark.fault")).to_have_text('"on-fire"')

    redrive(page, REFUSED.replace("on-fire", "fire"))
    refused = page.get_by_role("alert")
    expect(refused).to_contain_text("Not sent: unknown-state")
    expect(refused).to_be_in_viewport()
    back = page.locator("a[data-back]")  # to the list as it was left
    assert back.evaluate("link => link.search") == f"?q={prefix}"
    faults.clear()  # the browser's own word of the status 422
    redrive(page, REFUSED.replace("on-fire", "under-attack"))
    expect(page.locator(".message.success")).to_contain_text("Redriven: partition")
    expect(page.locator(".console-head")).to_contain_text("Redriven, edited")

    page.get_by_role("link", name="fetch it").click()
    expect(page.locator(".record-raw")).to_contain_text("under-attack")
    expect(page.locator(".record-facts").last).to_contain_text("redrive-of")
    page.goto(f"{product.url}/s/attack/?q={prefix}")
    expect(row(live(page), asset).locator(".col-state")).to_contain_text("Under attack")


@pytest.mark.extensive(
    guard="tests/web/operate/test_dead_letters.py::test_only_an_admin_is_shown_the_way_there"
)
def test_who_is_no_admin_sees_no_dead_letters(open_as: Open, faults: list[str]) -> None:
    page = open_as("operator", "/dead-letters/")
    expect(page.get_by_role("alert")).to_contain_text("this needs admin")
    expect(page.locator("nav a", has_text="Dead letters")).to_have_count(0)
    faults.clear()  # the browser's own word of the status 403
