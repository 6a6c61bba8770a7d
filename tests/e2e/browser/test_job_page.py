"""The job's page in a browser: charts are drawn; an admin stops the query and starts it again."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from bus.base import Producer
from bus.kafka import KafkaBus
from domain.records import Command
from support.browser.browser_pages import Open, live, serious_in_both, too_wide_in
from support.run.stack import Stack
from wire.job import Control, QueryReport, encode
from wire.keys import KeyFile
from wire.signature import Signer
from wire.source import encode_command
from wire.topics import Topics

DRAWN = """canvases => canvases.every(canvas => canvas.getContext("2d")
  .getImageData(0, 0, canvas.width, canvas.height).data.some(value => value > 0))"""


@pytest.fixture
def job_producer(product: Stack) -> Iterator[Producer]:
    """Tells what the job would; whatever a test leaves, its query runs afterwards."""
    producer = KafkaBus(product.settings.kafka_options()).producer()
    yield producer
    start = encode(Control(str(uuid.uuid4()), "kernel", "start", "test", "as it was"))
    signer = Signer(KeyFile(product.settings.command_keys_file).ring, now_ms)
    signed = signer.sign(start, Topics().control, b"kernel")
    producer.send_and_wait(Topics().control, b"kernel", signed)
    producer.close()


def now_ms() -> int:
    return int(time.time() * 1000)


def batches(producer: Producer, number: int) -> None:
    """So many batches of the kernel have ended, some seconds apart."""
    now = now_ms()
    for at in range(number):
        figures = {
            "batchId": at,
            "batchDuration": 1_000 + at,
            "numInputRows": 500,
            "processedRowsPerSecond": 500.0 + at,
            "durationMs": {"addBatch": 900, "walCommit": 20 * at},
            "state": {"numRowsUpdated": 100 + at, "memoryUsedBytes": 1_000_000},
        }
        query_report = QueryReport(
            "kernel", now - 10_000 * (number - at), "running", 1, batch=figures
        )
        producer.send_and_wait(Topics().progress, b"kernel", encode(query_report))


def emitted_keys(product: Stack) -> set[bytes | None]:
    """The assets of all that the job has told of attacks."""
    bus = KafkaBus(product.settings.kafka_options())
    edges = bus.offsets([Topics().states("attack")])
    reader, keys = bus.reader({place: begin for place, (begin, _) in edges.items()}), set()
    while not reader.at_end():
        keys |= {message.key for message in reader.poll(1, 10_000)}
    reader.close()
    assert keys
    return keys


def ask(page: Page, action: str, button: str) -> None:
    """Ask the kernel for something, as an admin does."""
    offer = page.locator(f'#job .ask[data-key="{action}"]')
    offer.locator("summary").click()
    offer.get_by_label("Reason").fill(f"a drill: {action}")
    offer.get_by_role("checkbox").check()
    offer.get_by_role("button", name=button).click()


def outcome(page: Page, action: str) -> None:
    """Wait until the newest ask is listed as done, without the page being loaded again."""
    newest = page.locator("#job table[data-sorts=asks] tbody tr").first
    expect(newest).to_contain_text(f"a drill: {action}")
    expect(newest.locator(".state")).to_have_text("done")


def state(page: Page, word: str) -> None:
    expect(page.locator("#job .query-head .state").first).to_have_text(word)


def test_charts_are_drawn(open_as: Open, job_producer: Producer) -> None:
    batches(job_producer, 6)
    page = open_as("operator", "/job/")
    for charts, drawn in (("figures", 5), ("samples", 3)):
        chart_group = page.locator(f'#job .charts[data-charts="/job/kernel/{charts}.json"]')
        expect(chart_group.locator(".chart canvas")).to_have_count(drawn)
        expect(chart_group.locator(".charts-note")).to_be_empty()
        assert chart_group.locator(".chart canvas").evaluate_all(DRAWN)
        day = chart_group.get_by_role("button", name="Day")
        day.click()
        expect(day).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#job .ask")).to_have_count(0)
    assert serious_in_both(page) == []
    assert too_wide_in(page) == []


@pytest.mark.extensive(
    guard="tests/web/operate/test_job_page.py::test_an_admin_stops_a_query_and_is_told_what_became_of_it"
)
@pytest.mark.alone
def test_stop_and_start(open_as: Open, job_producer: Producer) -> None:
    page = open_as("admin", "/job/")
    state(page, "running")
    ask(page, "stop", "Stop kernel")
    outcome(page, "stop")
    state(page, "stopped")
    expect(page.locator("#job .why").first).to_have_text("by admin: a drill: stop")
    assert serious_in_both(page) == []
    board = open_as("operator", "/s/attack/")
    banner = board.locator("#banner .banner-line")
    expect(banner).to_contain_text("The job was stopped by admin at")
    expect(banner).to_contain_text('("a drill: stop")')
    ask(page, "start", "Start kernel")
    outcome(page, "start")
    state(page, "running")
    live(board)
    expect(board.locator("#banner")).not_to_contain_text("was stopped by")


@pytest.mark.extensive(
    guard="tests/web/watch/test_signed_commands.py::"
    "test_who_reads_the_log_again_refuses_what_the_job_refused"
)
def test_what_is_commanded_past_the_board_is_refused_counted_and_audited(
    open_as: Open, job_producer: Producer, product: Stack, prefix: str
) -> None:
    """Raw records in Kafka: a pin, and a stop of the job."""
    asset, id_ = f"{prefix}shop", str(uuid.uuid4())
    forged = encode_command(Command("set", asset, id_, "admin", "trust me", "clear"))
    stop = encode(Control(str(uuid.uuid4()), "kernel", "stop", "admin", "trust me"))
    job_producer.send_and_wait(Topics().reports("attack"), asset.encode(), forged)
    job_producer.send_and_wait(Topics().control, b"kernel", stop)
    audit = open_as("admin", f"/audit/?action=command.refused&q={asset}")
    expect(audit.locator("tbody tr").first).to_contain_text("unsigned")
    page = open_as("admin", "/job/")
    expect(page.locator("#job")).to_contain_text("unsigned in attack.reports")
    expect(page.locator("#job")).to_contain_text("unsigned in job.control")
    state(page, "running")
    assert serious_in_both(page) == []
    letters = open_as("admin", f"/dead-letters/?reason=unsigned&q={asset}")
    expect(letters.locator(".letter-table tbody tr")).to_have_count(1)
    assert asset.encode() not in emitted_keys(product)
