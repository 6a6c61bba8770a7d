"""What tests with a browser share: the login, and what a board's table shows."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from typing import Any, Literal
from urllib.parse import urlsplit

from axe_playwright_python.base import AXE_SCRIPT
from django.http import Http404
from django.urls import resolve
from playwright.sync_api import Error, Locator, Page, expect

from bus.kafka import KafkaBus
from support.run.selection import is_whole
from support.run.stack import Stack
from wire.topics import Topics

Send = Callable[..., None]
"""`send(scenario, asset, agent, state, age_s=0)`: report, and wait until Kafka has it.

age_s: how long ago the agent saw it, s."""
Open = Callable[..., Page]
"""`open_as(user, path, width=1440, **options of the context)`."""

WIDTHS = (3840, 1440, 1024, 390)
"""Of windows, px: a wall's, a desk's, a small laptop's and a phone's."""
NARROW = (1024, 390)
"""Those in which a plain run looks whether a page fits."""
SOME_WIDTHS = (390, 1024, 1440)
"""Those at which a page is laid out in another way than at the next, px."""
COLOURS = ("color-contrast", "link-in-text-block")
"""The rules of axe that look at colours; what its others say holds in every theme."""

_AXE = "options => axe.run(options).then(findings => findings.violations)"

_ROWS = """rows => rows.map(row => [
  row.dataset.asset, row.dataset.version, row.querySelector(".col-state .word").textContent])"""


def log_in(page: Page, product: Stack, user: str) -> None:
    """Log a demo user in through the form that is open, or the login page."""
    if not page.url.startswith(product.url):
        page.goto(f"{product.url}/account/login/")
    page.get_by_label("Name").fill(user)
    page.get_by_label("Password").fill(product.logins[user])
    page.get_by_role("button", name="Log in").click()
    page.wait_for_selector("#user-menu")


def live(page: Page) -> Page:
    """Wait until the page follows the board."""
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    return page


REFUSED = '{"type":"report","agent":"waf-1","state":"on-fire"}'
"""A report of a state that the scenario of attacks does not have."""


def send_refused(product: Stack, asset: str) -> None:
    """Send that report past every check into Kafka."""
    topics = Topics(product.settings.topic_prefix)
    producer = KafkaBus(product.settings.kafka_options()).producer()
    producer.send_and_wait(topics.reports("attack"), asset.encode(), REFUSED.encode(), timeout_s=45)
    producer.close()


def view_at(url: str) -> str:
    """Return the name of the view at this address; empty where there is none."""
    try:
        return resolve(urlsplit(url).path).view_name
    except Http404:
        return ""


def row(page: Page, asset: str) -> Locator:
    """The table's row of an asset."""
    return page.locator(f'#tbody tr[data-asset="{asset}"]')


def lines(page: Page) -> list[tuple[str, str, str]]:
    """Asset, version and state in words of each row, from the top; none between two pages."""
    try:
        rows: list[Any] = page.eval_on_selector_all("#tbody tr", _ROWS)
    except Error as error:
        if "Execution context was destroyed" not in error.message:
            raise
        return []
    return [tuple(line) for line in rows]


def order(page: Page) -> list[str]:
    """The assets of the table, from the top."""
    return [asset for asset, _, _ in lines(page)]


def resize(page: Page, width: int) -> None:
    """Make the window so wide, px."""
    page.set_viewport_size({"width": width, "height": 900})


def open_palette(page: Page) -> None:
    """Press Ctrl+K, once the page listens to it."""
    expect(page.locator("#palette-button")).to_be_visible()
    page.keyboard.press("Control+k")


def press_to(page: Page, wanted: Locator, key: str = "Tab", most: int = 80) -> None:
    """Press a key until `wanted` has the focus, as who has no mouse does."""
    for _ in range(most):
        if wanted.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press(key)
    raise AssertionError(f"{most} times {key} do not lead to {wanted}")


def too_wide_in(page: Page) -> list[int]:
    """The windows, px, that are narrower than what the page shows in them."""
    windows = []
    for width in WIDTHS if is_whole() else NARROW:
        resize(page, width)
        if page.evaluate("document.documentElement.scrollWidth") > width:
            windows.append(width)
    return windows


def serious(page: Page, *rules: str) -> list[str]:
    """What axe holds to be serious or worse, with the first element of each.

    rules: of these rules alone; without any, of all.
    """
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]} {one['nodes'][0]['failureSummary']}"
        for one in violations(page, *rules)
        if one["impact"] in ("serious", "critical")
    ]


def violations(page: Page, *rules: str) -> list[dict[str, Any]]:
    """Return what axe finds wrong with a page, by these rules alone, or by all."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = {"type": "rule", "values": list(rules)}
    axe_violations: list[dict[str, Any]] = page.evaluate(_AXE, options)
    return axe_violations


def serious_in_both(page: Page) -> list[str]:
    """What is serious in the light theme, then what is of the dark one's colours.

    Nothing moves meanwhile: what began in one theme would end in the other. A plain run looks at
    one theme alone, half of the tests at the dark one.
    """
    if not is_whole():
        scheme: Literal["light", "dark"] = "dark" if number_of_test() % 2 else "light"
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        return serious(page)
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    light_faults = serious(page)
    page.emulate_media(color_scheme="dark")
    return light_faults + serious(page, *COLOURS)


def widths_to_check() -> tuple[int, ...]:
    """Return the widths, px, at which axe is to look: one of them in a plain run."""
    return SOME_WIDTHS if is_whole() else (SOME_WIDTHS[number_of_test() % len(SOME_WIDTHS)],)


def number_of_test() -> int:
    """Return a number of the test that runs, the same in every run."""
    return zlib.crc32(os.environ["PYTEST_CURRENT_TEST"].partition(" (")[0].encode())
