"""One banner tells apart what keeps the board from being fresh; each cause is real here."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from ops.supervise import Supervisor
from support.browser.browser_pages import Open, live, serious_in_both, too_wide_in
from support.run.stack import Stack

UNREACHED = "WebSocket connection|htmx:(afterRequest|sendError)|ERR_(CONNECTION_REFUSED|FAILED)"
"""What the console says of a server that is not there: to the socket, and to facts asked anew."""
AGENTS = ("simulator", "probe-a", "probe-b", "probe-c")

STANDS_STILL = """async () => {
  const read = () => [...document.querySelectorAll("time[data-since]")].map(t => t.textContent);
  const before = String(read());
  await new Promise(done => setTimeout(done, 1500));
  return String(read()) === before;
}"""


@pytest.fixture(scope="module")
def supervisor(product: Stack) -> Supervisor:
    """The supervisor of the shared product."""
    return Supervisor(product.data_dir)


@pytest.fixture
def silent_agents(supervisor: Supervisor) -> Iterator[None]:
    """No agent reports meanwhile."""
    for name in AGENTS:
        supervisor.stop(name)
    yield
    for name in AGENTS:
        supervisor.start(name)


def banner(page: Page, kind: str, what: str) -> None:
    """Wait until the banner tells of this first, with since when."""
    banner = page.locator("#banner")
    expect(banner).to_be_visible()
    expect(banner).to_have_attribute("data-kind", kind)
    expect(banner.locator(".banner-line")).to_contain_text(what)
    since = banner.locator(".banner-line time")
    expect(since).to_have_attribute("title", re.compile("UTC$"))


@pytest.mark.alone
@pytest.mark.extensive(
    guard="tests/unit/core/test_freshness.py::test_a_silence_where_the_pipeline_was_switched_off_says_so"
)
def test_a_board_whose_pipeline_is_off_is_not_listed_and_troubles_nobody(open_as: Open) -> None:
    page = live(open_as("operator", "/s/attack/"))
    expect(page.locator("#banner")).not_to_contain_text("Customers")
    examples = page.get_by_role("group", name="Examples").get_by_role("link")
    expect(examples).to_have_accessible_name("Orders")  # those that run
    page.goto(page.url.replace("/s/attack/", "/s/customers/"))
    expect(page.locator("#empty-board")).to_contain_text("TALLYBOARD_PIPELINES=")
    customers = page.get_by_role("group", name="Examples").get_by_role("link", name="Customers")
    expect(customers).to_have_attribute("aria-current", "page")
    expect(customers).to_have_attribute("title", re.compile("TALLYBOARD_PIPELINES=.*loyalty"))
    expect(page.locator("#banner")).to_be_hidden()
    assert serious_in_both(page) == []
    phone = live(open_as("operator", "/s/attack/", width=390))
    expect(phone.locator("#tabs")).to_be_hidden()
    phone.get_by_role("button", name="Boards").click()
    expect(phone.locator("#tabs").get_by_role("link", name="Orders")).to_be_in_viewport()
    assert serious_in_both(phone) == []
    assert too_wide_in(phone) == []


def test_board_that_is_cut_off_shows_nothing_as_live(open_as: Open, faults: list[str]) -> None:
    """Of one page alone the wire is cut."""
    page = open_as("operator", "/account/tokens/")
    wire = Wire(page)
    page.goto(page.url.replace("/account/tokens/", "/s/attack/"))
    live(page)
    wire.cut()
    banner(page, "cut-off", "Cut off from the server since")
    expect(page.locator("body.stale")).to_have_count(1)
    assert page.title().startswith("(cut off)")
    page.wait_for_function(STANDS_STILL)  # once rows that waited are in their places
    expect(page.locator("#tabs")).to_have_attribute("data-stale", "true")
    wire.mend()
    live(page)
    expect(page.locator("#banner[data-kind=cut-off]")).to_have_count(0)
    expect(page.locator("#tabs[data-stale]")).to_have_count(0)
    assert not page.title().startswith("(cut off)")
    faults[:] = [fault for fault in faults if not re.search(UNREACHED, fault)]


class Wire:
    """What a page that is opened from now on reaches the server by."""

    def __init__(self, page: Page) -> None:
        self._page, self._sockets, self._is_cut = page, list[WebSocketRoute](), False
        page.route_web_socket("**/ws/**", self._opened)

    def _opened(self, socket: WebSocketRoute) -> None:
        if self._is_cut:
            socket.close(code=CUT)
        else:
            socket.connect_to_server()
            self._sockets.append(socket)

    def cut(self) -> None:
        """Close its socket, and let nothing through."""
        self._is_cut = True
        self._page.route("**", lambda route: route.abort())
        for socket in self._sockets:
            socket.close(code=CUT)

    def mend(self) -> None:
        """Let all through again."""
        self._is_cut = False
        self._page.unroute("**")


CUT = 3999
"""A code with which the server closes no socket."""


@pytest.mark.alone
@pytest.mark.extensive(
    guard="tests/e2e/browser/test_banner.py::test_board_that_is_cut_off_shows_nothing_as_live"
)
def test_browser_that_is_cut_off_shows_nothing_as_live(
    open_as: Open, supervisor: Supervisor, faults: list[str]
) -> None:
    page = live(open_as("operator", "/s/attack/"))
    wall = live_wall(open_as)
    asset = live(open_as("operator", "/s/attack/a/shop.example/"))
    supervisor.stop("web")
    try:
        banner(page, "cut-off", "Cut off from the server since")
        expect(page.locator("body.stale")).to_have_count(1)
        assert page.title().startswith("(cut off)")
        page.wait_for_function(STANDS_STILL)  # once rows that waited are in their places
        banner(wall, "cut-off", "Cut off from the server since")
        banner(asset, "cut-off", "Cut off from the server since")
        expect(page.locator("#tabs")).to_have_attribute("data-stale", "true")
        expect(asset.locator("body.stale")).to_have_count(1)
        asset.wait_for_function(STANDS_STILL)
    finally:
        supervisor.start("web")
    live(asset)
    expect(asset.locator("#banner[data-kind=cut-off]")).to_have_count(0)
    live(page)
    expect(page.locator("#banner[data-kind=cut-off]")).to_have_count(0)
    expect(page.locator("#tabs[data-stale]")).to_have_count(0)
    assert not page.title().startswith("(cut off)")
    assert not page.evaluate(STANDS_STILL)
    faults[:] = [fault for fault in faults if not re.search(UNREACHED, fault)]


def live_wall(open_as: Open) -> Page:
    """A wall screen that follows the board."""
    wall = open_as("operator", "/?scenario=attack&wall=1", width=1920)
    expect(wall.locator("#live")).to_have_attribute("data-state", "live")
    return wall


@pytest.mark.alone
@pytest.mark.extensive(
    guard="tests/unit/core/test_freshness.py::test_a_database_behind_leaves_rows_live_and_says_so"
)
def test_database_that_is_behind_leaves_rows_live(open_as: Open, supervisor: Supervisor) -> None:
    page = live(open_as("operator", "/s/orders/"))
    asset = live(open_as("operator", "/s/attack/a/shop.example/"))
    supervisor.stop("materialiser")
    try:
        for followed in (page, asset):
            listed = followed.locator(".banner-list")
            expect(listed).to_contain_text("States are current; history is late since")
            expect(listed).to_contain_text("If it lasts, call an admin. What is missing")
        expect(page.locator("body.stale")).to_have_count(0)
    finally:  # the tests after it need what is in the database
        supervisor.start("materialiser")
    expect(page.locator("#banner")).not_to_contain_text("history is late")


@pytest.mark.alone
@pytest.mark.extensive(
    guard="tests/unit/core/test_freshness.py::test_agents_silent_for_longer_than_usual"
)
@pytest.mark.usefixtures("silent_agents")
def test_silent_agents_are_told_for_each_scenario(open_as: Open) -> None:
    page = live(open_as("operator", "/s/attack/"))
    asset = live(open_as("operator", "/s/attack/a/shop.example/"))
    expect(page.locator("#banner")).to_have_attribute("data-kind", "agents", timeout=180_000)
    banner(page, "agents", "Attacks: no agent has reported since")
    banner(asset, "agents", "Attacks: no agent has reported since")
    mark = page.locator('.tabs [data-scenario="connectivity"] .tab-problem')
    words = "Connectivity: no agent has reported"
    expect(mark).to_have_attribute("title", words, timeout=180_000)
    expect(mark).to_be_visible()
    expect(page.locator("#banner")).not_to_contain_text(words)


@pytest.mark.alone
@pytest.mark.extensive(
    guard="tests/unit/core/test_freshness.py::test_a_job_without_a_heartbeat_for_five_seconds_is_stalled"
)
def test_stalled_job_is_told_and_goes_on(open_as: Open, supervisor: Supervisor) -> None:
    page = live(open_as("operator", "/s/orders/"))
    asset = live(open_as("operator", "/s/attack/a/shop.example/"))
    supervisor.stop("job")
    try:
        banner(page, "job", "The job has not answered since")
        banner(asset, "job", "The job has not answered since")
        expect(asset.locator("#announce")).to_have_text("The job has not answered")
        expect(page.locator("#announce")).to_have_text("The job has not answered")
        expect(page.locator("body.stale")).to_have_count(1)
        other = open_as("operator", "/events/")
        for shown in (page, asset, other):  # its socket, or server, answers all the same
            expect(shown.locator("#live")).to_have_attribute("data-state", "still")
            expect(shown.locator("#live")).to_contain_text("job silent since")
        page.locator("#banner .banner-line a").click()
        expect(page.locator("#missing")).to_contain_text("The job has not answered since")
        page.go_back()
        for path in ("/s/orders/", "/s/attack/a/shop.example/"):
            fresh = open_as("operator", path, java_script_enabled=False)
            expect(fresh.locator(".banner-line")).to_contain_text("The job has not answered since")
    finally:
        supervisor.start("job")
    for followed in (page, asset):
        expect(followed.locator("#banner[data-kind=job]")).to_have_count(0, timeout=90_000)
        expect(followed.locator("#live")).to_have_attribute("data-state", "live")
    expect(other.locator("#live")).to_have_attribute("data-state", "live")
