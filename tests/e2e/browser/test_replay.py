"""An admin has the log read again: boards stay as they are, and are compared at the end."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from support.browser.browser_pages import Open, Send, live, row, serious_in_both, too_wide_in

WATCH = """asset => {
  window.seen = [];
  const look = () => {
    const row = document.querySelector(`#tbody tr[data-asset="${CSS.escape(asset)}"]`);
    const word = row ? row.querySelector(".col-state .word").textContent : "gone";
    if (window.seen.at(-1) !== word) window.seen.push(word);
  };
  look();
  new MutationObserver(look).observe(document.querySelector("#tbody"),
    {childList: true, subtree: true, characterData: true});
}"""


def epoch_of(page: Page, asset: str) -> int:
    """The epoch of what a board shows of an asset."""
    return int((row(page, asset).get_attribute("data-version") or "0").split(".")[0])


@pytest.mark.extensive(guard="tests/web/operate/test_replay.py::test_it_is_followed_to_its_end")
@pytest.mark.alone
def test_the_log_is_read_again(open_as: Open, send: Send, prefix: str) -> None:
    asset = f"{prefix}shop"
    for state in ("clear", "under-attack"):
        for agent in ("waf-1", "waf-2", "waf-3"):
            send("attack", asset, agent, state)
    board = live(open_as("operator", f"/?scenario=attack&q={prefix}"))
    expect(row(board, asset).locator(".col-state .word")).to_have_text("Under attack")
    epoch = epoch_of(board, asset)
    board.evaluate(WATCH, asset)

    page = open_as("admin", "/replay/")
    page.get_by_label("Scenario", exact=True).select_option("attack")
    page.get_by_role("button", name="Review").click()
    expect(page.locator("#plan")).to_contain_text("Every state comes out as the whole log has it")
    assert serious_in_both(page) == []
    assert too_wide_in(page) == []
    page.get_by_label("Type attack to confirm").fill("attack")
    page.get_by_label("Reason").fill("a drill: read again")
    page.get_by_role("button", name="Rebuild kernel").click()

    newest = page.locator("#replays .replay-one").first
    expect(newest).to_contain_text("a drill: read again")
    expect(newest.locator(".card-head .state")).to_have_text("done", timeout=120_000)
    board.wait_for_function(
        """([asset, epoch]) => Number(document.querySelector(
          `#tbody tr[data-asset="${CSS.escape(asset)}"]`).dataset.version.split(".")[0]) > epoch""",
        arg=[asset, epoch],
    )
    assert board.evaluate("window.seen") == ["Under attack"]
    expect(newest.locator(".replay-judged")).to_contain_text("0 differences", timeout=90_000)
    assert serious_in_both(page) == []
    assert too_wide_in(page) == []
