"""The console's page of partitions, in a browser, of the real product."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from bus.kafka import KafkaBus
from domain.scenario_parser import load_scenarios
from support.browser.browser_pages import Open, Send, live, serious
from support.run.stack import ROOT, Stack, wait_until
from wire.topics import Topics

SCENARIOS = load_scenarios(ROOT / "scenarios.toml", demo=True)
PATH = "/partitions/"


def reports(page: Page) -> Locator:
    """The rows of source partitions."""
    return page.locator('table[data-sorts="partitions"] tbody tr')


def column(page: Page, name: str) -> list[float]:
    """The figures of a column, from the top; none for what is not known."""
    at = page.locator('table[data-sorts="partitions"] thead th').evaluate_all(
        "(heads, name) => heads.findIndex(head => head.dataset.name === name)", name
    )
    values = reports(page).evaluate_all(
        "(rows, at) => rows.map(r => r.cells[at].dataset.value)", at
    )
    return [float(value) for value in values if value]


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_every_page.py::test_every_page_can_be_read_by_everybody"
)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_can_be_read_by_everybody_at_any_width(
    open_as: Open, faults: list[str], scheme: str
) -> None:
    for user, path, width in (
        ("operator", PATH, 1440),
        ("operator", f"{PATH}?scenario=orders&asset=42", 1024),
        ("admin", f"{PATH}?scenario=attack&asset=%00", 390),
        ("admin", f"{PATH}?scenario=attack&asset=shop.example", 390),
    ):
        page = open_as(user, path, width, color_scheme=scheme)
        live(page)
        assert serious(page) == [], (path, width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
        page.close()
    assert ["422" in fault for fault in faults] == [True]  # what was typed is no name
    faults.clear()


def test_headers_sort_by_keyboard_and_the_order_is_kept(open_as: Open) -> None:
    page = live(open_as("operator", PATH))
    button = page.get_by_role("button", name="Ends", exact=True).first
    header = page.locator('th[data-name="end"]').first
    button.focus()
    page.keyboard.press("Enter")
    expect(header).to_have_attribute("aria-sort", "descending")
    ends = column(page, "end")
    assert ends == sorted(ends, reverse=True)
    assert len(ends) == sum(scenario.partitions for scenario in SCENARIOS.values())
    page.keyboard.press("Enter")
    expect(header).to_have_attribute("aria-sort", "ascending")
    expect(button).to_be_focused()
    page.reload()
    live(page)
    expect(header).to_have_attribute("aria-sort", "ascending")
    ends = column(page, "end")
    assert ends == sorted(ends)
    page.evaluate("localStorage.clear()")


def test_figures_move_by_themselves_and_nothing_else_does(
    open_as: Open, send: Send, prefix: str
) -> None:
    page = live(open_as("operator", PATH))
    row = page.locator('tr[data-key="attack.reports/0"]')
    reached = row.locator("td").nth(10)
    before = reached.inner_text()
    page.evaluate("document.querySelector('table tbody').rows[0].kept = true")
    page.locator("#key-asset").fill("half typ")
    send("attack", f"{prefix}site", "waf-1", "clear")
    expect(reached).not_to_have_text(before)
    assert page.evaluate("document.querySelector('table tbody').rows[0].kept")
    expect(page.locator("#key-asset")).to_have_value("half typ")
    expect(page.locator("#key-asset")).to_be_focused()


@pytest.mark.extensive(guard="tests/web/operate/test_partitions.py::test_the_way_is_live")
def test_where_a_name_is_agrees_with_kafka_and_is_live(
    open_as: Open, product: Stack, send: Send, prefix: str
) -> None:
    name = f"{prefix}Zürich/東京 &+"
    page = live(open_as("operator", PATH))
    page.locator("#key-scenario").select_option("connectivity")
    page.locator("#key-asset").fill(name)
    page.get_by_role("button", name="Find").click()
    row = page.locator('.way-steps li[data-key="row"]')
    expect(row).to_contain_text("not on the board")
    live(page)
    send("connectivity", name, "agent-1", "up")
    expect(row).to_contain_text("Up")
    said = page.locator('.way-steps li[data-key="partition"] .step-main').inner_text()
    at, offset = placed(product, "connectivity", name)
    assert said == f"{Topics(product.settings.topic_prefix).reports('connectivity')}/{at}"
    version = row.locator(".version").inner_text()
    assert int(version.split(".")[1]) == offset
    row.locator(".version").click()
    expect(page).to_have_url(re.compile(f"/s/connectivity/record/{at}/{offset}/$"))


def placed(product: Stack, scenario: str, asset: str) -> tuple[int, int]:
    """Partition and offset at which Kafka holds the asset's one report."""
    bus = KafkaBus(product.settings.kafka_options())
    edges = bus.offsets([Topics(product.settings.topic_prefix).reports(scenario)])
    ends = {place: end for place, (_, end) in edges.items()}
    reader = bus.reader({place: begin for place, (begin, _) in edges.items()})
    messages = []
    while any(reader.positions()[place] < end for place, end in ends.items()):
        messages += [m for m in reader.poll(5, 10_000) if m.key == asset.encode()]
    reader.close()
    (message,) = messages
    return message.partition, message.offset


@pytest.mark.extensive(
    guard="tests/web/operate/test_partitions.py::test_an_assets_page_leads_to_where_it_is"
)
def test_an_asset_leads_to_its_way_without_a_script(
    open_as: Open, product: Stack, send: Send, prefix: str, faults: list[str]
) -> None:
    send("orders", f"{prefix}7", "station-1", "received")
    path = f"/s/orders/a/{prefix}7/"
    page = open_as("operator", PATH, java_script_enabled=False)
    wait_until(lambda: page.request.get(f"{product.url}{path}").ok, 30, f"{path} is not there")
    page.goto(f"{product.url}{path}")
    page.get_by_role("link", name="where it is in Kafka").click()
    expect(page.get_by_role("heading", name=f"Where {prefix}7 is")).to_be_visible()
    page.locator("#key-asset").fill("")
    page.get_by_role("button", name="Find").click()
    expect(page.locator("#key-asset_error")).to_contain_text("Expected a name")
    assert ["422" in fault for fault in faults] == [True]
    faults.clear()


@pytest.mark.extensive(
    guard="tests/e2e/browser/test_banner.py::test_board_that_is_cut_off_shows_nothing_as_live"
)
def test_a_server_that_cannot_be_reached_is_told_and_comes_back(
    open_as: Open, faults: list[str]
) -> None:
    page = live(open_as("operator", PATH))
    page.route("**/partitions/", lambda route: route.abort())
    expect(page.locator("#live")).to_have_attribute("data-state", "reconnecting")
    expect(page.locator("#cut-off")).to_contain_text("Cut off from the server since")
    page.unroute("**/partitions/")
    live(page)
    expect(page.locator("#cut-off")).to_be_hidden()
    assert faults  # the browser's own words for what was cut off
    faults.clear()
