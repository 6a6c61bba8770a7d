"""What is sent while nobody answers: it is said, what was typed stays, nothing is sent twice."""

from __future__ import annotations

from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect
from websockets.sync.client import connect
from websockets.typing import Origin

from support.browser.browser_pages import Open, Send, live, open_palette, row, serious


def expected(faults: list[str]) -> None:
    """Take out what a console says of requests that were to fail."""
    meant = ("Failed to load", "htmx:", "Response Status Error Code")
    faults[:] = [each for each in faults if not any(words in each for words in meant)]


def opened(open_as: Open, send: Send, asset: str) -> Page:
    """An operator's board with the panel of an order."""
    send("orders", asset, "desk", "picking")
    page = live(open_as("operator", f"/s/orders/?q={asset}"))
    row(page, asset).locator(".asset").click()
    expect(page.locator("#panel-title")).to_have_text(asset)
    return page


def test_a_form_that_is_not_answered_says_so_and_can_be_sent_again(
    open_as: Open, send: Send, prefix: str, faults: list[str]
) -> None:
    page = opened(open_as, send, f"{prefix}a")
    page.locator(".command-noting summary").click()
    form = page.locator(".command-noting form")
    form.locator("textarea").fill("seen by the gate")
    page.route("**/note/**", lambda route: route.abort())
    form.get_by_role("button").click()
    expect(form.locator("[role=alert]")).to_contain_text("cannot be reached")
    expect(form.locator("textarea")).to_have_value("seen by the gate")
    expect(form.get_by_role("button")).to_be_focused()
    assert serious(page) == []
    page.unroute("**/note/**")
    page.route("**/note/**", lambda route: route.fulfill(status=503, body="away"))
    form.get_by_role("button").click()
    expect(form.locator("[role=alert]")).to_contain_text("failed (503)")
    page.unroute("**/note/**")
    form.get_by_role("button").click()
    expect(page.locator(".notes-list")).to_contain_text("seen by the gate")
    expect(page.locator(".not-sent")).to_have_count(0)
    page.get_by_role("link", name="Commands").click()  # below a long history
    expect(page.locator(".command-noting summary")).to_be_in_viewport()
    expected(faults)


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_no_answer.py::"
    "test_a_form_that_is_not_answered_says_so_and_can_be_sent_again"
)
def test_a_row_that_cannot_be_opened_leaves_the_board(
    open_as: Open, send: Send, prefix: str, faults: list[str]
) -> None:
    asset = f"{prefix}a"
    send("orders", asset, "desk", "picking")
    page = live(open_as("operator", f"/s/orders/?q={prefix}"))
    page.route("**/s/orders/a/**", lambda route: route.abort())
    row(page, asset).locator(".asset").click()
    expect(page.locator("#panel [role=alert]")).to_contain_text("did not answer")
    expect(row(page, asset)).to_be_visible()
    page.unroute("**/s/orders/a/**")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#facts")).to_contain_text("Picking")
    expected(faults)


def test_a_plain_form_is_sent_once_and_says_that_it_is_under_way(open_as: Open) -> None:
    page = open_as("operator", "/handover/")
    page.evaluate("""() => {
      window.sent = 0; // and nothing of it leaves the page
      addEventListener("submit", (event) => {
        if (!event.defaultPrevented) window.sent += 1;
        event.preventDefault();
      });
    }""")
    page.locator("#handover_text").fill("all quiet")
    button = page.get_by_role("button", name="Save the text")
    button.click()
    button.click()
    expect(page.locator(".under-way")).to_be_visible()
    assert page.evaluate("() => window.sent") == 1
    page.goto(page.url)  # what is typed outlives another page
    expect(page.locator("#handover_text")).to_have_value("all quiet")
    page.get_by_role("button", name="Save the text").click()
    expect(page.locator(".message.success")).to_contain_text("is saved")
    expect(page.locator("#handover_text")).to_have_value("")


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_palette_and_past_board.py::"
    "test_the_palette_finds_pages_and_assets_by_keyboard"
)
def test_enter_in_the_palette_waits_for_what_was_typed(
    open_as: Open, send: Send, prefix: str
) -> None:
    for name in ("a-one", "a-two"):
        send("orders", f"{prefix}{name}", "desk", "picking")
    page = live(open_as("manager", f"/s/orders/?q={prefix}"))
    expect(row(page, f"{prefix}a-two")).to_be_visible()
    open_palette(page)
    page.keyboard.type(f"{prefix}a-one")
    expect(page.locator("#palette [aria-selected=true]")).to_contain_text("a-one")
    page.keyboard.press("Control+a")
    page.keyboard.type(f"{prefix}a-two")
    page.keyboard.press("Enter")  # before the answer: a-one is still listed
    expect(page).to_have_title(f"{prefix}a-two · Tallyboard")


@pytest.mark.extensive(
    guard="tests/web/core/test_flood.py::test_one_login_has_its_boards_and_locks_nobody_out"
)
def test_a_board_too_many_says_so_and_opens_once_another_is_closed(open_as: Open) -> None:
    page = live(open_as("operator", "/s/orders/"))
    site = urlsplit(page.url)
    cookies = "; ".join(f"{each['name']}={each['value']}" for each in page.context.cookies())
    with ExitStack() as others:
        for _ in range(49):
            other = connect(
                f"ws://{site.netloc}/ws/board/orders/",
                origin=Origin(f"{site.scheme}://{site.netloc}"),
                additional_headers={"Cookie": cookies},
            )
            others.enter_context(other)
            other.recv()
        late = page.context.new_page()
        late.goto(page.url)
        words = late.locator("#live-word")
        expect(words).to_have_text("50 boards are open in this login: close some")
    live(late)
