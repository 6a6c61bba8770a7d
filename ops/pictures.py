"""`make pictures`: takes the README's pictures from a running copy, as the demo's operator."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from config.settings import Settings, load_settings
from ops.readiness import base_url
from ops.test import find_browser

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"


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
        _take(chromium, settings, json.loads(logins.read_text())["operator"])
        chromium.close()
    return None


def _take(browser: Browser, settings: Settings, password: str) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 720}, color_scheme="light")
    page.goto(f"{base_url(settings)}/account/login/")
    page.get_by_label("Name").fill("operator")
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    _open(page, f"{base_url(settings)}/s/attack/")
    _save(page, "board")
    page.emulate_media(color_scheme="dark")
    _open(page, f"{base_url(settings)}/s/attack/")
    page.locator("#tbody tr .asset").first.click()
    page.locator("#panel-title").wait_for()
    _save(page, "panel-dark")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 390, "height": 720})
    _open(page, f"{base_url(settings)}/s/connectivity/")
    _save(page, "phone")


def _open(page: Page, url: str) -> None:
    page.goto(url)
    page.locator('#live[data-state="live"]').wait_for()
    page.locator("#tbody tr").first.wait_for()


def _save(page: Page, name: str) -> None:
    page.screenshot(path=FOLDER / f"{name}.png")
    print(FOLDER / f"{name}.png")


if __name__ == "__main__":
    sys.exit(main())
