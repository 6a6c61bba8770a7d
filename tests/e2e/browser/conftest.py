"""A real Chromium, and the whole product for it to look at."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from agents.reporter import Reporter
from bus.kafka import KafkaBus
from ops.prerequisites import find_browser
from support.browser.browser_pages import Open, Send, log_in, resize
from support.browser.shared_product import shared_product, turn
from support.run.locks import exclusive
from support.run.stack import Stack, wait_until
from wire.topics import Topics

expect.set_options(timeout=45_000)  # broker, job and browser may share two cores


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, object]) -> dict[str, object]:
    """Launch the system's Chromium; root may not use its sandbox."""
    path = find_browser()
    assert path, "no Chromium: install the package chromium"
    return {**browser_type_launch_args, "executable_path": path, "args": ["--no-sandbox"]}


@pytest.fixture(scope="session")
def product(session_folder: Path, jars_dir: Path) -> Iterator[Stack]:
    """The whole product with its demo, shared by the session: `.url`, `.logins`, `.kill(name)`."""
    with shared_product(session_folder, jars_dir) as stack:
        yield stack


@pytest.fixture(autouse=True)
def product_turn(request: pytest.FixtureRequest, session_folder: Path) -> Iterator[None]:
    """Keep a test that is marked `alone` apart from those of the other workers."""
    with turn(session_folder, alone=request.node.get_closest_marker("alone") is not None):
        yield


@pytest.fixture(scope="module")
def demo_target(session_folder: Path) -> Iterator[None]:
    """The supervised target, which no other module stops or starts meanwhile."""
    with exclusive(session_folder / "target.lock"):
        yield


@pytest.fixture(scope="session")
def send(product: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Send]:
    """Report to the product; see `browsing.Send`."""
    bus = KafkaBus(product.settings.kafka_options())
    topics = Topics(product.settings.topic_prefix)
    reporters: dict[str, Reporter] = {}

    def report(scenario: str, asset: str, agent: str, state: str, age_s: int = 0) -> None:
        if scenario not in reporters:
            spool = tmp_path_factory.mktemp(f"spool-{scenario}")
            reporters[scenario] = Reporter(bus, topics.reports(scenario), spool)
        reporter = reporters[scenario]
        at = int(1000 * (time.time() - age_s)) if age_s else None
        reporter.report(asset, agent, state, at)
        wait_until(lambda: reporter.unconfirmed == 0, 45, f"{asset} was not confirmed")

    yield report
    for reporter in reporters.values():
        reporter.close()


@pytest.fixture
def prefix() -> str:
    """Begins the names of one test's own assets, among those of the demo."""
    return f"t{uuid.uuid4().hex[:8]}-"


@pytest.fixture(scope="session")
def sessions(browser: Browser, product: Stack) -> Callable[[str], Any]:
    """The cookies of a demo user, who is logged in once, through the form."""
    known: dict[str, Any] = {}

    def session(user: str) -> Any:
        if user not in known:
            context = browser.new_context()
            log_in(context.new_page(), product, user)
            known[user] = context.storage_state()
            context.close()
        return known[user]

    return session


@pytest.fixture(scope="session")
def windows(browser: Browser, sessions: Callable[[str], Any]) -> Iterator[Callable[..., Any]]:
    """A context for each user and set of options, as if it had just been made.

    It keeps the files that its pages have fetched: without them each page takes seconds to open.
    """
    kept: dict[str, BrowserContext] = {}

    def window(user: str, **options: Any) -> BrowserContext:
        name = f"{user} {sorted(options.items())}"
        if name not in kept:
            kept[name] = browser.new_context(**options)
        if not kept[name].pages:  # else two tabs of one test
            kept[name].set_storage_state(sessions(user))
        return kept[name]

    yield window
    for context in kept.values():
        context.close()


DROPPED = re.compile(r"htmx:(sendAbort|afterRequest), \[object HTMLDivElement\]")
"""What htmx says of a request that a page drops, as whoever asked has gone elsewhere."""


def is_fault(said: ConsoleMessage) -> bool:
    """Whether the console tells of something wrong."""
    return said.type == "error" and not DROPPED.match(said.text)


@pytest.fixture
def open_as(
    browser: Browser, product: Stack, windows: Callable[..., BrowserContext], faults: list[str]
) -> Iterator[Open]:
    """Open a path as a demo user, in a tab of its own, or as nobody (""); see `browsing.Open`."""
    opened: list[BrowserContext | Page] = []

    def open_page(user: str, path: str = "/", width: int = 1440, **options: Any) -> Page:
        if user:
            context = windows(user, **options)
        else:  # may log in, which is nobody else's business
            opened.append(context := browser.new_context(**options))
        opened.append(page := context.new_page())
        resize(page, width)
        page.on("console", lambda said: faults.append(said.text) if is_fault(said) else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(f"{product.url}{path}")
        return page

    yield open_page
    for each in reversed(opened):
        each.close()


@pytest.fixture
def faults() -> Iterator[list[str]]:
    """What the console of a test's pages said as an error; any of it fails the test at its end.

    Refusals by the content security policy are among them.
    """
    console_errors: list[str] = []
    yield console_errors
    assert console_errors == []
