"""A view in a browser: an order that is reported becomes a row, and another one when it moves."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from support.browser.browser_pages import Open, Send, live, serious, too_wide_in


@pytest.mark.extensive(guard="tests/web/operate/test_views.py::test_a_page_of_rows_by_key")
def test_a_row_comes_and_changes_while_the_page_is_open(
    open_as: Open, send: Send, prefix: str
) -> None:
    page = live(open_as("operator", "/views/"))
    line = page.locator("#views tr", has_text="orders.states")
    expect(line).to_contain_text("ready")
    line.get_by_role("link", name="Orders").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Orders")
    page.get_by_label("Key").fill(f"{prefix}*")
    page.get_by_role("button", name="Filter").press("Enter")
    expect(page.get_by_role("heading", name="Nothing matches")).to_be_visible()

    for state in ("received", "picking"):
        send("orders", f"{prefix}7", "station-1", state)
        row = page.locator("#view-rows tbody tr")
        expect(row).to_have_count(1)
        expect(row).to_contain_text(f'"state":"{state}"')
    assert serious(page) == []
    assert too_wide_in(page) == []
    page.get_by_role("button", name="Offset").press("Enter")
    expect(page.get_by_role("columnheader", name="Offset")).to_have_attribute(
        "aria-sort", "descending"
    )
    page.get_by_role("link", name="Show all").press("Enter")
    expect(page.get_by_label("Key")).to_have_value("")
