"""The summary in a browser: where a manager begins, what is behind a figure, a sheet of paper."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, Page, expect

from support.browser.browser_pages import Open, Send, live, log_in, serious_in_both, too_wide_in
from support.run.stack import Stack, wait_until

TODAY = f"/summary/?period=day&date={datetime.now(UTC).date()}&scenario=attack"
WEEK = f"/summary/?period=week&date={datetime.now(UTC).date()}"


def number_of(page: Page, name: str) -> int:
    """The figure of a tile."""
    return int(page.locator(f".tile-{name} .tile-value").inner_text().replace(",", ""))


def summed(page: Page) -> Page:
    """The page, once anything has been summed up."""
    tiles = page.locator(".tiles").first

    def there() -> bool:
        page.reload()
        return tiles.count() > 0

    wait_until(there, 90, "nothing was summed up")
    return page


@pytest.fixture
def attacked(open_as: Open, send: Send, prefix: str) -> str:
    """A site of this test that is under attack."""
    asset = f"{prefix}site"
    page = live(open_as("manager", f"/incidents/by-asset/?q={prefix}"))
    send("attack", asset, "waf-1", "under-attack")
    expect(page.locator("#incidents tbody tr")).to_have_count(1)
    return asset


def test_a_manager_lands_on_the_summary(browser: Browser, product: Stack) -> None:
    context = browser.new_context()
    page = context.new_page()
    log_in(page, product, "manager")
    expect(page).to_have_url(re.compile(r"/summary/$"))
    bar = page.get_by_role("navigation", name="Main")
    expect(bar.locator(".place").first).to_have_text("Summary")
    expect(bar.locator(".place").first).to_have_attribute("aria-current", "page")
    page.locator("#places-menu > summary").click()
    expect(bar.get_by_role("link", name=re.compile("Maintenance"))).to_be_visible()
    expect(bar.get_by_role("link", name=re.compile("Engine"))).to_have_count(0)
    context.close()


@pytest.mark.extensive(
    guard="tests/web/notify/test_summary_pages.py::test_each_figure_links_to_the_list_that_it_is_made_of"
)
def test_a_figure_is_as_many_as_the_list_behind_it(open_as: Open, attacked: str) -> None:
    page = summed(open_as("manager", TODAY))
    incidents = number_of(page, "incidents")
    assert incidents >= 1
    page.locator(".tile-incidents .tile-value a").press("Enter")
    count_text = page.locator("#count").inner_text()
    listed = int(re.sub(r"\D.*", "", count_text.replace(",", ""), flags=re.DOTALL))
    assert listed >= incidents  # others of the demo may have begun meanwhile
    page.go_back()
    page.reload()
    assert number_of(page, "incidents") >= listed
    how = page.locator(".tile-incidents .how > summary")
    how.press("Enter")
    expect(page.locator(".tile-incidents .how p")).to_contain_text("Incidents that were going on")


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_every_page.py::test_every_page_can_be_read_by_everybody"
)
def test_it_can_be_read_by_everybody_at_every_width(open_as: Open, attacked: str) -> None:
    page = summed(open_as("manager", f"{WEEK}&label="))
    for width in (1280, 390, 2560):
        page.set_viewport_size({"width": width, "height": 900})
        assert serious_in_both(page) == [], width
        assert too_wide_in(page) == [], width


@pytest.mark.extensive(
    guard="tests/web/notify/test_summary_pages.py::test_the_link_that_is_sent_holds_everything"
)
def test_the_period_is_changed_by_keyboard_and_kept_in_the_address(
    open_as: Open, attacked: str
) -> None:
    page = summed(open_as("manager", WEEK))
    page.locator(".summary-choice > summary").press("Enter")
    page.get_by_label("Period", exact=True).select_option("month")
    page.get_by_role("checkbox", name="Attacks").press("Space")
    page.get_by_role("button", name="Show", exact=True).press("Enter")
    expect(page).to_have_url(re.compile("period=month.*scenario=attack"))
    expect(page.locator("h1")).to_have_text(f"{datetime.now(UTC):%B %Y}")
    page.get_by_role("link", name="← Before").press("Enter")
    expect(page).to_have_url(re.compile("period=month&date=.*scenario=attack"))


@pytest.mark.extensive(
    guard="tests/web/notify/test_summary_figures.py::"
    "test_what_was_not_observed_counts_in_no_figure_of_time"
)
def test_what_was_not_observed_is_hatched(open_as: Open, attacked: str) -> None:
    week_to_come = datetime.now(UTC).date() + timedelta(days=7)
    page = summed(open_as("manager", f"/summary/?period=week&date={week_to_come}"))
    days = page.locator(".of-days .heat td.level--1")
    expect(days).to_have_count(7)
    hatched = "each => getComputedStyle(each).backgroundImage.startsWith('repeating-linear')"
    assert days.first.evaluate(hatched)
    expect(page.locator(".of-days .legend")).to_contain_text("not observed")
    expect(page.locator(".tile-incidents .tile-value")).to_have_text("not observed")
    assert serious_in_both(page) == []


def test_a_week_is_one_sheet_of_paper(open_as: Open, attacked: str) -> None:
    page = summed(open_as("manager", WEEK))
    sheets = re.findall(rb"/Type\s*/Page[^s]", page.pdf(prefer_css_page_size=True))
    assert len(sheets) == 1
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 1047})  # A4 without its margins
    assert page.evaluate("document.querySelector('main').scrollWidth") <= 718


@pytest.mark.extensive(
    guard="tests/web/notify/test_summary_pages.py::test_targets_service_hours_and_zone_are_saved_and_noted"
)
def test_the_targets_of_an_admin_measure_it(open_as: Open, attacked: str) -> None:
    page = open_as("admin", "/summary/settings/")
    assert serious_in_both(page) == []
    assert too_wide_in(page) == []
    target = page.get_by_role("group", name="Attacks").get_by_label("Target, percent")
    target.fill("150")
    page.get_by_role("button", name="Save").press("Enter")
    expect(target).to_have_value("150")  # refused by the browser
    target.fill("99.5")
    page.get_by_role("button", name="Save").press("Enter")
    expect(page.locator("#messages")).to_contain_text("Saved")
    seen = summed(open_as("manager", TODAY))
    expect(seen.locator(".tile-availability")).to_contain_text("target 99.5 %")
    expect(seen.locator(".tile-budget .budget-bar")).to_be_visible()
