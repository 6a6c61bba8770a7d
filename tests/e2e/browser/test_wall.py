"""The wall of all boards: turns of what does not fit, and what it says once it is cut off."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from support.browser.browser_pages import Open, Send, serious_in_both
from support.run.stack import wait_until


def test_the_wall_names_what_is_not_good_and_says_that_it_is_cut_off(
    open_as: Open, send: Send, prefix: str, faults: list[str]
) -> None:
    send("connectivity", f"{prefix}down", "monitor", "down")
    page = open_as("manager", "/wall/?scenario=connectivity", width=1920)
    tile = page.locator(f'[data-key="connectivity/{prefix}down"]')
    wait_until(lambda: tile.count() == 1, 45, "the network that is down")
    assert serious_in_both(page) == []
    expect(page.locator(".top")).to_be_hidden()
    page.context.set_offline(True)
    cut = page.locator("#cut-off")
    expect(cut).to_contain_text("Cut off from the server since", timeout=30_000)
    expect(page.locator("body")).to_have_class(re.compile(r"\bstale\b"))
    page.context.set_offline(False)
    expect(cut).to_be_hidden(timeout=30_000)
    faults[:] = [each for each in faults if "ERR_INTERNET_DISCONNECTED" not in each]


def test_what_does_not_fit_takes_turns(open_as: Open, send: Send, prefix: str) -> None:
    names = [f"{prefix}{number:02}" for number in range(12)]
    for name in names:
        send("connectivity", name, "monitor", "down")
    page = open_as("operator", "/wall/?scenario=connectivity")
    page.set_viewport_size({"width": 1000, "height": 500})
    tiles = page.locator(f'[data-turns][data-key^="connectivity/{prefix}"]')
    wait_until(lambda: tiles.count() == len(names), 60, "the networks")
    expect(page.locator("#walls-page")).to_have_text(re.compile(r"^page \d+ of [2-9]$"))
    if page.locator("[data-turns=unhandled][hidden]").count():
        expect(page.locator("#walls-rest")).to_be_hidden()
    first = page.locator("#walls-page").inner_text()
    expect(page.locator("#walls-page")).not_to_have_text(first, timeout=15_000)
