"""An operator's commands, from the form to their outcome; a manager only looks."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from support.browser.browser_pages import Open, Send, live, row


def opened(page: Page, asset: str) -> Page:
    """Open the asset's panel."""
    row(live(page), asset).locator(".asset").click()
    expect(page.locator("#panel-title")).to_have_text(asset)
    return page


def test_operator_sets_a_state_and_releases_it(open_as: Open, send: Send, prefix: str) -> None:
    asset = f"{prefix}10.0.0.0/8"
    send("orders", asset, "desk", "picking")
    page = opened(open_as("operator", f"/s/orders/?q={prefix}"), asset)
    release = page.locator("#panel summary", has_text="Release")
    expect(page.locator("#panel summary", has_text="Set a state")).to_be_visible()
    expect(release).to_be_hidden()  # nothing is pinned
    page.locator("#panel summary", has_text="Set a state").click()
    form = page.locator("#panel .command-set form")
    form.locator("[name=state]").fill("shipped")
    form.locator("[name=reason]").fill("saw the truck leave")
    form.get_by_role("button").click()
    expect(page.locator("#panel .command-following .phase-applied")).to_contain_text("pplied")
    expect(row(page, asset).locator(".col-state")).to_contain_text("Shipped")
    expect(row(page, asset).locator(".badge.override")).to_be_visible()
    expect(page.locator("#facts")).to_contain_text("Pinned by operator")
    expect(page.locator("#facts")).to_contain_text("saw the truck leave")
    release.click()
    page.locator("#panel .command-release form").get_by_role("button").click()
    expect(row(page, asset).locator(".badge.override")).to_have_count(0)
    expect(release).to_be_hidden()
    expect(row(page, asset).locator(".col-state")).to_contain_text("Picking")


def test_purge_asks_once_more_and_takes_the_asset_off(
    open_as: Open, send: Send, prefix: str
) -> None:
    asset = f"{prefix}a"
    send("orders", asset, "desk", "picking")
    page = opened(open_as("operator", f"/s/orders/?q={prefix}"), asset)
    page.locator("#panel summary", has_text="Purge").click()
    purge = page.locator("#panel .command-purge form")
    purge.locator("[name=reason]").fill("a test order")
    purge.get_by_role("button", name="Purge…").click()
    expect(purge.get_by_role("alert")).to_contain_text(f"Purge {asset}?")
    expect(row(page, asset)).to_be_visible()
    purge.get_by_role("button", name="Yes, purge it").click()
    expect(row(page, asset)).to_have_count(0)
    expect(page.locator("#panel-state")).to_contain_text("Not on the board")
    expect(page.locator("#past .history")).to_contain_text("Purged")


def test_manager_sees_the_facts_and_no_form(open_as: Open, send: Send, prefix: str) -> None:
    asset = f"{prefix}a"
    send("orders", asset, "desk", "picking")
    page = opened(open_as("manager", f"/s/orders/?q={prefix}"), asset)
    expect(page.locator("#facts")).to_contain_text("Picking")
    expect(page.locator("#panel")).to_contain_text("Your role may only read")
    expect(page.locator("#panel form[method=post]")).to_have_count(0)


def test_phone_opens_an_asset_and_comes_back(open_as: Open, send: Send, prefix: str) -> None:
    asset = f"{prefix}a"
    send("orders", asset, "desk", "picking")
    page = live(open_as("operator", f"/s/orders/?q={prefix}", 390, has_touch=True, is_mobile=True))
    row(page, asset).locator(".asset").tap()
    expect(page.get_by_role("heading", name=asset)).to_be_visible()
    expect(page.locator("summary", has_text="Set a state")).to_be_visible()
