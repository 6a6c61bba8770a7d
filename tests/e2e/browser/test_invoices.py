"""The page of today's invoices in a browser: records from Kafka, charts, and what comes later."""

from __future__ import annotations

import json
import time

import pytest
from playwright.sync_api import expect

from bus.base import TopicSpec
from bus.kafka import KafkaBus
from support.browser.browser_pages import Open, serious_in_both, too_wide_in
from support.run.stack import Stack
from wire.topics import Topics

TOPICS = Topics()
RENEWED_MS = 30_000


class Shop:
    """Sends the lines and the points of invoices, as the pipelines do."""

    def __init__(self, product: Stack) -> None:
        bus = KafkaBus(product.settings.kafka_options())
        names = (TOPICS.invoice_lines, TOPICS.loyalty)
        bus.ensure_topics([TopicSpec(name, 3, {}) for name in names])
        self._producer = bus.producer()

    def sell(self, number: int, store: str, sign: int = 1) -> None:
        """Send an invoice of two lines and 12 points, at the present time; -1: a return."""
        name, at = f"inv-browser-{number}", time.time_ns() // 1_000_000
        for line in (1, 2):
            record = {
                "invoice": name, "store": store, "at": at, "line": line, "lines": 2,
                "product": f"product-{line}", "title": "Tea, large", "quantity": sign,
                "amount": sign * 50_000, "customer_type": "PRIME", "delivery": "TAKE-AWAY",
            }  # fmt: skip
            self._send(TOPICS.invoice_lines, name, record)
        points = {"card": "6104 0000 0000 0042", "customer": "customer-0042", "invoice": name,
                  "earned": sign * 12, "total": 12, "at": at}  # fmt: skip
        self._send(TOPICS.loyalty, name, points)

    def _send(self, topic: str, key: str, record: object) -> None:
        self._producer.send_and_wait(topic, key.encode(), json.dumps(record).encode())


@pytest.mark.extensive(
    guard="tests/web/retail/test_invoices.py::test_a_script_gets_the_part_that_renews_itself"
)
@pytest.mark.timeout(240)
def test_todays_sales_come_and_renew_themselves(product: Stack, open_as: Open) -> None:
    shop = Shop(product)
    shop.sell(1, "store-browser")
    page = open_as("manager", "/invoices/")
    row = page.locator("#invoices tr", has_text="store-browser")
    expect(row.locator("td").first).to_have_text("1", timeout=RENEWED_MS)
    expect(row).to_contain_text("1,000.00")
    page.reload()  # the charts are of a page that has sales when it is opened
    expect(page.locator(".chart canvas")).to_have_count(3)
    expect(page.locator("#invoices")).to_contain_text("Tea, large")
    assert serious_in_both(page) == []
    assert too_wide_in(page) == []
    shop.sell(2, "store-browser")
    expect(row.locator("td").first).to_have_text("2", timeout=RENEWED_MS)
    shop.sell(3, "store-browser", sign=-1)
    expect(page.locator("#invoices dl")).to_contain_text(
        "1,000.00 EUR given back", timeout=RENEWED_MS
    )
    expect(row.locator("td").last).to_have_text("1")
    assert too_wide_in(page) == []
    expect(page.locator(".chart canvas")).to_have_count(3)
