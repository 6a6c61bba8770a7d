"""Views of products are counted once each, whatever is killed; which counts go out, and when."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StreamingQuery

from agents.demo.visitors import views
from bus.base import ConsumerRecord, TopicSpec
from pipelines.product_counts import MILESTONES, product_counts
from support.run.stack import EmbeddedBroker, wait_until
from support.spark.jobs import SCENARIOS
from support.spark.pipeline_process import PipelineProcess

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]

START = 1_790_000_000_000
SCHEMA = "value struct<product: string, at: long>, partition int, offset long, timestamp double"


def stream(spark: SparkSession, folder: Path, *batches: str) -> DataFrame:
    """A stream of one file for each batch; a batch is text of which each letter is a view, a
    second after the one before it."""
    folder.mkdir()
    second = 0
    for number, products in enumerate(batches):
        lines = []
        for product in products:
            at = START + 1000 * second
            place = {"partition": 0, "offset": second, "timestamp": at / 1000}
            lines.append(json.dumps({"value": {"product": product, "at": at}, **place}))
            second += 1
        file = folder / f"{number}.json"
        file.write_text("\n".join(lines))
        os.utime(file, (number, number))  # Spark takes the oldest first.
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    rows = reader.json(str(folder))
    return rows.withColumn("timestamp", rows["timestamp"].cast("timestamp"))


class Run(NamedTuple):
    """A query whose result is gathered in a table."""

    session: SparkSession
    query: StreamingQuery

    def rows(self) -> list[Row]:
        """What has come out so far."""
        assert self.query.isActive, self.query.exception()
        return self.session.table("counts").collect()

    def ids(self) -> list[str]:
        return [row["id"] for row in self.rows()]

    @property
    def batches(self) -> int:
        """How many batches there were."""
        progress = self.query.lastProgress
        return progress["batchId"] + 1 if progress else 0


@contextmanager
def running(spark: SparkSession, folder: Path, which: str, *batches: str) -> Iterator[Run]:
    """A query of these batches of views; which: the counts that go out."""
    own = spark.newSession()
    own.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    frame = product_counts(stream(own, folder / "views", *batches), which)
    writer = frame.writeStream.format("memory").queryName("counts").outputMode("update")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(processingTime="100 milliseconds").start()
    yield Run(own, query)
    query.stop()


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Run]:
    """Two batches of views; which counts go out is the parameter."""
    with running(spark, tmp_path, request.param, "aab", "a") as made:
        yield made


@pytest.mark.parametrize("run", ["changed"], indirect=True)
def test_changed_counts_go_out_once(run: Run) -> None:
    wait_until(lambda: "a/3" in run.ids(), 120, "the last count did not come")
    more = run.batches + 3
    wait_until(lambda: run.batches >= more, 60, "no batch without views")
    assert sorted(run.ids()) == ["a/2", "a/3", "b/1"]
    [row] = [row for row in run.rows() if row["id"] == "a/3"]
    assert row["key"] == "a"
    assert json.loads(row["value"]) == {"product": "a", "count": 3, "at": START + 3_000}


@pytest.mark.parametrize("run", ["every"], indirect=True)
def test_every_count_goes_out_again_and_again(run: Run) -> None:
    wait_until(lambda: run.ids().count("a/3") >= 3, 120, "the table did not go out again")
    assert run.ids().count("b/1") >= 3
    assert set(run.ids()) <= {"a/2", "a/3", "b/1"}


@pytest.mark.parametrize("run", ["min=3"], indirect=True)
def test_counts_below_the_least_stay_in(run: Run) -> None:
    wait_until(lambda: run.ids().count("a/3") >= 3, 120, "the count did not go out")
    assert set(run.ids()) == {"a/3"}


def test_who_reaches_a_thousand_is_named_once_with_the_time_of_that_view(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = "a" * 600 + "b", "a" * 1_500, "a"
    with running(spark, tmp_path, "changed", *batches) as run:
        wait_until(lambda: "a/2101" in run.ids(), 120, "the last count did not come")
        [row] = [row for row in run.rows() if row["topic"] == MILESTONES]
    # The b was viewed as well, a second before the 601st a.
    assert json.loads(row["value"]) == {"product": "a", "count": 1_000, "at": START + 1_000_000}
    assert (row["key"], row["id"]) == ("a", "a/1000")


# ---- the process, killed ------------------------------------------------------------------------


@pytest.fixture
def process(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[PipelineProcess]:
    """The process, not yet started; its topics are there."""
    made = PipelineProcess(
        broker, tmp_path / "job", "counts.", pipelines="product-counts", trials=False
    )
    made.configure(SCENARIOS)
    made.bus.ensure_topics([TopicSpec(*made.topics.views_of_products())])
    yield made
    made.clean_up()


class Visitors:
    """Views that are sent, and how many there were of each product."""

    def __init__(self, process: PipelineProcess) -> None:
        self._producer, self._topic = process.bus.producer(), process.topics.product_views
        self._views = views(1, START, 10)
        self.seen: Counter[str] = Counter()

    def send(self, number: int) -> None:
        """Send the next views, and wait until they are in the log."""
        for at, product in islice(self._views, number):
            value = json.dumps({"product": product, "at": at}).encode()
            self._producer.send(self._topic, product.encode(), value)
            self.seen[product] += 1
        assert self._producer.flush(20) == 0


def counted(process: PipelineProcess) -> dict[str, int]:
    """The newest count of each product, as the topic has them."""
    newest = {one.key: json.loads(one.value or b"") for one in output(process)}
    return {value["product"]: value["count"] for value in newest.values()}


def output(process: PipelineProcess) -> list[ConsumerRecord]:
    return process.read([process.topics.product_counts])


def kill(process: PipelineProcess) -> None:
    """End the newest process as `kill -9` does."""
    running = process.started[-1]
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()


@pytest.mark.extensive(
    guard="tests/integration/spark/test_product_counts.py::test_changed_counts_go_out_once"
)
def test_each_view_counts_once_through_kills(process: PipelineProcess) -> None:
    visitors, milestones = Visitors(process), process.topics.product_milestones
    visitors.send(500)
    process.start()
    for number in (2_000, 3_000):
        wait_until(lambda: output(process), 120, f"no counts, see {process.log}")
        visitors.send(number)
        kill(process)
        visitors.send(100)
        process.start()
    wait_until(lambda: counted(process) == visitors.seen, 120, f"see {process.log}")
    again = process.written("product-counts") + 3 * len(visitors.seen)
    wait_until(lambda: process.written("product-counts") >= again, 60, "it goes out but once")
    assert counted(process) == visitors.seen
    milestone_records = [json.loads(one.value or b"") for one in process.read([milestones])]
    assert {each["product"] for each in milestone_records} == {
        p for p, n in visitors.seen.items() if n >= 1_000
    }
    assert {each["count"] for each in milestone_records} == {1_000}
    values: dict[bytes, bytes | None] = {}
    for one in output(process):
        id_ = dict(one.headers)["id"]
        assert values.setdefault(id_, one.value) == one.value, "an id is one record's alone"
    assert "[views] product-" in process.log.read_text()
