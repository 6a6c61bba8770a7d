"""Rows follow the log without a reload, and hold still for who is at them."""

from __future__ import annotations

from browsing import Open, Send, lines, live, order, row
from playwright.sync_api import Page, expect

from stack import Stack, wait_until


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


def test_board_larger_than_one_frame_is_live(open_as: Open, send: Send, prefix: str) -> None:
    assets = {f"{prefix}{n:03}{'-long' * 40}" for n in range(120)}
    for asset in assets:
        send("orders", asset, "desk", "received")
    page = orders(open_as, prefix)
    wait_until(lambda: set(order(page)) == assets, 45, "all orders")
    first = min(assets)
    send("orders", first, "desk", "picking")
    expect(row(page, first).locator(".col-state")).to_contain_text("Picking")


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
    expect(page.locator("#facts .now")).to_contain_text("Shipped")
    expect(reason).to_have_value("half a thou")
    expect(reason).to_be_focused()


def in_state(page: Page, word: str) -> set[str]:
    """The assets of the table whose state reads `word`."""
    return {asset for asset, _, state in lines(page) if state == word}


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
