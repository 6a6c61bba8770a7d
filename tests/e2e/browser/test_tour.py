"""The README's tour: what it tells the reader to do, done."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from support.browser.browser_pages import Open, live, row
from support.run.stack import ROOT, Stack

README = (Path(ROOT) / "README.md").read_text(encoding="utf-8")
TARGET = "demo-target"


def control(product: Stack, action: str) -> None:
    """What `make target-stop` and `make target-start` do."""
    subprocess.run(
        [sys.executable, "-m", "ops.control", action, "target"],
        cwd=ROOT,
        env=product.environment(),
        check=True,
    )


@pytest.mark.extensive(
    guard="tests/e2e/faults/test_supervisor.py::test_stop_and_start_of_one_process"
)
@pytest.mark.usefixtures("demo_target")
def test_the_board_follows_the_supervised_target(open_as: Open, product: Stack) -> None:
    page = live(open_as("operator", f"/s/connectivity/?q={TARGET}"))
    state, waits = (  # the first: beside it a dispute may name the other
        row(page, TARGET).locator(".col-state .word").first,
        row(page, TARGET).locator(".col-pending"),
    )
    expect(state).to_have_text("Up")
    control(product, "stop")
    expect(waits).to_contain_text("Down")
    expect(state).to_have_text("Down", timeout=60_000)
    control(product, "start")
    expect(waits).to_contain_text("Up")
    expect(state).to_have_text("Up", timeout=60_000)


def test_the_tours_words_are_the_pages(open_as: Open) -> None:
    page = live(open_as("operator", "/s/attack/"))
    page.locator("#tbody tr .asset").first.click()
    expect(page.locator("#panel-title")).to_be_visible()
    shown = page.locator("body").inner_text()
    for word in ("Attacks", "Connectivity", "Orders", "Set a state", "Purge", "Clear"):
        assert word in shown
        assert word in " ".join(README.split())


def test_every_file_the_readme_links_is_there() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)", README) if "://" not in link]
    assert links
    assert [link for link in links if not (Path(ROOT) / link).exists()] == []
