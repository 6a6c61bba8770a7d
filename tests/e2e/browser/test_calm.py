"""Eight hours at the board: rows that stay, keys for everything, and pages of many rows."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from dashboard.core.states.caveats import place_of
from support.browser.browser_pages import Open, Send, live, order, row
from support.run.stack import wait_until

PICKING = place_of(3, unhandled=False)
"""The place of orders that are being picked, in a board's order."""


def orders(open_as: Open, send: Send, prefix: str, *names: str, path: str = "") -> Page:
    """A live board of these orders alone, the first on top."""
    for name in reversed(names):
        send("orders", f"{prefix}{name}", "desk", "picking")
    page = live(open_as("operator", f"/s/orders/?q={prefix}{path}"))
    wait_until(lambda: len(order(page)) == len(names), 45, "the orders")
    return page


def place(page: Page, asset: str) -> float:
    """Return how far a row is from the window's top, px."""
    box = row(page, asset).bounding_box()
    assert box
    return box["y"]


def rest(page: Page) -> None:
    """Wait until the page holds that nobody is at it: four seconds after the last key."""
    page.wait_for_function("() => { window.t ??= Date.now(); return Date.now() - window.t > 4200 }")


GROWN = """() => {
  const height = () => document.querySelector("#filters").getBoundingClientRect().height;
  const counts = document.querySelectorAll(".counts .n");
  for (const count of counts) count.textContent = "1";
  const before = height();
  for (const count of counts) count.textContent = "999";
  return [before, height(), document.documentElement.scrollWidth - innerWidth];
}"""
"""Heights of the filters before and after each count has grown by two digits, and how much too wide
the page is then."""


# ---- calm -----------------------------------------------------------------------------------


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_live_rows.py::test_nothing_moves_under_the_pointer"
)
def test_rows_wait_by_kind_while_somebody_types_elsewhere(
    open_as: Open, send: Send, prefix: str
) -> None:
    a, b = f"{prefix}a", f"{prefix}b"
    page = orders(open_as, send, prefix, "a", "b")
    page.locator(f'#tbody tr[data-asset="{b}"]').hover()
    send("orders", f"{prefix}c", "desk", "received")
    send("orders", b, "desk", "received")
    expect(page.locator("#waiting-n")).to_have_text("1 new, 1 moved")
    expect(page.locator("#announce")).to_contain_text("waiting: press u to show")
    expect(row(page, b).locator(".col-state")).to_contain_text("Received")
    assert order(page) == [a, b]
    page.keyboard.press("u")
    assert order(page) == [b, f"{prefix}c", a]
    expect(page.locator("#waiting")).to_be_hidden()


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_live_rows.py::test_nothing_moves_under_the_pointer"
)
def test_rows_come_by_themselves_when_nobody_is_at_the_page(
    open_as: Open, send: Send, prefix: str
) -> None:
    page = orders(open_as, send, prefix, "a")
    rest(page)
    send("orders", f"{prefix}b", "desk", "received")
    wait_until(lambda: order(page) == [f"{prefix}b", f"{prefix}a"], 45, "the new order on top")
    expect(page.locator("#waiting")).to_be_hidden()


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_live_rows.py::test_nothing_moves_under_the_pointer"
)
def test_rows_wait_while_the_page_is_scrolled_and_nothing_jumps(
    open_as: Open, send: Send, prefix: str
) -> None:
    names = [f"{number:02}" for number in range(40)]
    page = orders(open_as, send, prefix, *names)
    page.mouse.move(5, 5)
    page.evaluate("scrollTo(0, 400)")
    rest(page)
    seen = f"{prefix}20"
    before = place(page, seen)
    send("orders", f"{prefix}new", "desk", "received")
    send("orders", f"{prefix}39", "desk", "received")
    expect(page.locator("#waiting-n")).to_have_text("1 new, 1 moved")
    page.keyboard.press("u")
    wait_until(lambda: f"{prefix}new" in order(page), 10, "the new order")
    assert abs(place(page, seen) - before) < 1


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_live_rows.py::test_nothing_moves_under_the_pointer"
)
def test_counts_grow_without_a_line_more(open_as: Open, send: Send, prefix: str) -> None:
    """A line more among the filters would move every row that is being read."""
    page = orders(open_as, send, prefix, "a")
    for width in (1280, 1440, 1920):
        page.set_viewport_size({"width": width, "height": 800})
        before, after, too_wide = page.evaluate(GROWN)
        assert after == before, f"{width} px"
        assert too_wide <= 0, f"{width} px"


@pytest.mark.extensive(guard="tests/e2e/browser/test_calm.py::test_whole_page_by_keyboard_alone")
def test_focus_stays_on_its_row_when_rows_are_arranged(
    open_as: Open, send: Send, prefix: str
) -> None:
    a, b = f"{prefix}a", f"{prefix}b"
    page = orders(open_as, send, prefix, "a", "b")
    page.keyboard.press("End")
    send("orders", b, "desk", "received")
    expect(page.locator("#waiting-n")).to_have_text("1 moved")
    page.keyboard.press("u")
    assert order(page) == [b, a]
    expect(row(page, b).locator(".asset")).to_be_focused()


# ---- keys -----------------------------------------------------------------------------------


def test_whole_page_by_keyboard_alone(open_as: Open, send: Send, prefix: str) -> None:
    a, b, c = (f"{prefix}{name}" for name in "abc")
    page = orders(open_as, send, prefix, "a", "b", "c")
    press = page.keyboard.press

    def focused(asset: str) -> None:
        expect(row(page, asset).locator(".asset")).to_be_focused()

    for key, asset in (("j", a), ("End", c), ("k", b), ("Home", a), ("ArrowDown", b), ("o", b)):
        press(key)
        if key != "o":
            focused(asset)
    expect(page.locator("#panel-title")).to_have_text(b)
    press("Escape")
    expect(page.locator("#panel")).to_be_hidden()
    focused(b)
    press("Enter")
    expect(page.locator("#panel-title")).to_be_focused()
    press("Escape")

    press("2")
    expect(page.locator('.chip[data-state="picking"] input')).to_be_checked()
    expect(page).to_have_url(re.compile("state=picking"))
    press("0")
    expect(page.locator(".chip input:checked")).to_have_count(0)

    press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    press("w")
    expect(page.locator("header.top")).to_be_hidden()
    press("Escape")
    expect(page.locator("header.top")).to_be_visible()

    press("/")
    expect(page.locator("#q")).to_be_focused()
    press("?")
    expect(page.locator("#help")).to_be_hidden()
    press("Escape")
    press("?")
    expect(page.locator("#help")).to_be_visible()
    press("Escape")
    expect(page.locator("#help")).to_be_hidden()

    press("[")
    expect(page).to_have_url(re.compile("scenario=connectivity"))
    live(page)
    press("]")
    expect(page).to_have_url(re.compile("scenario=orders"))
    live(page)


def test_help_lists_every_key(open_as: Open) -> None:
    page = live(open_as("operator", "/"))
    page.keyboard.press("?")
    listed = page.locator("#help .keys kbd").all_inner_texts()
    walking = ["j", "↓", "k", "↑", "n", "Shift N", "Home", "End", "Enter", "o", "i"]
    choosing = ["Space", "Shift ↓", "Shift ↑", "Ctrl A", "a", "Shift A", "c"]
    others = ["Esc", "u", "/", "1", "…", "9", "0", "d", "[", "]", ">", "<", "s", "w", "t"]
    assert listed == [*walking, *choosing, *others, "Ctrl K", "?"]


def test_keys_of_one_character_can_be_switched_off(open_as: Open) -> None:
    page = live(open_as("operator", "/"))
    page.keyboard.press("?")
    page.get_by_label("Single-key shortcuts").uncheck()
    page.keyboard.press("Escape")
    page.reload()
    live(page)
    page.keyboard.press("w")
    page.keyboard.press("j")
    expect(page.locator("header.top")).to_be_visible()
    assert page.evaluate("document.activeElement === document.body")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#tbody .asset").first).to_be_focused()


# ---- wall -----------------------------------------------------------------------------------

WAKE_LOCK = """
  window.locks = [];
  Object.defineProperty(navigator, "wakeLock", { value: { request(kind) {
    window.locks.push(kind);
    return Promise.resolve({ released: false, release() { window.locks.pop(); } });
  } } });
"""


def test_wall_fills_the_screen_and_keeps_it_awake(open_as: Open) -> None:
    page = open_as("operator", "/account/tokens/", width=1920)
    page.add_init_script(WAKE_LOCK)
    page.goto(page.url.replace("/account/tokens/", "/?scenario=attack&wall=1"))
    expect(page.locator("#tbody tr").first).to_be_visible()
    for chrome in ("header.top", "#filters", "#more"):
        expect(page.locator(chrome)).to_be_hidden()
    expect(page.locator("#wall-clock")).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
    expect(page.locator("#wall-counts li")).to_have_count(3)
    assert page.evaluate("document.documentElement.scrollHeight <= innerHeight")
    severities = page.eval_on_selector_all("#tbody tr", "rows => rows.map(row => row.className)")
    assert severities == sorted(severities, key=lambda name: int(name[1]))
    assert page.evaluate("window.locks") == ["screen"]
    page.keyboard.press("w")
    expect(page.locator("header.top")).to_be_visible()
    assert page.evaluate("window.locks") == []
    assert "wall" not in page.url


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_calm.py::test_wall_fills_the_screen_and_keeps_it_awake"
)
def test_wall_shows_changes_wherever_the_pointer_lies(
    open_as: Open, send: Send, prefix: str
) -> None:
    page = orders(open_as, send, prefix, "a", path="&wall=1")
    page.mouse.move(400, 300)
    row(page, f"{prefix}a").hover()
    send("orders", f"{prefix}b", "desk", "received")
    wait_until(lambda: order(page) == [f"{prefix}b", f"{prefix}a"], 45, "the new order on top")
    row(page, f"{prefix}b").click()
    expect(page.locator("#panel")).to_be_hidden()


# ---- zone -----------------------------------------------------------------------------------


def test_times_are_the_viewers_with_utc_in_the_title(
    open_as: Open, send: Send, prefix: str
) -> None:
    asset = f"{prefix}a"
    send("orders", asset, "desk", "picking")
    path = f"/s/orders/?q={prefix}"
    page = live(open_as("operator", path, timezone_id="America/St_Johns"))
    expect(page.locator(".zone")).to_have_text("times in America/St_Johns")
    row(page, asset).locator(".asset").click()
    time = page.locator("#panel-state time[data-at]").first
    at = int(time.get_attribute("data-at") or 0)
    here, there = page.evaluate(
        """at => ["America/St_Johns", "UTC"].map(timeZone =>
           new Date(at).toLocaleTimeString("en-GB", { timeZone }))""",
        at,
    )
    assert here != there
    expect(time).to_have_text(here)
    expect(time).to_have_attribute("title", re.compile(f"{there} UTC$"))
    since = row(page, asset).locator(".col-since time")
    expect(since).to_have_attribute("title", re.compile("America/St_Johns, .* UTC$"))


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_calm.py::test_times_are_the_viewers_with_utc_in_the_title"
)
def test_times_are_utc_without_javascript(open_as: Open, send: Send, prefix: str) -> None:
    asset = f"{prefix}a"
    send("orders", asset, "desk", "picking")
    page = live(open_as("operator", f"/s/orders/?q={prefix}"))
    expect(row(page, asset)).to_be_visible()
    plain = open_as(
        "operator", f"/s/orders/a/{asset}/", timezone_id="Asia/Tokyo", java_script_enabled=False
    )
    expect(plain.locator("#panel-state time[data-at]").first).to_have_text(re.compile(" UTC$"))


# ---- pages of many rows ---------------------------------------------------------------------


@pytest.mark.extensive(
    guard="tests/web/board/test_live_socket.py::test_a_later_page_is_told_of_what_lies_on_it"
)
def test_later_page_says_so_follows_the_log_and_leads_back(
    open_as: Open, send: Send, prefix: str
) -> None:
    a, b, c = (f"{prefix}{name}" for name in "abc")
    page = orders(open_as, send, prefix, "a", "b", "c")
    since = row(page, a).locator(".col-since time").get_attribute("data-since")
    page.goto(f"{page.url}&after=r{PICKING}.{since}.{a}")
    live(page)
    wait_until(lambda: order(page) == [b, c], 45, "what follows the first order")
    expect(page.locator("#continued")).to_have_text(f"a later page, after {a}")
    expect(page.locator("#next-page")).to_be_hidden()
    send("orders", b, "desk", "received")
    wait_until(lambda: order(page) == [c], 45, "the order that has moved to the page before")
    with page.expect_navigation():
        page.keyboard.press("<")
    wait_until(lambda: len(order(page)) == 3, 45, "all orders")
    assert order(page)[0] == b
    expect(page.locator("#continued")).to_be_hidden()


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_live_rows.py::test_filter_stays_in_the_address"
)
def test_another_filter_begins_at_the_top(open_as: Open, send: Send, prefix: str) -> None:
    a, b = f"{prefix}a", f"{prefix}b"
    page = orders(open_as, send, prefix, "a", "b")
    since = row(page, a).locator(".col-since time").get_attribute("data-since")
    page.goto(f"{page.url}&after=r{PICKING}.{since}.{a}")
    live(page)
    wait_until(lambda: order(page) == [b], 45, "what follows the first order")
    page.locator('.chip[data-state="picking"]').click()
    wait_until(lambda: order(page) == [a, b], 45, "both orders")
    assert "after" not in page.url
