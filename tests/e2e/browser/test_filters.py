"""A filter typed with completion by keyboard and followed live; one of a label saved, shared."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from support.browser.browser_pages import Open, Send, live, row, serious_in_both, too_wide_in


def typed(page: Page, text: str) -> None:
    """What is written in the filter's box, letter by letter."""
    page.keyboard.press("/")
    page.keyboard.press("End")
    page.keyboard.type(text)


def offered(page: Page) -> str:
    """Return what is chosen in the list, as the box tells a screen reader."""
    box = page.locator("#q")
    expect(box).to_have_attribute("aria-activedescendant", re.compile("offer-"))
    return page.locator(f"#{box.get_attribute('aria-activedescendant')} .offer").inner_text()


def test_a_filter_is_typed_by_keyboard_and_followed_live(
    open_as: Open, send: Send, prefix: str
) -> None:
    come, stay = f"{prefix}come", f"{prefix}stay"
    for asset in (come, stay):
        send("orders", asset, "desk", "picking")
    page = live(open_as("operator", "/s/orders/"))
    typed(page, f"{prefix} stat")
    page.keyboard.press("ArrowDown")
    assert offered(page) == "state"
    page.keyboard.press("Tab")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("ship")
    expect(page.locator("#offers [role=option]")).to_have_text(["shipped Shipped"])
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#q")).to_have_value(f"{prefix} state:shipped ")
    expect(page.locator("#tbody tr")).to_have_count(0)
    send("orders", come, "desk", "shipped")
    expect(row(page, come)).to_be_visible()
    send("orders", come, "desk", "picking")
    page.keyboard.press("Escape")
    page.mouse.move(0, 0)
    expect(row(page, come)).to_have_count(0)

    page.locator("#q").fill(f"{prefix} sate:shipped")
    expect(page.locator("#problem")).to_contain_text("there is no key sate")
    expect(page.locator("#q")).to_have_value(f"{prefix} sate:shipped")
    page.locator("#problem button").click()
    expect(page.locator("#problem")).to_be_hidden()
    page.locator("#q").fill(f"{prefix} -agent:nobody since:<1h")
    expect(page.locator("#tbody tr")).to_have_count(2)
    assert serious_in_both(page) == []


@pytest.fixture
def team_tab(open_as: Open, send: Send, prefix: str) -> Iterator[str]:
    """A site in trouble, and a filter that finds it, which an admin has made everybody's tab."""
    for agent in ("waf-1", "waf-2", "waf-3"):
        send("attack", f"{prefix}site", agent, "under-attack")
    admin = live(open_as("admin", f"/s/attack/?q={prefix}"))
    admin.locator("#saved-menu summary").click()
    admin.locator("#filter-title").fill(prefix)
    admin.get_by_role("button", name="Save", exact=True).click()
    admin.locator("#saved-menu summary").click()
    admin.get_by_role("link", name="Manage filters").click()
    mine = admin.get_by_role("row", name=re.compile(prefix))
    mine.get_by_role("button", name="Make it everybody’s tab").click()
    yield prefix
    mine.get_by_role("button", name="Withdraw the tab").click()
    expect(admin.locator("#messages")).to_contain_text("is no tab any more")


def test_a_team_has_a_tab_with_what_is_unhandled_there(open_as: Open, team_tab: str) -> None:
    page = live(open_as("operator", "/"))
    tab = page.locator("#tabs a", has_text=team_tab)
    expect(tab.locator(".n")).to_have_text("1")
    tab.click()
    live(page)
    expect(tab).to_have_attribute("aria-current", "page")
    expect(page.locator("#tbody tr")).to_have_count(1)
    expect(page).to_have_title(re.compile(rf"\(1\) {team_tab} · Attacks"))
    page.locator("#q").fill(f"{team_tab} -override:yes")
    expect(page.locator("#tabs a[data-scenario=attack]")).to_have_attribute("aria-current", "page")
    assert tab.get_attribute("aria-current") is None
    expect(page).not_to_have_title(re.compile(team_tab))
    page.locator("#q").fill(team_tab)
    expect(tab).to_have_attribute("aria-current", "page")
    row(page, f"{team_tab}site").hover()
    row(page, f"{team_tab}site").locator(".have").click()
    expect(tab.locator(".tab-count")).to_be_hidden()
    assert serious_in_both(page) == []


def test_an_open_board_follows_what_becomes_of_a_tab(
    open_as: Open, send: Send, prefix: str
) -> None:
    send("attack", f"{prefix}site", "waf-1", "clear")
    admin = live(open_as("admin", f"/s/attack/?q={prefix}"))
    admin.locator("#saved-menu summary").click()
    admin.locator("#filter-title").fill(prefix)
    admin.get_by_role("button", name="Save", exact=True).click()
    page = live(open_as("operator", f"/s/attack/?q={prefix}"))
    tab = page.locator("#team-tabs a", has_text=prefix)
    expect(tab).to_have_count(0)
    admin.locator("#saved-menu summary").click()
    admin.get_by_role("link", name="Manage filters").click()
    mine = admin.get_by_role("row", name=re.compile(prefix))
    mine.get_by_role("button", name="Make it everybody’s tab").click()
    page.mouse.move(0, 400)
    expect(tab).to_have_attribute("aria-current", "page", timeout=15_000)
    expect(page).to_have_title(re.compile(rf"{prefix} · Attacks"))
    tab.hover()
    mine.get_by_role("button", name="Withdraw the tab").click()
    expect(admin.locator("#messages")).to_contain_text("is no tab any more")
    for _ in range(2):  # the first may have been under way
        with page.expect_response("**/tabs/"):
            pass
    expect(tab).to_be_visible()  # nothing moves under the pointer
    page.mouse.move(0, 400)
    expect(tab).to_have_count(0, timeout=15_000)
    expect(page.locator("#tabs a[data-scenario=attack]")).to_have_attribute("aria-current", "page")
    expect(page.locator("#tbody tr")).to_have_count(1)
    expect(page).not_to_have_title(re.compile(prefix))


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_filters.py::test_a_filter_is_typed_by_keyboard_and_followed_live"
)
def test_keys_that_come_before_the_answer_are_obeyed_with_it(open_as: Open) -> None:
    page = live(open_as("operator", "/s/orders/"))
    held: list[Route] = []

    def hold(route: Route) -> None:
        if route.request.url.endswith("stat"):
            held.append(route)
        else:
            route.continue_()

    page.route("**/complete/?*", hold)
    typed(page, "s")
    expect(page.locator("#offers [role=option]").first).to_be_visible()
    with page.expect_request(lambda request: request.url.endswith("stat")):
        page.keyboard.type("tat")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    expect(page.locator("#q")).to_have_value("stat")
    for route in held:
        route.continue_()
    expect(page.locator("#q")).to_have_value("state:")
    expect(page.locator("#q")).to_be_focused()


@pytest.mark.extensive(
    guard="tests/web/watch/test_filters_and_labels.py::"
    "test_a_filter_that_is_shared_is_seen_with_its_owner"
)
def test_a_filter_by_a_label_is_saved_and_shared(open_as: Open, send: Send, prefix: str) -> None:
    asset, title = f"{prefix}gold", f"Gold of {prefix}"
    send("orders", asset, "desk", "picking")
    page = live(open_as("operator", f"/s/orders/?q={prefix}"))
    expect(row(page, asset)).to_be_visible()
    labels = open_as("operator", "/labels/?scenario=orders")
    content = f"asset,key,value\n{asset},tier,{prefix}\n".encode()
    labels.locator("#label-file").set_input_files(
        {"name": "labels.csv", "mimeType": "text/csv", "buffer": content}
    )
    labels.get_by_role("button", name="Review…").click()
    expect(labels.get_by_role("heading", name="To be confirmed")).to_be_visible()
    labels.get_by_role("button", name="Apply").click()
    expect(labels.get_by_role("heading", name="Done")).to_be_visible()
    expect(labels.locator(".figures")).to_contain_text("New1")
    labels.get_by_role("link", name="← Labels").click()
    labels.locator("#chip-0").select_option("tier")
    labels.get_by_role("button", name="Show these").click()
    expect(row(page, asset).locator(".label-chip")).to_contain_text(prefix)
    labels.goto(f"{labels.url.split('?')[0]}?scenario=orders&key=tier")
    assert serious_in_both(labels) == []
    assert too_wide_in(labels) == []

    page.locator("#q").fill(f"tier:{prefix}")
    expect(page.locator("#tbody tr")).to_have_count(1)
    page.locator("#saved-menu summary").click()
    page.locator("#filter-title").fill(title)
    page.locator("#save-filter [name=shared]").check()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#q")).to_have_value(f"tier:{prefix}")
    other = live(open_as("manager", "/s/orders/"))
    other.locator("#saved-menu summary").click()
    other.get_by_role("link", name=title).click()
    expect(row(other, asset)).to_be_visible()
    expect(other.locator("#tbody tr")).to_have_count(1)
    page.goto(page.url.split("/?")[0] + "/filters/")
    assert serious_in_both(page) == []
    assert too_wide_in(page) == []
