"""Rows follow the log without a reload, and hold still for who is at them."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from support.browser.browser_pages import (
    COLOURS,
    SOME_WIDTHS,
    Open,
    Send,
    lines,
    live,
    order,
    resize,
    row,
    serious,
    serious_in_both,
    too_wide_in,
    widths_to_check,
)
from support.run.stack import Stack, wait_until


def orders(open_as: Open, prefix: str, width: int = 1440) -> Page:
    """A live board of this test's own orders."""
    return live(open_as("operator", f"/s/orders/?q={prefix}", width))


def test_report_shows_without_a_reload(open_as: Open, send: Send, prefix: str) -> None:
    page = orders(open_as, prefix)
    expect(page.locator("#empty-filter")).to_be_visible()
    send("orders", f"{prefix}1", "desk", "received")
    expect(row(page, f"{prefix}1").locator(".col-state")).to_contain_text("Received")
    send("orders", f"{prefix}1", "desk", "picking")
    expect(row(page, f"{prefix}1").locator(".col-state")).to_contain_text("Picking")


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_live_rows.py::test_report_shows_without_a_reload"
)
def test_board_larger_than_one_frame_is_live(open_as: Open, send: Send, prefix: str) -> None:
    assets = {f"{prefix}{n:03}{'-long' * 40}" for n in range(120)}
    for asset in assets:
        send("orders", asset, "desk", "received")
    page = orders(open_as, prefix)
    wait_until(lambda: set(order(page)) == assets, 45, "all orders")
    first = min(assets)
    send("orders", first, "desk", "picking")
    expect(row(page, first).locator(".col-state")).to_contain_text("Picking")


@pytest.mark.extensive(
    guard="tests/unit/board/test_row_markup.py::test_template_and_browser_make_the_same_row"
)
def test_state_outside_the_known_ones_shows(open_as: Open, send: Send, prefix: str) -> None:
    page = orders(open_as, prefix)
    send("orders", f"{prefix}1", "desk", "lost at sea")
    expect(row(page, f"{prefix}1").locator(".col-state")).to_contain_text("lost at sea")


def test_nothing_moves_under_the_pointer(open_as: Open, send: Send, prefix: str) -> None:
    a, b, c = (f"{prefix}{letter}" for letter in "abc")
    for asset in (c, b, a):
        send("orders", asset, "desk", "picking")
    page = orders(open_as, prefix)
    wait_until(lambda: order(page) == [a, b, c], 45, "three orders, the newest first")
    row(page, b).hover()
    place = row(page, b).bounding_box()
    send("orders", c, "desk", "received")
    send("orders", f"{prefix}d", "desk", "received")
    expect(row(page, c).locator(".col-state")).to_contain_text("Received")
    expect(page.locator("#waiting-n")).to_have_text("1 new, 1 moved")
    assert order(page) == [a, b, c]
    assert row(page, b).bounding_box() == place
    page.mouse.move(5, 5)
    wait_until(lambda: order(page) == [f"{prefix}d", c, a, b], 45, "the board's order")
    expect(page.locator("#waiting")).to_be_hidden()


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_live_rows.py::test_nothing_moves_under_the_pointer"
)
def test_nothing_moves_at_the_focus_until_asked(open_as: Open, send: Send, prefix: str) -> None:
    a, b = f"{prefix}a", f"{prefix}b"
    for asset in (b, a):
        send("orders", asset, "desk", "picking")
    page = orders(open_as, prefix)
    wait_until(lambda: order(page) == [a, b], 45, "two orders")
    page.keyboard.press("j")
    expect(row(page, a).locator(".asset")).to_be_focused()
    send("orders", b, "desk", "received")
    expect(page.locator("#waiting")).to_be_visible()
    assert order(page) == [a, b]
    page.locator("#waiting").click()
    wait_until(lambda: order(page) == [b, a], 45, "the board's order")


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_live_rows.py::test_nothing_moves_under_the_pointer"
)
def test_row_that_leaves_the_filter_stays_while_pointed_at(
    open_as: Open, send: Send, prefix: str
) -> None:
    asset = f"{prefix}a"
    send("orders", asset, "desk", "picking")
    page = live(open_as("operator", f"/s/orders/?q={prefix}&state=picking"))
    row(page, asset).hover()
    send("orders", asset, "desk", "packing")
    expect(page.locator("#waiting-n")).to_have_text("1 gone")
    expect(row(page, asset)).to_be_visible()
    page.mouse.move(5, 5)
    expect(row(page, asset)).to_have_count(0)


def test_filter_stays_in_the_address(open_as: Open, send: Send, prefix: str) -> None:
    send("orders", f"{prefix}a", "desk", "picking")
    send("orders", f"{prefix}b", "desk", "packing")
    page = live(open_as("operator", "/s/orders/"))
    page.locator("#q").fill(prefix)
    wait_until(lambda: len(order(page)) == 2, 45, "both orders")
    page.locator('.chip[data-state="packing"]').click()
    wait_until(lambda: order(page) == [f"{prefix}b"], 45, "the packing order")
    page.reload()
    live(page)
    expect(page.locator("#q")).to_have_value(prefix)
    expect(page.locator('.chip[data-state="packing"] input')).to_be_checked()
    assert order(page) == [f"{prefix}b"]
    page.locator("#q").fill(f"{prefix}nothing")
    page.locator("#clear").click()
    expect(page.locator("#q")).to_have_value("")
    wait_until(lambda: len(order(page)) > 1, 45, "all orders")


@pytest.mark.extensive(
    guard="tests/unit/board/test_asset_page.py::test_what_waits_counts_down_in_the_logs_time"
)
def test_pending_counts_down_and_becomes_the_state(open_as: Open, send: Send, prefix: str) -> None:
    asset = f"{prefix}net"
    page = live(open_as("operator", f"/s/connectivity/?q={prefix}"))
    send("connectivity", asset, "monitor", "up")
    expect(row(page, asset).locator(".col-state")).to_contain_text("Up")
    send("connectivity", asset, "monitor", "down")
    waits = row(page, asset).locator(".col-pending")
    expect(waits).to_contain_text("Down")
    before = waits.inner_text()
    wait_until(lambda: waits.inner_text() != before, 5, "the countdown goes on")
    expect(row(page, asset).locator(".col-state")).to_contain_text("Down")
    expect(waits).to_be_empty()


@pytest.mark.extensive(guard="tests/e2e/browser/test_calm.py::test_whole_page_by_keyboard_alone")
def test_keyboard_walk(open_as: Open, send: Send, prefix: str) -> None:
    a, b = f"{prefix}a", f"{prefix}b"
    for asset in (b, a):
        send("orders", asset, "desk", "picking")
    page = orders(open_as, prefix)
    wait_until(lambda: order(page) == [a, b], 45, "two orders")
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.press("Escape")
    for key, asset in (("j", a), ("j", b), ("k", a), ("ArrowDown", b)):
        page.keyboard.press(key)
        expect(row(page, asset).locator(".asset")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#panel-title")).to_be_focused()
    expect(page.locator("#panel-title")).to_have_text(b)
    page.keyboard.press("Escape")
    expect(page.locator("#panel")).to_be_hidden()
    expect(row(page, b).locator(".asset")).to_be_focused()
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()


def test_open_panel_follows_its_asset_and_keeps_what_is_typed(
    open_as: Open, send: Send, prefix: str
) -> None:
    asset = f"{prefix}a"
    send("orders", asset, "desk", "picking")
    page = orders(open_as, prefix)
    row(page, asset).locator(".asset").click()
    page.locator("#panel summary", has_text="Set a state").click()
    reason = page.locator("#panel .command-set [name=reason]")
    reason.fill("half a thou")
    send("orders", asset, "desk", "shipped")
    expect(page.locator("#panel-state")).to_contain_text("Shipped")
    expect(reason).to_have_value("half a thou")
    expect(reason).to_be_focused()


def in_state(page: Page, word: str) -> set[str]:
    """The assets of the table whose state reads `word`."""
    return {asset for asset, _, state in lines(page) if state == word}


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_banner.py::test_board_that_is_cut_off_shows_nothing_as_live"
)
@pytest.mark.alone
def test_page_is_whole_again_after_the_web_server_was_killed(
    open_as: Open, send: Send, prefix: str, product: Stack, faults: list[str]
) -> None:
    assets = [f"{prefix}{n:02}" for n in range(12)]
    for asset in assets:
        send("orders", asset, "desk", "picking")
    page = orders(open_as, prefix)
    wait_until(lambda: len(order(page)) == len(assets), 45, "all orders")
    product.kill("web")
    expect(page.locator("#live")).to_contain_text("reconnecting since")
    for asset in assets[::2]:
        send("orders", asset, "desk", "packing")
    send("orders", f"{prefix}new", "desk", "received")
    expect(page.locator("#live")).to_have_attribute("data-state", "live", timeout=60_000)
    wait_until(lambda: len(order(page)) == len(assets) + 1, 45, "the new order")
    # Orders of other partitions may come in a later batch than the new one.
    wait_until(lambda: in_state(page, "Packing") == set(assets[::2]), 45, "the orders packed")
    fresh = orders(open_as, prefix)
    assert lines(page) == lines(fresh)
    faults[:] = [fault for fault in faults if "WebSocket connection" not in fault]


# ---- what is in doubt -----------------------------------------------------------------------

OLD_S = 200
"""Longer than a vote of the demo lives: such a report arrives silent."""

BARE = r"""row => {
  // A row without what the browser says otherwise than the server: times, and its own classes.
  const copy = row.cloneNode(true);
  for (const time of copy.querySelectorAll("time")) time.replaceWith("…");
  for (const each of copy.querySelectorAll("[data-local], [data-silent]")) {
    each.removeAttribute("data-local");
    each.title = each.title.replace(/ since .*/, " since …");
  }
  const cells = [...copy.querySelectorAll(".col-state, .col-votes")];
  const kinds = copy.className.split(" ").filter((name) => name !== "fresh").join(" ");
  return kinds + cells.map((cell) => cell.innerHTML.replace(/\s+/g, " ")).join("\n");
}"""


def doubtful(open_as: Open, send: Send, prefix: str) -> Page:
    """A live board with a disputed pin, an unconfirmed row, one with a silent vote, one with an
    agent in doubt, a plain one."""
    page = live(open_as("operator", f"/s/attack/?q={prefix}"))
    states = {"pin": "under-attack", "quiet": "clear", "unsure": "clear", "plain": "clear"}
    for name, state in states.items():
        for agent in ("t-1", "t-2"):
            send("attack", f"{prefix}{name}", agent, state)
    send("attack", f"{prefix}one", "t-1", "clear")
    send("attack", f"{prefix}quiet", "t-3", "under-attack", OLD_S)
    send("attack", f"{prefix}unsure", "t-9", "critical")
    row(page, f"{prefix}pin").locator(".asset").click()
    page.locator("#panel summary", has_text="Set a state").click()
    form = page.locator("#panel .command-set form")
    form.locator("[name=state]").select_option("clear")
    form.locator("[name=reason]").fill("a drill")
    form.get_by_role("button").click()
    expect(page.locator("#panel .command-following .phase-applied")).to_contain_text("pplied")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.locator("#panel")).to_be_hidden()
    for name in ("quiet", "unsure"):
        expect(row(page, f"{prefix}{name}").locator(".badge.disputed")).to_be_visible()
    return page


def sign(place: Locator) -> str | None:
    """The shape of the first icon in an element."""
    return place.locator("use").first.get_attribute("href")


def looks_doubtful(page: Page, prefix: str) -> None:
    """By words and shapes: what a row says beside its state, whatever its colour."""
    pin, one, quiet = (row(page, f"{prefix}{name}") for name in ("pin", "one", "quiet"))
    assert sign(pin.locator(".col-state > .state")) == "#i-check"
    expect(pin.locator(".badge.disputed .said")).to_be_visible()
    expect(pin.locator(".badge.disputed .said")).to_have_text("Under attack")
    assert sign(pin.locator(".badge.disputed")) == "#i-octagon"
    expect(pin.locator(".badge.override .icon")).to_be_visible()
    expect(one.locator(".badge.unconfirmed .reason")).to_be_visible()
    expect(one.locator(".badge.unconfirmed .reason")).to_have_text("1 of 2 voters")
    assert sign(one.locator(".badge.unconfirmed")) == "#i-question"
    expect(quiet.locator(".vote.is-silent")).to_have_count(1)
    hatched = "mark => getComputedStyle(mark.querySelector('.icon')).maskImage"
    assert "gradient" in quiet.locator(".vote.is-silent").evaluate(hatched)
    assert quiet.locator(".vote:not(.is-silent)").first.evaluate(hatched) == "none"
    said = re.compile(r"^t-3: Under attack, silent since \d{4}-")
    expect(quiet.locator(".vote.is-silent")).to_have_attribute("title", said)
    unsure = row(page, f"{prefix}unsure")
    assert sign(unsure.locator(".badge.disputed")) == "#i-ring"
    expect(unsure.locator(".badge.disputed .said")).to_have_text("critical")
    expect(unsure.locator(".badge.doubted .icon")).to_be_visible()
    assert sign(unsure.locator(".badge.doubted")) == "#i-doubt"
    voteless = unsure.locator(".vote.is-voteless")
    expect(voteless).to_have_attribute("title", re.compile("^t-9: no vote, in doubt: says crit"))
    mark = "mark => getComputedStyle(mark, '::before').content"
    assert voteless.evaluate(mark).startswith('"?"')
    assert unsure.locator(".vote").first.evaluate(mark) == "none"
    for each in (pin, one, quiet, unsure):
        cell = each.locator(".col-state")
        assert cell.evaluate("cell => cell.scrollWidth <= cell.clientWidth")


def heights(page: Page, prefix: str) -> set[int]:
    """How high the rows are, px."""
    row_heights = page.eval_on_selector_all(
        "#tbody tr", "rows => rows.map(row => row.offsetHeight)"
    )
    assert len(row_heights) == 5, prefix
    return set(row_heights)


@pytest.mark.extensive(
    guard="tests/unit/board/test_row_markup.py::test_template_and_browser_make_the_same_row"
)
def test_doubts_show_without_colour_in_each_theme_and_width(
    open_as: Open, send: Send, prefix: str
) -> None:
    page = doubtful(open_as, send, prefix)
    for theme in ("light", "dark", "contrast"):
        page.evaluate("theme => localStorage.setItem('theme', theme)", theme)
        page.reload()
        live(page)
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        for width in SOME_WIDTHS:
            resize(page, width)
            looks_doubtful(page, prefix)
            assert len(heights(page, prefix)) == 1
            if width in widths_to_check():
                assert serious(page, *(() if theme == "light" else COLOURS)) == []
        page.keyboard.press("w")
        expect(page.locator("#wall-doubts")).to_be_visible()
        looks_doubtful(page, prefix)
        assert len(heights(page, prefix)) == 1
        assert serious(page, *COLOURS) == []
        page.keyboard.press("w")
    page.evaluate("localStorage.removeItem('theme')")


@pytest.mark.extensive(
    guard="tests/unit/board/test_asset_page.py::test_silent_votes_stand_apart_and_say_what_they_keep_up"
)
def test_asset_page_names_who_is_silent_and_who_disputes(
    open_as: Open, send: Send, prefix: str
) -> None:
    for agent in ("t-1", "t-2"):
        send("attack", f"{prefix}a", agent, "under-attack")
    for agent in ("t-3", "t-4"):
        send("attack", f"{prefix}a", agent, "under-attack", OLD_S)
    send("attack", f"{prefix}b", "t-1", "clear")
    send("attack", f"{prefix}b", "t-3", "under-attack", OLD_S)
    page = live(open_as("operator", f"/s/attack/?q={prefix}"))
    expect(row(page, f"{prefix}b").locator(".badge.disputed")).to_be_visible()
    page.goto(f"{page.url.split('?')[0]}a/{prefix}b/")
    expect(page.locator(".note-disputed")).to_contain_text("t-3 said Under attack before it fell")
    expect(page.locator(".now .badge.disputed")).to_contain_text("disputed: Under attack")
    expect(page.locator(".silent-votes tbody tr")).to_have_count(1)
    assert serious_in_both(page) == []
    assert too_wide_in(page) == []
    for agent in ("t-1", "t-2"):
        send("attack", f"{prefix}a", agent, "clear")
    page.goto(page.url.replace(f"{prefix}b", f"{prefix}a"))
    note = page.locator(".note-silent")
    expect(note).to_contain_text(re.compile(r"t-3 and t-4 fell silent at [\d: -]+ saying\s+Under"))
    expect(note).to_contain_text("or until they report or leave")
    expect(page.locator("#why")).to_contain_text("but t-3 and t-4 fell silent saying")
    assert serious_in_both(page) == []


@pytest.mark.extensive(
    guard="tests/unit/board/test_row_markup.py::test_template_and_browser_make_the_same_row"
)
def test_server_and_browser_make_the_same_doubtful_rows(
    open_as: Open, send: Send, prefix: str
) -> None:
    page = doubtful(open_as, send, prefix)
    plain = open_as("operator", f"/s/attack/?q={prefix}", java_script_enabled=False)
    for name in ("pin", "one", "quiet", "unsure", "plain"):
        made = row(page, f"{prefix}{name}").evaluate(BARE)
        server = row(plain, f"{prefix}{name}").evaluate(BARE)
        assert made == server, name


@pytest.mark.extensive(
    guard="tests/web/board/test_live_socket.py::test_doubts_are_counted_marked_and_filtered"
)
def test_counts_of_doubts_are_live_and_filter(open_as: Open, send: Send, prefix: str) -> None:
    page = doubtful(open_as, send, prefix)
    chips = page.locator("#doubts")
    disputed = chips.locator("[data-doubt=disputed]")
    for name in ("disputed", "unconfirmed", "doubt", "silent"):
        expect(chips.locator(f"[data-doubt={name}] .n")).not_to_have_text("0")
    box = chips.bounding_box()
    disputed.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#q")).to_have_value(f"{prefix} is:disputed")
    expect(disputed).to_have_attribute("aria-current", "true")
    named = {f"{prefix}{name}" for name in ("pin", "quiet", "unsure")}
    wait_until(lambda: set(order(page)) == named, 45, "the disputed")
    expect(page).to_have_url(re.compile("is%3Adisputed"))
    page.reload()
    live(page)
    expect(disputed).to_have_attribute("aria-current", "true")
    assert chips.bounding_box() == box
    disputed.click()
    expect(page.locator("#q")).to_have_value(prefix)
    wait_until(lambda: len(order(page)) == 5, 45, "all of them again")
    chips.locator("[data-doubt=doubt]").click()
    wait_until(lambda: order(page) == [f"{prefix}unsure"], 45, "the one with an agent in doubt")
    chips.locator("[data-doubt=doubt]").click()
    wait_until(lambda: len(order(page)) == 5, 45, "all of them once more")
    chips.locator("[data-doubt=silent]").click()
    wait_until(lambda: order(page) == [f"{prefix}quiet"], 45, "the one with a silent vote")
    before = disputed.locator(".n").inner_text()
    for agent in ("t-1", "t-2"):
        send("attack", f"{prefix}new", agent, "clear")
    send("attack", f"{prefix}new", "t-3", "under-attack")
    expect(disputed.locator(".n")).not_to_have_text(before)
