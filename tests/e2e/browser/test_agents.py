"""An agent is muted in the running product: the board follows, and again when it is heard."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from support.browser.browser_pages import Open, Send, live, row, serious_in_both, too_wide_in


def ask(page: Page, summary: str, reason: str, button: str) -> None:
    """Fill in one of the forms of an agent's page."""
    details = page.locator(".mute-forms details", has_text=summary)
    details.locator("summary").click()
    details.get_by_label("Reason").fill(reason)
    details.get_by_role("button", name=button).click()


@pytest.mark.extensive(
    guard="tests/web/watch/test_agents.py::"
    "test_a_mute_goes_to_every_partition_and_is_told_until_the_job_has_it"
)
def test_a_muted_agent_counts_nothing_until_it_is_heard_again(
    open_as: Open, send: Send, prefix: str
) -> None:
    asset, agent = f"{prefix}shop", f"{prefix}wild"
    for name in ("calm-1", "calm-2"):
        send("attack", asset, f"{prefix}{name}", "clear")
    send("attack", asset, agent, "under-attack")
    board = live(open_as("operator", f"/s/attack/?q={asset}"))
    expect(row(board, asset).get_by_role("img", name="3 votes")).to_be_visible()

    page = open_as("operator", "/agents/?scenario=attack")
    page.get_by_role("link", name=agent).click()
    ask(page, "Mute…", "it cries wolf", "Mute")
    expect(page.locator("#mute-request")).to_contain_text("in force in all")
    expect(page.locator(".mute-status")).to_contain_text("muted by operator, ends in")

    name = "3 votes: 1 Under attack, 2 Clear; 1 of them muted"
    votes = row(board, asset).get_by_role("img", name=name)
    expect(votes.locator(".silenced")).to_have_attribute(
        "title", re.compile("muted: does not count$")
    )
    plain = open_as("operator", f"/s/attack/?q={asset}", java_script_enabled=False)
    assert plain.locator(".col-votes").last.inner_html() == votes.locator("..").inner_html()
    assert serious_in_both(board) == []

    row(board, asset).locator(".asset").click()
    panel = board.locator("#panel")
    expect(panel).to_contain_text("its vote does not count")
    expect(panel.locator("tr", has_text=agent).locator(".badge.muted")).to_be_visible()

    assert serious_in_both(page) == []
    assert too_wide_in(page) == []
    ask(page, "Unmute…", "mended", "Unmute")
    expect(page.locator("#mute-request")).to_contain_text("Unmuted by operator")
    expect(page.locator("#mute-request")).to_contain_text("in force in all")
    expect(panel).not_to_contain_text("its vote does not count")

    listed = open_as("operator", "/agents/?scenario=attack")
    expect(listed.locator(f'#agents tr[data-key="{agent}"]')).to_be_visible()
    assert serious_in_both(listed) == []
    assert too_wide_in(listed) == []
