"""A slow stage's lag grows; before a topic of eight partitions the fast stage's stays bounded."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from domain.records import Report
from support.run.stack import EmbeddedBroker, wait_until
from support.spark.jobs import SCENARIOS
from support.spark.pipeline_process import PipelineProcess
from wire.source import encode_report

pytestmark = [
    pytest.mark.timeout(480),
    pytest.mark.slow,
    pytest.mark.extensive(
        guard="tests/integration/spark/test_pipelines.py::"
        "test_totals_stay_right_from_one_slot_to_three_and_through_kills"
    ),
]

RATE = 100
MEASURED_S = 30
# So many reports of an order follow each other: a stage that gathered updates would lose some.
REPEATS = 5
# Reports, two seconds apart, by which the lag is judged: Java is slow until it is warm.
IN_A_ROW = 5
# The stages share two cores with whatever else runs. In one stage the lag grows past any bound.
BOUND_MS = 5_000


@pytest.fixture
def process(
    broker: EmbeddedBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[PipelineProcess]:
    """The shipped pipelines, on reports of orders in two partitions that no other test wrote."""
    made = PipelineProcess(broker, tmp_path / "job", f"{request.node.name[:60]}.", trials=False)
    made.configure(SCENARIOS)
    yield made
    made.clean_up()


class Orders(threading.Thread):
    """Sends a hundred reports a second, several of each order, until it is ended."""

    def __init__(self, process: PipelineProcess) -> None:
        super().__init__(daemon=True)
        self._topic = process.topics.reports("orders")
        self._producer, self.ended = process.bus.producer(linger_ms=0), threading.Event()
        self.sent = 0

    def run(self) -> None:
        for number in itertools.count():
            if self.ended.wait(1 / RATE):
                break
            order = f"order-{number // REPEATS}"
            report = encode_report(Report(order, f"station-{number % 9}", "received"))
            self._producer.send(self._topic, order.encode(), report)
            self._producer.poll(0)
            self.sent += 1
        assert self._producer.flush(20) == 0

    def end(self) -> None:
        """Send no more, and wait until the broker has all."""
        self.ended.set()
        self.join()


def test_in_one_stage_of_two_partitions_the_lag_grows(
    process: PipelineProcess, request: pytest.FixtureRequest
) -> None:
    process.pipelines = "station-lookup-direct"
    orders = begin(process, "station-places-direct")
    request.addfinalizer(orders.end)
    wait_until(lambda: orders.sent > RATE * MEASURED_S, 120, "too few were sent")
    behind = [report.behind for report in process.reports("station-lookup-direct")]
    assert behind[-1] > 0.2 * orders.sent, "of a hundred a second it does forty"
    assert behind[-1] > behind[len(behind) // 2]


def test_before_a_topic_of_eight_partitions_the_fast_stage_keeps_up(
    process: PipelineProcess, request: pytest.FixtureRequest
) -> None:
    process.pipelines = "station-visits,station-lookup"
    topic = "pipelines.station-places"
    orders = begin(process, "station-places")
    request.addfinalizer(orders.end)
    wait_until(lambda: orders.sent > RATE * MEASURED_S, 120, "too few were sent")

    def in_time() -> bool:
        lags = [report.behind_ms for report in process.reports("station-visits")[-IN_A_ROW:]]
        return max(lags) < BOUND_MS

    wait_until(in_time, 120, "the fast stage's lag does not stay bounded")
    lags = sorted(report.behind_ms for report in process.reports("station-visits")[-30:])
    print(f"the fast stage's lag: median {lags[len(lags) // 2]} ms, longest {lags[-1]} ms")
    orders.end()
    wait_until(lambda: process.written(topic) >= orders.sent, 90, "places are missing")
    places = process.read([process.prefix + topic])
    assert len({dict(one.headers)["id"] for one in places}) == orders.sent
    assert all(b"hall" in (one.value or b"") for one in places)
    tasks = {one.task for one in process.last("station-lookup").assignments}
    assert len(tasks) == 8, sorted(tasks)


def begin(process: PipelineProcess, topic: str) -> Orders:
    """Start the process, and orders once it looks stations up."""
    process.start()
    for name in process.pipelines.split(","):
        process.wait_for(name, "running")
    orders = Orders(process)
    orders.start()
    wait_until(
        lambda: process.written(f"pipelines.{topic}"), 60, "no place was looked up"
    )  # Python has begun
    return orders
