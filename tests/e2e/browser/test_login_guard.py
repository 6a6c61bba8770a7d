"""The login of a client that must be checked: by keyboard, and where the check cannot run."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import Page, Route, expect

from support.browser.browser_pages import COLOURS, Open, Send, press_to, serious, too_wide_in
from support.run.stack import Stack
from support.web.captchas import name_of

LOGIN = "/account/login/"
WORKER = "**/vendor/altcha/*.js"


@pytest.fixture
def user_agent(product: Stack, send: Send, prefix: str) -> str:
    """The User-Agent of a client that the board shows as challenged."""
    client = name_of("127.0.0.1", prefix, product.settings.web_secret())
    send("clients", client, "login-guard", "challenge")
    return prefix


def challenged(open_as: Open, user_agent: str, **options: object) -> Page:
    """The login page, once it asks for the check: the board may know a moment later."""
    page = open_as("", LOGIN, user_agent=user_agent, **options)
    deadline = time.monotonic() + 45
    while page.locator(".captcha").count() == 0:
        assert time.monotonic() < deadline, "the login asks for no check"
        page.reload()
    return page


def readable(page: Page) -> list[str]:
    """What axe finds in the dark theme, then in the light one."""
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    dark = serious(page, *COLOURS)
    page.emulate_media(color_scheme="light")
    return dark + serious(page)


def test_whoever_has_only_a_keyboard_and_no_sight_logs_in(
    open_as: Open, product: Stack, user_agent: str
) -> None:
    page = challenged(open_as, user_agent)
    check = page.get_by_role("status", name="Check of this browser")
    expect(check).to_contain_text("This browser has been checked: you can log in.")
    assert readable(page) == []
    assert too_wide_in(page) == []
    press_to(page, page.get_by_label("Username"))
    page.keyboard.type("manager")
    page.keyboard.press("Tab")
    page.keyboard.type("not this one")
    page.keyboard.press("Enter")
    expect(page.get_by_text("are not correct")).to_be_visible()
    expect(page.locator(".captcha")).to_have_count(0)  # once is enough
    expect(page.get_by_label("Username")).to_have_value("manager")
    press_to(page, page.get_by_label("Password"))
    page.keyboard.type(product.logins["manager"])
    page.keyboard.press("Enter")
    page.wait_for_selector("#user-menu")


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_login_guard.py::"
    "test_whoever_has_only_a_keyboard_and_no_sight_logs_in"
)
def test_a_form_that_is_sent_during_the_check_goes_when_it_ends(
    open_as: Open, product: Stack, user_agent: str
) -> None:
    page = challenged(open_as, user_agent)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(WORKER, hold)
    page.reload()
    check = page.get_by_role("status", name="Check of this browser")
    expect(check).to_contain_text("You can fill in the form meanwhile.")
    assert readable(page) == []
    page.get_by_label("Username").fill("manager")
    page.get_by_label("Password").fill(product.logins["manager"])
    page.keyboard.press("Enter")
    expect(check).to_have_text(
        "This browser is still being checked. The form is sent once that is done."
    )
    held[0].continue_()
    page.wait_for_selector("#user-menu")


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_login_guard.py::"
    "test_whoever_has_only_a_keyboard_and_no_sight_logs_in"
)
def test_a_check_that_cannot_run_is_said_and_can_be_tried_again(
    open_as: Open, product: Stack, user_agent: str, faults: list[str]
) -> None:
    page = challenged(open_as, user_agent)
    page.route(WORKER, lambda route: route.abort())
    page.reload()
    check = page.get_by_role("status", name="Check of this browser")
    expect(check).to_have_text("The check could not be finished in this browser.")
    page.get_by_label("Username").fill("manager")
    page.get_by_label("Password").fill(product.logins["manager"])
    page.keyboard.press("Enter")
    again = page.get_by_role("button", name="Check again")
    expect(again).to_be_focused()
    assert readable(page) == []
    assert page.url.endswith(LOGIN)
    faults.clear()
    page.unroute(WORKER)
    page.keyboard.press("Enter")
    expect(check).to_contain_text("This browser has been checked: you can log in.")
    page.get_by_role("button", name="Log in").click()
    page.wait_for_selector("#user-menu")


@pytest.mark.extensive(
    guard="tests/web/core/test_login_guard.py::test_without_javascript_the_page_says_what_to_do"
)
def test_without_javascript_the_page_says_what_to_do(open_as: Open, user_agent: str) -> None:
    page = challenged(open_as, user_agent, java_script_enabled=False)
    expect(page.get_by_text("Switch JavaScript on for this page")).to_be_visible()
    page.get_by_label("Username").fill("manager")
    page.get_by_label("Password").fill("whatever it is")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("This browser has not been checked.")).to_be_visible()
    expect(page.get_by_label("Username")).to_have_value("manager")


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_every_page.py::test_every_page_can_be_read_by_everybody"
)
def test_the_asset_of_a_client_can_be_read_by_everybody(
    open_as: Open, product: Stack, user_agent: str
) -> None:
    client = name_of("127.0.0.1", user_agent, product.settings.web_secret())
    page = open_as("operator", f"/s/clients/a/{client}/")
    expect(page.locator("h1, h2", has_text=client).first).to_be_visible()
    assert readable(page) == []
    assert too_wide_in(page) == []
