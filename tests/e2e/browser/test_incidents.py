"""An incident in a browser: in the list, on its page, in its report."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from support.browser.browser_pages import Open, Send, live, serious, too_wide_in


@pytest.mark.extensive(
    guard="tests/web/watch/test_incidents.py::test_its_page_and_its_report_have_the_timeline"
)
def test_an_incident_is_listed_opened_and_reported(open_as: Open, send: Send, prefix: str) -> None:
    asset = f"{prefix}site"
    page = live(open_as("manager", f"/incidents/?q={prefix}"))
    expect(page.get_by_role("heading", name="Nothing matches")).to_be_visible()
    send("attack", asset, "waf-1", "under-attack")
    line = page.locator("#incidents tbody tr")
    expect(line).to_have_count(1)
    expect(line).to_contain_text("open")
    expect(line).to_contain_text("nobody")
    assert serious(page) == []
    assert too_wide_in(page) == []

    line.get_by_role("link", name="INC-").press("Enter")
    expect(page.get_by_role("heading", name="INC-")).to_be_visible()
    expect(page.locator("#incident")).to_contain_text(asset)  # others may have joined its wave
    expect(page.locator("#incident")).to_contain_text("ongoing")
    assert serious(page) == []
    assert too_wide_in(page) == []
    with page.expect_download() as download:
        page.get_by_role("link", name="Report (Markdown)").press("Enter")
    assert f"{asset}: Under attack" in download.value.path().read_text()
    page.get_by_role("link", name="The board as it began").press("Enter")
    expect(page.get_by_role("heading", name="As of")).to_be_visible()


@pytest.mark.extensive(
    guard="tests/web/watch/test_cases.py::test_an_asset_leads_to_its_incident_and_others_to_their_page"
)
def test_a_key_opens_the_incident_of_the_row(open_as: Open, send: Send, prefix: str) -> None:
    asset = f"{prefix}site"
    send("attack", asset, "waf-1", "under-attack")
    page = live(open_as("operator", f"/?scenario=attack&q={prefix}"))
    expect(page.locator("#rows tbody tr")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("i")
    expect(page.get_by_role("heading", name="INC-")).to_be_visible()
    expect(page.locator("#incident")).to_contain_text(asset)  # others may have joined its wave
    page.get_by_text("Acknowledge", exact=True).press("Enter")
    page.get_by_role("button", name="I have it").press("Enter")
    expect(page.locator("#incident")).to_contain_text("acknowledged")
    assert serious(page) == []
    assert too_wide_in(page) == []


@pytest.mark.extensive(
    guard="tests/web/core/test_list_filters.py::test_keys_and_values_are_completed"
)
def test_the_filter_is_completed_by_the_keyboard(open_as: Open, send: Send, prefix: str) -> None:
    send("attack", f"{prefix}site", "waf-1", "under-attack")
    page = open_as("operator", f"/incidents/?q={prefix}")
    box = page.get_by_role("combobox", name="Filter")
    table = page.locator("#incidents tbody tr")
    expect(table).to_have_count(1)
    begins = box.bounding_box()
    box.fill("")
    box.press("ArrowDown")
    expect(page.get_by_role("option", name="status")).to_be_visible()
    box.press("ArrowDown")
    box.press("Tab")
    expect(box).to_have_value("status:")
    expect(page.get_by_role("option", name="resolved", exact=True)).to_be_visible()
    box.press_sequentially("resolv")
    expect(page.locator("#offers [role=option]")).to_have_text(["resolved", "unresolved"])
    box.press("ArrowDown")
    box.press("Tab")
    assert box.bounding_box() == begins
    box.press_sequentially(prefix)
    box.press("Enter")
    expect(page.get_by_role("heading", name="Nothing matches")).to_be_visible()
    expect(box).to_have_value(f"status:resolved {prefix}")
    assert serious(page) == []
