"""Acknowledging by keys on one board and seeing it on another, selecting, alarms, the handover."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from support.browser.browser_pages import Open, Send, live, order, row, serious_in_both
from support.run.stack import wait_until


def board(open_as: Open, send: Send, prefix: str, *names: str, user: str = "operator") -> Page:
    """A live board of networks that are down, the last named on top."""
    for name in names:
        send("connectivity", f"{prefix}{name}", "monitor", "down")
    page = live(open_as(user, f"/s/connectivity/?q={prefix}"))
    wait_until(lambda: len(order(page)) == len(names), 45, "the networks")
    return page


def test_acknowledged_by_keys_here_is_seen_there(open_as: Open, send: Send, prefix: str) -> None:
    here = board(open_as, send, prefix, "a", "b")
    there = live(open_as("admin", f"/s/connectivity/?q={prefix}"))
    wait_until(lambda: len(order(there)) == 2, 45, "the networks on the other board")
    first, second = order(here)
    here.keyboard.press("j")
    here.keyboard.press(" ")
    here.keyboard.press("Shift+ArrowDown")
    expect(here.locator("#selection-n")).to_have_text("2")
    expect(row(here, second)).to_have_attribute("aria-selected", "true")
    here.keyboard.press("a")
    here.locator("#ack-form [name=reason]").fill("calling the provider")
    assert serious_in_both(here) == []
    here.keyboard.press("Enter")
    expect(here.locator("#ack-dialog")).to_be_hidden()
    expect(here.locator("#selection")).to_be_hidden()
    for asset in (first, second):
        expect(row(there, asset).locator(".badge.ack")).to_contain_text("operator")
    row(there, first).locator(".asset").click()
    expect(there.locator(".note-ack")).to_contain_text("calling the provider")
    there.locator(".note-ack button").click()
    expect(row(here, first).locator(".badge.ack")).to_have_count(0)
    expect(row(here, second).locator(".badge.ack")).to_be_visible()
    expect(there.locator(".note-ack")).to_have_count(0)  # the panel has been renewed
    there.locator(".command-noting summary").click()
    there.locator(".command-noting textarea").fill("see https://status.example/")
    there.locator(".command-noting button").click()
    expect(row(here, first).locator(".badge.notes")).to_contain_text("1")
    expect(there.locator(".notes-list a[href='https://status.example/']")).to_be_visible()


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_operators_work.py::test_acknowledged_by_keys_here_is_seen_there"
)
def test_a_selection_lives_through_changes_and_goes_to_bulk(
    open_as: Open, send: Send, prefix: str
) -> None:
    page = board(open_as, send, prefix, "a", "b", "c")
    page.keyboard.press("j")
    page.keyboard.press("Control+a")
    expect(page.locator("#selection-n")).to_have_text("3")
    row(page, f"{prefix}b").locator(".pick").click()
    expect(page.locator("#selection-n")).to_have_text("2")
    expect(page.locator("#panel")).to_be_hidden()
    send("connectivity", f"{prefix}d", "monitor", "down")
    expect(page.locator("#waiting-n")).to_have_text("1 new")
    page.keyboard.press("u")
    wait_until(lambda: len(order(page)) == 4, 45, "the new network")
    expect(row(page, f"{prefix}a").locator(".pick")).to_be_checked()
    page.locator("#q").fill(f"{prefix}c")
    expect(page.locator("#selection-gone")).to_have_text(", 1 no longer shown")
    page.locator("#selection [value=purge]").click()
    names = page.locator("#bulk-dialog [name=names]")
    expect(names).to_have_value(re.compile(rf"^{prefix}[ac]\s+{prefix}[ac]\s*$"))
    page.keyboard.press("Escape")
    expect(page.locator("#bulk-dialog")).to_be_hidden()
    expect(page.locator("#selection-n")).to_have_text("2")
    page.keyboard.press("Escape")
    expect(page.locator("#selection")).to_be_hidden()


@pytest.mark.extensive(
    guard="tests/web/board/test_live_socket.py::"
    "test_a_browser_is_alarmed_of_what_comes_and_not_of_what_was_there"
)
def test_an_alarm_is_told_once_for_what_comes_and_never_for_what_was_there(
    open_as: Open, send: Send, prefix: str
) -> None:
    send("orders", f"{prefix}old", "desk", "received")
    pages = [
        open_as("operator", f"/s/orders/?q={prefix}", permissions=["notifications"])
        for _ in range(2)
    ]
    for page in pages:
        page.add_init_script(NOTED)
        page.reload()
        live(page)
        expect(row(page, f"{prefix}old")).to_be_visible()
    page = pages[0]
    page.locator("#user-menu summary").click()
    page.locator("#alarm-open").click()
    page.locator("[name=alarm-state][value=received]").check()
    page.locator("[name=alarm-notify]").check()
    expect(page.locator("[name=alarm-notify]")).to_be_checked()
    assert serious_in_both(page) == []
    page.keyboard.press("Escape")
    page.reload()
    live(page)
    send("orders", f"{prefix}new", "desk", "received")
    for each in pages:
        each.wait_for_function("() => window.turns === 1", timeout=45_000)
    assert notification_titles(pages) == [f"Received: {prefix}new"]


NOTED = """window.titles = [];
window.turns = 0;
const { transaction } = IDBDatabase.prototype;
IDBDatabase.prototype.transaction = function (...given) {
  const begun = transaction.apply(this, given);
  begun.addEventListener("complete", () => setTimeout(() => { window.turns += 1; }));
  return begun;
};
window.Notification = class extends EventTarget {
  static permission = "granted";
  static requestPermission = async () => "granted";
  constructor(title) { super(); window.titles.push(title); }
};"""
"""Notes the titles of notifications, and how often it was a tab's turn to tell."""


def notification_titles(pages: list[Page]) -> list[str]:
    """The titles of the notifications of all tabs."""
    return [title for page in pages for title in page.evaluate("window.titles")]


def test_the_handover_tells_what_is_open_and_keeps_a_text(
    open_as: Open, send: Send, prefix: str
) -> None:
    board(open_as, send, prefix, "a")
    page = open_as("operator", "/handover/?hours=1&scenario=connectivity")
    expect(page.locator("#handover")).to_contain_text(f"{prefix}a")
    for width, height in ((390, 844), (1280, 720)):
        page.set_viewport_size({"width": width, "height": height})
        page.evaluate("scrollTo(0, 0)")
        page.get_by_role("link", name="For the next shift").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="For the next shift")).to_be_in_viewport(ratio=1)
        page.keyboard.press("Tab")
        expect(page.locator("textarea[name=text]")).to_be_focused()
        for button in ("Save the text", "End my shift"):
            page.keyboard.press("Tab")
            expect(page.get_by_role("button", name=button)).to_be_focused()
            expect(page.get_by_role("button", name=button)).to_be_in_viewport(ratio=1)
    page.locator("textarea[name=text]").fill(f"{prefix}: all quiet")
    page.get_by_role("button", name="Save the text").click()
    expect(page.locator(".handover-text").first).to_contain_text(f"{prefix}: all quiet")
    page.get_by_role("button", name="Start my shift").click()
    expect(page.locator(".shift-box")).to_contain_text("You have been on shift")
    page.get_by_role("button", name="End my shift").click()
    expect(page.locator(".handover-since")).to_contain_text("your last shift ended then")
