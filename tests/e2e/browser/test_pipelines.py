"""A pipeline on the job's page in a browser: an admin stops, starts and resets it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from support.browser.browser_pages import Open, serious_in_both, too_wide_in
from support.run.stack import ROOT, Stack

NAME = "report-rates"
START_MS = 90_000


@pytest.fixture
def pipelines(product: Stack) -> Iterator[subprocess.Popen[bytes]]:
    """The process of one pipeline, beside the shared product."""
    with (product.data_dir / "logs" / "pipelines.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "streaming.pipelines"],
            cwd=ROOT,
            env=product.environment()
            | {"TALLYBOARD_PIPELINES": NAME, "TALLYBOARD_PIPELINES_MEMORY": "600m"},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    yield process
    process.terminate()
    process.wait(15)


def ask(page: Page, action: str, title: str) -> None:
    offer = page.locator(f'#query-pipeline-{NAME} .ask[data-key="{action}"]')
    offer.locator("summary").click()
    offer.get_by_label("Reason").fill(f"a drill: {action}")
    offer.get_by_role("checkbox").check()
    offer.get_by_role("button", name=f"{title} {NAME}").click()


def done(page: Page, action: str) -> None:
    newest = page.locator("#job table[data-sorts=asks] tbody tr").first
    expect(newest).to_contain_text(f"a drill: {action}")
    expect(newest.locator(".state")).to_have_text("done", timeout=START_MS)


@pytest.mark.extensive(
    guard="tests/web/operate/test_pipelines_page.py::test_an_admin_asks_and_reads_the_answer"
)
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("pipelines")
def test_an_admin_reads_a_pipelines_graph_stops_starts_and_resets_it(open_as: Open) -> None:
    page = open_as("admin", "/job/")
    section = page.locator(f"#query-pipeline-{NAME}")
    state = section.locator(".query-head .state").first
    expect(state).to_have_text("running", timeout=START_MS)
    section.locator("summary", has_text="Graph").click()
    expect(section.locator(".pipeline-graph li.store")).to_contain_text("rocksdb")
    expect(section.locator(".pipeline-graph li.sink")).to_contain_text("pipelines.report-rates")
    section.locator("summary", has_text="Partitions").click()
    expect(section.locator("table").first).to_contain_text("attack.reports")
    assert serious_in_both(page) == []
    assert too_wide_in(page) == []
    for action, title, word in (
        ("stop", "Stop", "stopped"),
        ("start", "Start", "running"),
        ("reset", "Reset", "running"),
    ):
        ask(page, action, title)
        done(page, action)
        expect(state).to_have_text(word, timeout=START_MS)
    expect(section.locator(".query-head")).to_contain_text("is deleted")
