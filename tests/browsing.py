"""What tests with a browser share: the login, and what a board's table shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Error, Locator, Page, expect

from stack import Stack

Send = Callable[[str, str, str, str], None]
"""`send(scenario, asset, agent, state)`: report, and wait until Kafka has it."""
Open = Callable[..., Page]
"""`open_as(user, path, width=1440, **options of the context)`."""

_ROWS = """rows => rows.map(row => [
  row.dataset.asset, row.dataset.version, row.querySelector(".col-state .word").textContent])"""


def log_in(page: Page, product: Stack, user: str) -> None:
    """Log a demo user in through the form that is open, or the login page."""
    if not page.url.startswith(product.url):
        page.goto(f"{product.url}/account/login/")
    page.get_by_label("Name").fill(user)
    page.get_by_label("Password").fill(product.logins[user])
    page.get_by_role("button", name="Log in").click()
    page.wait_for_selector("#filters")


def live(page: Page) -> Page:
    """Wait until the page follows the board."""
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    return page


def row(page: Page, asset: str) -> Locator:
    """The table's row of an asset."""
    return page.locator(f'#tbody tr[data-asset="{asset}"]')


def lines(page: Page) -> list[tuple[str, str, str]]:
    """Asset, version and state in words of each row, from the top; none between two pages."""
    try:
        found: list[Any] = page.eval_on_selector_all("#tbody tr", _ROWS)
    except Error as error:
        if "Execution context was destroyed" not in error.message:
            raise
        return []
    return [tuple(line) for line in found]


def order(page: Page) -> list[str]:
    """The assets of the table, from the top."""
    return [asset for asset, _, _ in lines(page)]
