"""`make pictures`: takes the pictures of README and docs/tour.md from a running copy's demo."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from bus.kafka import KafkaBus
from config.settings import Settings, load_settings
from ops.readiness import base_url
from ops.test import find_browser
from wire.topics import Topics

LOOKED_UP = "scenario=attack&asset=shop.example"
FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"


@dataclass(frozen=True)
class Picture:
    """A page as it is to be seen. size: of the window; theme: chosen on the page, or the system's.

    prepare: what is done on the page first; user: who looks.
    """

    name: str
    path: str
    prepare: Callable[[Page], None]
    size: tuple[int, int] = (1280, 800)
    scheme: str = "light"
    theme: str = ""
    user: str = "operator"


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
        refuse_some(settings)
        _take_all(chromium, settings, json.loads(logins.read_text()))
        chromium.close()
    return None


def refuse_some(settings: Settings) -> None:
    """Send reports that the job refuses, for the list of dead letters. Raises BusError."""
    producer = KafkaBus(settings.kafka_options()).producer()
    for asset, value in REFUSED:
        topic = Topics(settings.topic_prefix).reports("attack")
        producer.send_and_wait(topic, asset.encode(), value)
    producer.close()


REFUSED = (
    ("shop.example", b'{"type":"report","agent":"waf-1","state":"on-fire"}'),
    ("10.1.0.0/16", b'{"type":"report","agent":"waf-2","state":"under-attack","reported_at":-5}'),
    ("news.example", b'{"type":"report","agent":"waf-3","state":'),
    ("mail.example", b'{"type":"report","agent":"waf-\xff","state":"clear"}'),
)


def _take_all(browser: Browser, settings: Settings, passwords: dict[str, str]) -> None:
    contexts: dict[str, BrowserContext] = {}
    for picture in PICTURES:
        if picture.user not in contexts:
            context = browser.new_context(base_url=base_url(settings))
            _log_in(context, picture.user, passwords[picture.user])
            contexts[picture.user] = context
        _take(contexts[picture.user], picture)


def _log_in(context: BrowserContext, user: str, password: str) -> None:
    page = context.new_page()
    page.goto("/account/login/")
    page.get_by_label("Name").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    page.locator("#user-menu").wait_for()
    page.close()


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


def _pinned(page: Page) -> None:
    """Pin an asset for an hour, as long as none is pinned."""
    page.locator("#overrides").wait_for()
    if not page.locator("#overrides tbody tr").count():
        page.goto("/s/attack/")
        _setting(page)
        form = page.locator("#panel .command-set form")
        form.locator("[name=state]").select_option("clear")
        form.locator("[name=reason]").fill("a load test of the customer's own")
        form.locator("[name=end]").select_option("1h")
        form.get_by_role("button").click()
        page.locator("#panel .command-following .phase-applied").wait_for()
        page.goto("/overrides/")
    page.locator("#overrides tbody tr").first.wait_for()


def _looked_up(page: Page) -> None:
    page.locator("#way").wait_for()


def _charted(page: Page) -> None:
    page.locator(".chart canvas").first.wait_for()


def _refused(page: Page) -> None:
    page.locator(".letter-table tbody tr").first.wait_for()


def _letter(page: Page) -> None:
    _refused(page)
    page.locator(".letter-table tbody a", has_text="unknown-state").first.click()
    page.locator("pre.bytes mark.fault").wait_for()


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
    Picture("overrides", "/overrides/", _pinned, size=(1280, 560)),
    Picture("partitions", f"/partitions/?{LOOKED_UP}", _looked_up, size=(1440, 900)),
    Picture("job", "/job/", _charted, size=(1440, 900), scheme="dark", user="admin"),
    Picture("dead-letters", "/dead-letters/", _refused, size=(1440, 900), user="admin"),
    Picture("letter", "/dead-letters/", _letter, size=(1280, 900), user="admin"),
    Picture("tokens", "/account/tokens/", _nothing),
    Picture("second-factor", "/account/2fa/", _nothing),
)
"""Every picture, in the order of docs/tour.md."""


if __name__ == "__main__":
    sys.exit(main())
