"""The page of what is kept, one's own digests, and a digest as a phone shows it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from dashboard.notify.summaries.digests import DigestDelay, content_of
from dashboard.notify.summaries.figures import (
    Delays,
    FigureGroup,
    Figures,
    Observed,
    PeriodSummary,
    Question,
    Times,
    WorstAsset,
)
from domain.history.periods import WEEK, Span, containing
from support.browser.browser_pages import Open, serious, serious_in_both, too_wide_in

PHONE = 320
"""The narrowest of phones, px."""
HOUR = 3_600_000


def checked(page: Page) -> None:
    """Nothing serious in either theme, and nothing wider than a phone."""
    assert serious_in_both(page) == []
    assert too_wide_in(page) == []


@pytest.mark.extensive(
    guard="tests/web/operate/test_retention_page.py::"
    "test_a_longer_time_needs_no_confirmation_and_empty_is_the_default"
)
def test_a_time_of_its_own_is_given_and_taken_back(open_as: Open) -> None:
    page = open_as("admin", "/console/retention/")
    expect(page.locator("#retention tbody")).to_contain_text("changes of assets")
    page.get_by_label("What", exact=True).select_option(label="changes of assets")
    page.get_by_label("Scenario", exact=True).select_option("orders")
    page.get_by_label("Days", exact=True).fill("365")
    page.get_by_role("button", name="Save").press("Enter")
    expect(page.get_by_text("Kept for 365 days")).to_be_visible()
    checked(page)
    page.get_by_label("Scenario", exact=True).select_option("orders")
    page.get_by_label("Days", exact=True).fill("")
    page.get_by_role("button", name="Save").press("Enter")
    expect(page.get_by_text("Kept for the default again")).to_be_visible()


@pytest.mark.extensive(
    guard="tests/web/notify/test_digests.py::test_one_subscribes_changes_and_ends_on_ones_own_page"
)
def test_a_manager_subscribes_to_a_digest(open_as: Open) -> None:
    page = open_as("manager", "/summary/")
    page.get_by_role("link", name="Get it by mail").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Digests")
    section = page.get_by_role("region").filter(has=page.get_by_role("heading", level=2)).first
    section.get_by_label("How often").select_option("week")
    section.get_by_role("button", name="Save").press("Enter")
    expect(page.get_by_text("comes to you")).to_be_visible()
    expect(section.get_by_label("How often")).to_have_value("week")
    checked(page)
    section.get_by_label("How often").select_option("never")
    section.get_by_role("button", name="Save").press("Enter")
    expect(page.get_by_text("No digest of")).to_be_visible()


def digest() -> str:
    """A digest with long names, as HTML."""
    none = Delays()

    def figures(incidents: int, bad: int) -> Figures:
        times, seen = Times(700 * HOUR, bad), Observed(167 * HOUR, 168 * HOUR, seen=True)
        return Figures(times, incidents, incidents, None, none, none, 0, 2, seen)

    worst = tuple(
        WorstAsset("attack", f"{'very-' * n}long-name.shop-{n}.example.org", n * HOUR, 0, n, HOUR)
        for n in range(1, 9)
    )
    whole = FigureGroup("", "", figures(13, 36 * HOUR), figures(9, 40 * HOUR))
    question = Question(("attack",), containing(WEEK, date(2026, 11, 18)))
    summary = PeriodSummary(
        question, "UTC", Span(0, 1), Span(0, 1), False, 1, None, None, whole, worst=worst
    )
    late = DigestDelay(1_795_417_200_000, 2)
    link = "https://board.example/digests/unsubscribe/1.abc/"
    return content_of(summary, "Websites under attack", "every week", link, late).html()


def test_a_digest_fits_on_a_phone(browser: Browser, tmp_path: Path) -> None:
    mail = tmp_path / "mail.html"
    mail.write_text(digest(), encoding="utf-8")
    page = browser.new_page(viewport={"width": PHONE, "height": 800})
    page.goto(mail.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE
    rows = page.get_by_role("link").filter(has_text="long-name").all_inner_texts()
    assert rows[0].startswith("very-" * 8)
    assert serious(page) == []
    page.close()
