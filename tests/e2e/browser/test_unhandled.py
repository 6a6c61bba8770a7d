"""What is unhandled comes first: `n` goes to it, and one click on its row has it."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from support.browser.browser_pages import Open, Send, live, order, row
from support.run.stack import wait_until


def test_n_goes_to_the_next_and_one_click_has_it(open_as: Open, send: Send, prefix: str) -> None:
    for name in ("a", "b"):
        send("connectivity", f"{prefix}{name}", "monitor", "down")
    page = live(open_as("operator", f"/s/connectivity/?q={prefix}"))
    wait_until(lambda: len(order(page)) == 2, 45, "the networks")
    first, second = order(page)
    row(page, first).hover()
    row(page, first).get_by_role("button", name="I have it").click()
    expect(row(page, first)).to_have_class(re.compile(r"\bis-handled\b"))
    expect(row(page, first).locator(".have")).to_be_hidden()
    expect(row(page, first).locator(".state")).to_have_class(re.compile(r"\bc-red\b"))
    page.mouse.move(0, 0)
    for key in ("n", "n", "N"):
        page.keyboard.press(key)
        expect(row(page, second).locator(".asset")).to_be_focused()
    page.keyboard.press("Escape")
    wait_until(lambda: order(page) == [second, first], 20, "the handled row to go down")
    page.locator("#unhandled .chip").click()
    wait_until(lambda: order(page) == [second], 20, "the unhandled row alone")
