"""So many clicks, and so many keys, the frequent acts take from the board: counted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, Route, expect

from support.browser.browser_pages import Open, Send, live, open_palette, order, row
from support.run.stack import wait_until

COUNTED = """() => {
  const add = (kind) => sessionStorage.setItem(kind, Number(sessionStorage.getItem(kind)) + 1);
  addEventListener("pointerdown", (event) => event.isTrusted && add("clicks"), true);
  addEventListener("keydown", (event) => {
    if (event.isTrusted && !["Shift", "Control"].includes(event.key)) add("keys");
  }, true);
}"""
READ = "[sessionStorage.getItem('clicks'), sessionStorage.getItem('keys')].map(Number)"


@contextmanager
def takes(page: Page, clicks: int = 0, keys: int = 0) -> Iterator[None]:
    """What is done within takes exactly so many clicks and keys, text not counted."""
    page.evaluate("sessionStorage.clear()")
    yield
    assert page.evaluate(READ) == [clicks, keys]


def test_frequent_acts_take_few_clicks_and_keys(open_as: Open, send: Send, prefix: str) -> None:
    for name in "abcd":
        send("connectivity", f"{prefix}{name}", "monitor", "down")
    page = live(open_as("operator", f"/s/connectivity/?q={prefix}"))
    page.context.add_init_script(f"({COUNTED})()")
    live_again(page)
    wait_until(lambda: len(order(page)) == 4, 45, "the networks")
    first = row(page, order(page)[0])
    expect(first.locator(".case")).to_be_visible(timeout=20_000)
    _incident(page)
    _next_unhandled(page)
    _note(page)
    _mute(page)
    _acknowledge(page)


def live_again(page: Page) -> None:
    """Load the page again, and wait until it is live."""
    page.reload()
    live(page)


def _incident(page: Page) -> None:
    """From a red row to its incident: one click, or one key."""
    board = page.url
    incident = re.compile(r"/incidents/INC-[0-9]+/$")
    with takes(page, clicks=1):
        row(page, order(page)[0]).locator(".case").click()
        expect(page).to_have_url(incident)
    page.goto(board)
    live(page)
    page.keyboard.press("n")
    with takes(page, keys=1):
        page.keyboard.press("i")
        expect(page).to_have_url(incident)
    page.goto(board)
    live(page)


def _next_unhandled(page: Page) -> None:
    """The next one that nobody has in hand: one key; all of them alone: one click."""
    with takes(page, keys=1):
        page.keyboard.press("n")
        expect(page.locator("#tbody .asset:focus")).to_have_count(1)
    with takes(page, clicks=1):
        page.locator("#unhandled .chip").click()
        expect(page.locator("#q")).to_have_value(re.compile("is:unhandled"))
    page.locator("#unhandled .chip").click()
    wait_until(lambda: len(order(page)) == 4, 20, "all rows again")


def _note(page: Page) -> None:
    """A note: two clicks and the text, or one key, the text and what ends it."""
    first, second = order(page)[:2]
    with takes(page, clicks=2):
        row(page, first).hover()
        row(page, first).locator(".jot").click()
        page.locator("#note-form textarea").fill("called them")
        page.locator("#note-form button[type=submit]").click()
        expect(row(page, first).locator(".badge.notes")).to_contain_text("1")
        expect(page.locator("#note-dialog")).to_be_hidden()  # the badge may come before the answer
    row(page, second).locator(".asset").focus()
    with takes(page, keys=2):
        page.keyboard.press("c")
        page.keyboard.insert_text("called them too")
        page.keyboard.press("Control+Enter")
        expect(row(page, second).locator(".badge.notes")).to_contain_text("1")
        expect(page.locator("#note-dialog")).to_be_hidden()


def _mute(page: Page) -> None:
    """To the form that mutes an agent: two clicks, or the palette."""
    board = page.url
    with takes(page, clicks=2):
        row(page, order(page)[0]).locator(".asset").click()
        page.locator("#panel").get_by_role("link", name="monitor", exact=True).click()
        expect(page.locator("[name=reason]:focus")).to_be_visible()
    page.goto(board)
    live(page)
    with takes(page, keys=2):
        open_palette(page)
        page.keyboard.insert_text("mute monitor")
        expect(page.locator("#palette [role=option]").first).to_contain_text("monitor")
        page.keyboard.press("Enter")
        expect(page.locator("[name=reason]:focus")).to_be_visible()
    page.goto(board)
    live(page)


def _acknowledge(page: Page) -> None:
    """One asset, and a wave: one click, or two keys."""
    first, second, third, fourth = order(page)
    with takes(page, clicks=1):
        row(page, first).hover()
        row(page, first).get_by_role("button", name="I have it").click()
        expect(row(page, first).locator(".badge.ack")).to_be_visible()
    row(page, second).locator(".asset").focus()
    with takes(page, keys=2):
        page.keyboard.press("a")
        page.keyboard.press("Enter")
        expect(row(page, second).locator(".badge.ack")).to_be_visible()
        expect(page.locator("#ack-dialog")).to_be_hidden()
    with takes(page, clicks=1):
        row(page, third).hover()
        row(page, third).get_by_role("button", name="I have it").click(modifiers=["Shift"])
        expect(row(page, fourth).locator(".badge.ack")).to_be_visible()
    row(page, fourth).locator(".asset").focus()
    with takes(page, keys=2):
        page.keyboard.press("A")
        expect(page.locator("#ack-dialog .ack-which")).to_have_text("4 networks")
        page.keyboard.press("Enter")
        expect(page.locator("#ack-dialog")).to_be_hidden()


STATUSES = """() => {
  window.statuses = [];
  const read = () => document.querySelectorAll("[role=status]").forEach(
    (each) => window.statuses.push(each.textContent));
  new MutationObserver(read).observe(
    document.body, { subtree: true, childList: true, characterData: true });
}"""
"""Records what the page announces: one announcement soon replaces another."""


def test_a_dialog_that_opens_before_the_answer_to_another_stays(
    open_as: Open, send: Send, prefix: str
) -> None:
    for name in "ab":
        send("connectivity", f"{prefix}{name}", "monitor", "down")
    page = live(open_as("operator", f"/s/connectivity/?q={prefix}"))
    wait_until(lambda: len(order(page)) == 2, 45, "the networks")
    first, second = order(page)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/acknowledge/", hold)
    row(page, first).hover()
    row(page, first).get_by_role("button", name="I have it").click()
    row(page, second).locator(".asset").focus()
    page.keyboard.press("a")
    expect(page.locator("#ack-dialog .ack-which")).to_contain_text(second)
    page.evaluate(STATUSES)
    held[0].continue_()
    page.unroute("**/acknowledge/")
    expect(row(page, first).locator(".badge.ack")).to_be_visible()
    announced = "statuses.some((text) => text.includes('Acknowledged 1 network.'))"
    wait_until(lambda: page.evaluate(announced), 45, "it is announced")
    page.keyboard.press("Enter")
    expect(page.locator("#ack-dialog")).to_be_hidden()
    expect(row(page, second).locator(".badge.ack")).to_be_visible()
