"""What a reader of the README meets in the first minutes: no trouble that the start itself made, a
few mails whose links lead on, and labels."""

from __future__ import annotations

import re
import sqlite3

import pytest
from playwright.sync_api import expect

from agents.checks import load_targets
from agents.demo.worlds import NETWORKS, SITES
from agents.probe import variables
from config.mailbox import Mailbox, arrived_at
from support.browser.browser_pages import Open, live, row
from support.run.stack import Stack, wait_until

QUARTER_MS = 15 * 60_000
TO_THE_DEMO = re.compile(rb"^X-Envelope-To: soc@demo\.invalid\r?$", re.MULTILINE)
# With MIN, SQLite takes the other columns from the row that has it.
FIRST_STATES = "SELECT scenario, asset, state, MIN(id) FROM states_transition GROUP BY 1, 2"


def first_states(product: Stack) -> dict[tuple[str, str], str]:
    """The first state that each asset has ever had."""
    path = product.data_dir / "tallyboard.sqlite3"
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        return {(name, asset): state for name, asset, state, _ in database.execute(FIRST_STATES)}


def demo_mails(product: Stack) -> list[int]:
    """The numbers of the mails that the demo's rule has sent, the oldest first."""
    box = Mailbox(product.settings.mail_dir)
    return sorted(n for n in box.numbers() if TO_THE_DEMO.search(box.read(n) or b""))


def test_nothing_begins_as_an_incident(product: Stack) -> None:
    targets = load_targets(product.settings.probes, variables(product.settings))
    expected = dict.fromkeys((("attack", site) for site in SITES), "clear")
    watched = (*NETWORKS, *(target.name for target in targets))
    expected |= dict.fromkeys((("connectivity", name) for name in watched), "up")
    wait_until(lambda: expected.keys() <= first_states(product).keys(), 120, "not all reported")
    assert {key: first_states(product)[key] for key in expected} == expected


@pytest.mark.extensive(
    guard="tests/web/notify/test_notification_demo.py::"
    "test_waves_of_attack_are_three_mails_in_a_quarter_of_an_hour"
)
def test_mails_are_few_and_their_links_are_of_the_printed_address(
    open_as: Open, product: Stack
) -> None:
    wait_until(lambda: demo_mails(product), 300, "no mail of the demo's rule")
    first, *more = demo_mails(product)
    soon = [each for each in more if arrived_at(each) - arrived_at(first) < QUARTER_MS - 60_000]
    assert len(soon) <= 2
    page = open_as("operator", f"/console/mail/{first}/")
    text = page.locator(".mail-text").inner_text()
    links = [each for each in re.findall(r"https?://\S+", text) if ".example/" not in each]
    printed = re.search(r"is ready: (\S+)/", product.output.read_text())
    assert printed
    assert links
    assert all(link.startswith(f"{printed[1]}/") for link in links), links
    page.goto(links[-1])
    expect(page.locator("#user-menu")).to_be_visible()  # still logged in


@pytest.mark.extensive(
    guard="tests/unit/core/test_freshness.py::test_a_silence_where_the_pipeline_was_switched_off_says_so"
)
def test_what_is_switched_off_troubles_no_board(open_as: Open, product: Stack) -> None:
    wait_until(lambda: demo_mails(product), 300, "the simulator has not gone on for a while")
    for scenario in ("attack", "connectivity", "orders"):
        page = live(open_as("operator", f"/s/{scenario}/"))
        for title in ("Clients", "Customers"):
            expect(page.locator("#banner")).not_to_contain_text(title)
        expect(page.locator(".tabs-examples a")).to_have_accessible_name("Orders")


def test_the_demos_boards_have_labels(open_as: Open) -> None:
    page = live(open_as("operator", "/s/attack/?q=customer:Acme*+shop.example"))
    expect(row(page, "shop.example").locator(".labels")).to_contain_text("Acme GmbH")
    page.goto(page.url.split("/s/")[0] + "/labels/?scenario=connectivity")
    for key in ("customer", "tier", "owner"):
        expect(page.get_by_role("row").filter(has_text=key).first).to_be_visible()
