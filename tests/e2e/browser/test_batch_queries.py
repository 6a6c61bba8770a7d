"""Batch queries from the console of the real product: another rule tried, the state read."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from support.browser.browser_pages import Open, Send, serious_in_both, too_wide_in

LONG_MS = 200_000
"""A batch query starts a Spark of its own, beside the product, on a machine that may be busy."""


def arrived(page: Page) -> None:
    """The query has ended well, and its result is on the page, which renewed itself."""
    expect(page.locator('[data-key="result"]')).to_be_visible(timeout=LONG_MS)
    expect(page.locator(".query-done")).to_be_visible()


@pytest.mark.extensive(
    guard="tests/web/operate/test_batch_queries.py::test_a_rule_is_tried_and_what_it_makes_is_shown"
)
def test_another_rule_is_tried(open_as: Open, send: Send, prefix: str, faults: list[str]) -> None:
    for agent in ("waf-1", "waf-2", "waf-3"):
        send("attack", f"{prefix}tried", agent, "under-attack")
    page = open_as("admin", "/what-if/?scenario=attack")
    assert too_wide_in(page) == []
    assert serious_in_both(page) == []
    page.get_by_label("Hold: Under attack").fill("an hour")
    page.get_by_role("button", name="Try it").click()
    expect(page.get_by_text("attack.holds.under-attack")).to_be_visible()
    assert ["422" in fault for fault in faults] == [True]
    faults.clear()
    page.get_by_label("Hold: Under attack").fill("1h")
    page.locator("#try-back").select_option("1")
    page.get_by_role("button", name="Try it").click()
    expect(page.locator(".query-progress")).to_be_visible()
    arrived(page)


@pytest.mark.extensive(
    guard="tests/web/operate/test_batch_queries.py::"
    "test_hostile_and_wrong_readings_are_refused_and_kept_as_typed"
)
def test_the_state_store_names_what_it_expected(open_as: Open, faults: list[str]) -> None:
    page = open_as("admin", "/state-store/?scenario=attack")
    assert too_wide_in(page) == []
    assert serious_in_both(page) == []
    page.get_by_label("Partition").fill("99")
    page.get_by_role("button", name="Read it").click()
    expect(page.get_by_text("Expected 0 to 3, or nothing.")).to_be_visible()
    expect(page.get_by_label("Partition")).to_have_value("99")
    assert ["422" in fault for fault in faults] == [True]
    faults.clear()
