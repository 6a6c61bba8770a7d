"""`make pictures`: take the pictures for README and docs/tour.md from a running demo."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from bus.kafka import KafkaBus
from config.settings import Settings, load_settings
from ops.prerequisites import find_browser
from ops.scenes import PICTURES, Picture
from wire.topics import Topics

MISSING = (
    "Not taken, as their pages lack what they show: {}. Pictures of pipelines need "
    "TALLYBOARD_PIPELINES=all TALLYBOARD_STORES=2 make run; the first mail comes some minutes "
    "after the start."
)
FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"


def main(names: Sequence[str]) -> str | None:
    """Take the pictures with these names, or all. Return a message if some could not be taken."""
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
        missing = _take_all(chromium, settings, json.loads(logins.read_text()), names)
        chromium.close()
    return MISSING.format(", ".join(missing)) if missing else None


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


def _take_all(
    browser: Browser, settings: Settings, passwords: dict[str, str], names: Sequence[str]
) -> list[str]:
    """Take pictures, and return the names of those whose page lacks what they should show."""
    contexts: dict[str, BrowserContext] = {}
    missing: list[str] = []
    for picture in PICTURES:
        if names and picture.name not in names:
            continue
        if picture.user not in contexts:
            context = browser.new_context(base_url=settings.local_url)
            _log_in(context, picture.user, passwords[picture.user])
            contexts[picture.user] = context
        try:
            _take(contexts[picture.user], picture)
        except PlaywrightTimeout:
            missing.append(picture.name)
    return missing


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
