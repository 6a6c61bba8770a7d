"""Lines of invoices joined with the list of prices, which changes while the pipeline runs."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus.base import TopicSpec
from support.run.stack import EmbeddedBroker, wait_until
from support.spark.jobs import SCENARIOS
from support.spark.pipeline_process import PipelineProcess

pytestmark = [
    pytest.mark.timeout(480),
    pytest.mark.slow,
    pytest.mark.extensive(
        guard="tests/unit/streaming/test_pipelines.py::"
        "test_a_global_table_is_behind_by_what_no_batch_has_read"
    ),
]

NAME = "price-differences"
# The number of an invoice, the price in the list.
Difference = tuple[str, int | None]


@pytest.fixture
def process(
    broker: EmbeddedBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[PipelineProcess]:
    """The pipeline, not yet started, on topics of the test's own."""
    prefix = f"{request.node.name}."
    made = PipelineProcess(broker, tmp_path / "job", prefix, pipelines=NAME, trials=False)
    made.configure(SCENARIOS)
    yield made
    made.clean_up()


class Shop:
    """What tills would send: the list of prices, and lines of invoices."""

    def __init__(self, process: PipelineProcess) -> None:
        topics = process.topics
        process.bus.ensure_topics(
            [
                TopicSpec(topics.prices, 3, {"cleanup.policy": "compact"}),
                TopicSpec(f"{process.prefix}invoice-lines", 3, {}),
            ]
        )
        self._process, self._prices = process, topics.prices
        self._producer = process.bus.producer(linger_ms=0)
        self.sold = 0

    def price(self, product: str, cents: int | None) -> None:
        """Put a product's price into the list; None: take it out."""
        value = None if cents is None else json.dumps({"price": cents}).encode()
        self._producer.send_and_wait(self._prices, product.encode(), value)

    def sell(self, product: str, cents: int) -> str:
        """Sell a piece, and wait until the pipeline has read of it; return the invoice's number."""
        self.send(product, cents)
        wait_until(
            lambda: self._process.last(NAME).records >= self.sold, 60, f"see {self._process.log}"
        )
        return f"inv-{self.sold}"

    def send(self, product: str, cents: int) -> None:
        self.sold += 1
        line = {"invoice": f"inv-{self.sold}", "store": "store-1", "at": 1_790_000_000_000,
                "line": 1, "product": product, "price": cents}  # fmt: skip
        topic = f"{self._process.prefix}invoice-lines"
        self._producer.send_and_wait(topic, line["invoice"].encode(), json.dumps(line).encode())  # type: ignore[attr-defined]


def differences(process: PipelineProcess) -> set[Difference]:
    records = process.read([f"{process.prefix}{NAME}"])
    values = [json.loads(one.value or b"") for one in records]
    return {(value["invoice"], value["listed"]) for value in values}


def test_each_line_meets_the_table_as_it_is_then_and_through_a_kill(
    process: PipelineProcess,
) -> None:
    shop = Shop(process)
    for number in range(200):  # in each of the topic's partitions
        shop.price(f"product-{number}", 100)
    shop.price("product-1", 150)
    for number in range(200):
        shop.send(f"product-{number}", 100)
    process.start()
    # The first batch has the whole table, the newest record of each key.
    process.wait_for(NAME, "running")
    wait_until(lambda: process.last(NAME).records == 200, 120, f"see {process.log}")
    expected: set[Difference] = {("inv-2", 150)}
    assert differences(process) == expected

    shop.price("product-7", 300)
    shop.sell("product-7", 300)
    expected.add((shop.sell("product-7", 100), 300))
    shop.price("product-8", None)
    expected.add((shop.sell("product-8", 100), None))
    expected.add((shop.sell("product-of-nobody", 100), None))
    shop.sell("product-9", 100)
    assert differences(process) == expected

    running = process.started[-1]
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    shop.price("product-9", 99)
    shop.price("product-8", 100)
    for product in ("product-7", "product-8", "product-9"):
        shop.send(product, 100)
    expected |= {(f"inv-{shop.sold - 2}", 300), (f"inv-{shop.sold}", 99)}
    process.start()
    wait_until(lambda: process.last(NAME).records == shop.sold, 120, f"see {process.log}")
    assert differences(process) == expected


def test_how_far_the_table_has_been_read_is_told_and_what_does_not_fit(
    process: PipelineProcess,
) -> None:
    shop = Shop(process)
    shop.price("product-1", 100)
    shop.send("product-1", 100)
    process.start()
    wait_until(lambda: at_end(process), 120, f"see {process.log}")
    node = next(one for one in process.last(NAME).graph if one.name == process.topics.prices)
    assert (node.kind, node.detail) == ("source", "prices, global table")
    # No line is sold any more: the next tick has the table read.
    process.bus.producer().send_and_wait(process.topics.prices, b"product-1", b"{")
    wait_until(lambda: not at_end(process), 30, "the new record is behind nobody")
    assert process.last(NAME).behind == 0
    wait_until(lambda: at_end(process), 90, f"no tick has read the table, see {process.log}")
    wait_until(lambda: process.last(NAME).message, 10, "nobody is told of the record")
    assert process.last(NAME).message == (
        "prices: rows of the global table that do not fit its schema: 1"
    )
    assert shop.sell("product-1", 100) == "inv-2"
    assert differences(process) == {("inv-2", None)}


def at_end(process: PipelineProcess) -> bool:
    """Whether the table has been read to its end, as the pipeline's last report says."""
    if not process.reports(NAME):
        return False
    table = [one for one in process.last(NAME).assignments if one.topic == process.topics.prices]
    return bool(table) and not any(one.behind for one in table)
