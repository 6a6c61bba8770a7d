"""A board of more rows than a page: every asset once, page by page and back, by keyboard."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from agents.reporter import Reporter
from bus.kafka import KafkaBus
from support.browser.browser_pages import Open, live, order
from support.run.stack import Stack, wait_until
from wire.topics import Topics

PAGE = 500
ALL = 2 * PAGE + 203


def report(product: Stack, spool: Path, assets: list[str], state: str, **detail: str) -> None:
    """All of them at once, and wait until Kafka has them."""
    bus, topics = KafkaBus(product.settings.kafka_options()), Topics(product.settings.topic_prefix)
    reporter = Reporter(bus, topics.reports("orders"), spool)
    for asset in assets:
        reporter.report(asset, "desk", state, detail=detail or None)
    wait_until(lambda: reporter.unconfirmed == 0, 60, "the reports")
    reporter.close()


def in_place(page: Page, number: int) -> list[str]:
    """The assets of a page of so many rows, once they are in their places: where rows follow, they
    do so after the last one that is shown."""
    expect(page.locator("#tbody tr"), f"at {page.url}").to_have_count(number)
    wait_until(lambda: goes_on_after(page) in (None, order(page)[-1]), 45, "rows in place")
    return order(page)


def goes_on_after(page: Page) -> str | None:
    """The asset after which the next page begins."""
    following = page.locator("#next-page:not([hidden])")
    if not following.count():
        return None
    query = parse_qs(urlsplit(following.get_attribute("href") or "").query)
    return query["after"][0].split(".", 2)[2]


def turn(page: Page, key: str, number: int) -> list[str]:
    """Press a key that leads to another page of so many rows; its assets, once it is live."""
    with page.expect_navigation():
        page.keyboard.press(key)
    return in_place(live(page), number)


def test_names_are_in_the_servers_order(open_as: Open) -> None:
    page = live(open_as("operator", "/s/orders/"))
    names = [
        "a",
        "B",
        "b1",
        "b",
        "é",
        "\ud7ff",
        "\ue000",
        "\uffee",
        "😀",
        "😁",
        "\U0010ffff",
        "a\uffee",
        "a😀",
    ]
    in_order = """async (names) => {
      const { byOrder } = await import("/static/js/board/order.js");
      const rows = names.map((asset) => ({ rank: 0, since: 0, asset }));
      return rows.sort(byOrder).map((row) => row.asset);
    }"""
    assert page.evaluate(in_order, names) == sorted(names)


@pytest.mark.extensive(
    guard="tests/web/board/test_details.py::"
    "test_the_first_page_by_a_detail_has_the_first_of_all_that_match"
)
def test_a_sort_by_a_detail_shows_the_first_of_all(
    open_as: Open, product: Stack, prefix: str, tmp_path: Path
) -> None:
    report(product, tmp_path, [f"{prefix}first"], "picking", location="zz, far away")
    report(product, tmp_path, [f"{prefix}{number:04}" for number in range(PAGE + 20)], "picking")
    page = open_as("operator", f"/s/orders/?q={prefix}")
    expect(page.locator("#shown")).to_have_text(re.compile(f"^{PAGE + 21} of "), timeout=90_000)
    in_place(live(page), PAGE)
    assert f"{prefix}first" not in order(page)
    page.locator(".sort[data-sort=location]").click()
    expect(page.locator("th[aria-sort] .of-all")).to_have_text(f"· first {PAGE}")
    expect(page.locator("#tbody tr").first).to_have_attribute("data-asset", f"{prefix}first")
    expect(page.locator("#sorted")).to_be_hidden()
    expect(page.locator("#next-page")).to_be_hidden()
    expect(page.locator("#more-n")).to_have_text("and 21 more")
    page.reload()
    expect(live(page).locator("#tbody tr").first).to_have_attribute("data-asset", f"{prefix}first")
    page.locator(".sort[data-sort=votes]").click()
    expect(page.locator("th[aria-sort] .of-page")).to_be_visible()
    expect(page.locator("#next-page")).to_be_visible()


@pytest.mark.extensive(
    guard="tests/unit/board/test_live_pages.py::test_what_does_not_change_is_met_once"
)
def test_every_asset_is_met_once_page_by_page_and_back(
    open_as: Open, product: Stack, prefix: str, tmp_path: Path
) -> None:
    assets = [f"{prefix}{number:04}" for number in range(ALL)]
    report(product, tmp_path, assets, "picking")
    page = open_as("operator", f"/s/orders/?q={prefix}")
    expect(page.locator("#shown")).to_have_text(re.compile(f"^{ALL:,} of "), timeout=90_000)
    expect(page.locator("#more-n")).to_have_text(f"and {ALL - PAGE} more")
    first = in_place(live(page), PAGE)
    second = turn(page, ">", PAGE)
    third = turn(page, ">", ALL - 2 * PAGE)
    assert sorted(first + second + third) == assets
    expect(page.locator("#next-page")).to_be_hidden()
    assert turn(page, "<", PAGE) == second
    assert turn(page, "<", PAGE) == first
    expect(page.locator("#previous-page")).to_be_hidden()

    # New rows push the last ones of this page over its end: the next page begins with those.
    new = [f"{prefix}new{number}" for number in range(3)]
    report(product, tmp_path, new, "received")
    page.mouse.move(5, 5)
    wait_until(lambda: set(order(page)[:3]) == set(new), 45, "the new orders on top")
    assert order(page)[3:] == first[:-3]
    assert turn(page, ">", PAGE) == first[-3:] + second[:-3]
