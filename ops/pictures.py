"""`make pictures`: takes the pictures of README and docs/tour.md from a running copy's demo."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from config.settings import Settings, load_settings
from ops.readiness import base_url
from ops.test import find_browser

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"


@dataclass(frozen=True)
class Picture:
    """A page as it is to be seen. size: of the window; theme: chosen on the page, or the system's.

    prepare: what is done on the page first.
    """

    name: str
    path: str
    prepare: Callable[[Page], None]
    size: tuple[int, int] = (1280, 800)
    scheme: str = "light"
    theme: str = ""


def main() -> str | None:
    """Take every picture; returns a message when there is nothing to take them of."""
    settings = load_settings()
    logins = settings.data_dir / "demo-logins.json"
    browser = find_browser()
    if browser is None:
        return "No Chromium: install the package chromium."
    if not logins.exists():
        return "Tallyboard is not running with its demo: start it with make run."
    FOLDER.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        _take_all(chromium, settings, json.loads(logins.read_text())["operator"])
        chromium.close()
    return None


def _take_all(browser: Browser, settings: Settings, password: str) -> None:
    context = browser.new_context(base_url=base_url(settings))
    page = context.new_page()
    page.goto("/account/login/")
    page.get_by_label("Name").fill("operator")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    page.locator("#user-menu").wait_for()
    page.close()
    for picture in PICTURES:
        _take(context, picture)


def _take(context: BrowserContext, picture: Picture) -> None:
    page = context.new_page()
    width, height = picture.size
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=picture.scheme)  # type: ignore[arg-type]
    if picture.theme:
        page.add_init_script(f"localStorage.setItem('theme', '{picture.theme}')")
    page.goto(picture.path)
    picture.prepare(page)
    path = FOLDER / f"{picture.name}.png"
    page.screenshot(path=path)
    print(path)
    if picture.theme:
        page.evaluate("localStorage.removeItem('theme')")
    page.close()
    context.set_offline(False)


# ---- what is done on a page before its picture is taken -----------------------------------


def _nothing(_page: Page) -> None:
    """The page as it comes."""


def _live(page: Page) -> None:
    page.locator('#live[data-state="live"]').wait_for()
    page.locator("#tbody tr").first.wait_for()


def _chosen(page: Page) -> None:
    _live(page)
    page.locator("#tbody tr .asset").first.click()
    page.locator("#panel-title").wait_for()


def _setting(page: Page) -> None:
    _chosen(page)
    page.locator("#panel .command-set > summary").click()
    page.locator("#panel .command-set button").scroll_into_view_if_needed()


def _asset_page(page: Page) -> None:
    _live(page)
    address = page.locator("#tbody tr .asset").first.get_attribute("href")
    page.goto(str(address))
    page.locator("#why").wait_for()


def _record(page: Page) -> None:
    _asset_page(page)
    page.locator(".record-link").first.click()
    page.locator("#record-dialog[open] #record > *").first.wait_for()


def _help(page: Page) -> None:
    _live(page)
    page.keyboard.press("?")
    page.locator("#help[open]").wait_for()


def _cut_off(page: Page) -> None:
    _live(page)
    page.context.set_offline(True)
    page.locator('#standing[data-kind="cut-off"]:not([hidden])').wait_for()


def _on_the_wall(page: Page) -> None:
    page.locator("#tbody tr").first.wait_for()
    page.locator("#wall-counts li").first.wait_for()


PICTURES = (
    Picture("board", "/s/attack/", _live),
    Picture("panel-dark", "/s/attack/", _chosen, scheme="dark"),
    Picture("setting", "/s/attack/", _setting),
    Picture("asset", "/s/attack/", _asset_page),
    Picture("record", "/s/attack/", _record),
    Picture("help", "/s/attack/", _help),
    Picture("cut-off", "/s/attack/", _cut_off),
    Picture("contrast", "/s/attack/", _live, theme="contrast"),
    Picture("wall", "/s/attack/?wall=1", _on_the_wall, size=(1920, 1080), scheme="dark"),
    Picture("tablet", "/s/orders/", _live, size=(1024, 768)),
    Picture("phone", "/s/connectivity/", _live, size=(390, 800)),
    Picture("tokens", "/account/tokens/", _nothing),
    Picture("second-factor", "/account/2fa/", _nothing),
)
"""Every picture, in the order of docs/tour.md."""


if __name__ == "__main__":
    sys.exit(main())
