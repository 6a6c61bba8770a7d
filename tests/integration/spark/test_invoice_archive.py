"""Lines of invoices from the tills' log to the archive, through `kill -9` and a reset."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from agents.demo.tills import Fleet, Invoice
from bus.base import TopicSpec
from streaming.pipelines.table_writer import day_of
from support.run.stack import ROOT, EmbeddedBroker, wait_until
from support.spark.jobs import SCENARIOS
from support.spark.pipeline_process import PipelineProcess

pytestmark = [
    pytest.mark.timeout(480),
    pytest.mark.slow,
    pytest.mark.extensive(
        guard="tests/integration/spark/test_table_writer.py::"
        "test_a_row_that_is_there_is_not_written_again_whoever_writes"
    ),
]

DAY_MS = 86_400_000
# An hour ago: no sale is of a time to come.
NOW = int(time.time() * 1000) - 3_600_000
Line = tuple[str, int, int]


@pytest.fixture
def process(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[PipelineProcess]:
    """The two pipelines, not yet started."""
    made = PipelineProcess(broker, tmp_path / "job", "archive.", trials=False)
    made.configure(SCENARIOS)
    made.pipelines = "invoice-lines,invoice-archive"
    yield made
    made.clean_up()


class Sold:
    """Invoices sent to the tills' topic, of two days, and what their lines come to."""

    def __init__(self, process: PipelineProcess) -> None:
        self._process, self._producer = process, process.bus.producer()
        self._sales = [Fleet(7, 500).run(NOW - back) for back in (DAY_MS, 0)]
        self.invoices: dict[str, Invoice] = {}
        self.resent = 0

    def send(self, number: int) -> None:
        """Send the next invoices of each day, with those that come again."""
        for day in self._sales:
            for _, invoice in islice(day, number):
                self.resent += invoice.invoice in self.invoices
                self.invoices[invoice.invoice] = invoice
                value = msgspec.json.encode(invoice)
                self._producer.send(self._process.topics.pos, invoice.store.encode(), value)
        assert self._producer.flush(20) == 0

    def lines(self) -> Counter[Line]:
        return Counter(
            (each.invoice, number, line.quantity * line.price)
            for each in self.invoices.values()
            for number, line in enumerate(each.lines, 1)
        )

    def revenue(self) -> Counter[str]:
        """By day, as the invoices themselves say."""
        days: Counter[str] = Counter()
        for each in self.invoices.values():
            days[day_of(each.at)] += each.amount
        return days


class Archive:
    """The table as its readers see it."""

    def __init__(self, process: PipelineProcess) -> None:
        self._url = process.data_dir / "invoices"
        self._checkpoint = process.data_dir / "pipelines/checkpoint/invoice-archive"

    def rows(self) -> list[dict[str, Any]]:
        if not DeltaTable.is_deltatable(str(self._url)):
            return []
        rows: list[dict[str, Any]] = DeltaTable(str(self._url)).to_pyarrow_table().to_pylist()
        return rows

    def lines(self) -> Counter[Line]:
        return Counter((row["invoice"], row["line"], row["amount"]) for row in self.rows())

    def check_whole(self) -> None:
        """Every file that a reader is told of is a whole one, and no row is there twice."""
        for file in DeltaTable(str(self._url)).file_uris():
            assert pq.read_table(file).num_rows > 0
        lines = self.lines()
        assert not [line for line, number in lines.items() if number > 1]

    def in_mid_batch(self) -> bool:
        """Whether a batch is under way: planned, and not committed."""
        planned, done = (
            {path.name for path in self._checkpoint.glob(f"epoch-*/{name}/[0-9]*")}
            for name in ("offsets", "commits")
        )
        return bool(planned - done)


def kill(process: PipelineProcess) -> None:
    """End the newest process as `kill -9` does, with its JVM."""
    running = process.started[-1]
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()


def sell_through_kills(process: PipelineProcess, sold: Sold, archive: Archive) -> None:
    """Kill the pipelines in the middle of a batch, and after one; each line is there once."""
    sold.send(1_500)
    process.start()
    wait_until(archive.in_mid_batch, 180, f"no batch began, see {process.log}")
    kill(process)
    sold.send(300)
    process.start()
    wait_until(archive.rows, 180, f"the archive is empty, see {process.log}")
    kill(process)
    archive.check_whole()
    sold.send(300)
    process.start()
    wait_until(lambda: archive.lines() == sold.lines(), 180, f"lines differ, see {process.log}")
    archive.check_whole()


def test_each_line_is_in_the_archive_once_through_kills_and_a_reset(
    process: PipelineProcess,
) -> None:
    process.bus.ensure_topics([TopicSpec(*process.topics.invoices())])
    sold, archive = Sold(process), Archive(process)
    sell_through_kills(process, sold, archive)
    assert sold.resent > 5
    assert sum_by_day(archive) == sold.revenue()
    before = process.written("invoice-lines")
    assert process.ask("invoice-lines", "reset").outcome == "done"
    assert process.ask("invoice-archive", "reset").outcome == "done"
    again = before + sum(sold.lines().values())
    wait_until(lambda: process.written("invoice-lines") == again, 60, "not all came again")
    wait_until(lambda: process.last("invoice-archive").records == again, 90, "not all was read")
    assert archive.lines() == sold.lines()


class EventLog:
    """What Spark logs of the tasks of its executors."""

    def __init__(self, folder: Path) -> None:
        self._events = folder / "events"
        self._events.mkdir()
        conf = folder / "spark.conf"
        conf.write_text(
            f"spark.eventLog.enabled true\nspark.eventLog.dir {self._events.as_uri()}\n"
            "spark.eventLog.rolling.enabled false\nspark.eventLog.compress false\n"
        )
        self.variables = {"TALLYBOARD_SPARK_CONF": str(conf)}

    def writers(self) -> set[str]:
        """The executors whose tasks have written files, in any of the processes.

        The last step of a batch writes them, in Python, and returns their names.
        """
        lines = [line for path in self._events.iterdir() for line in whole_lines(path)]
        tasks = [json.loads(line) for line in lines if "SparkListenerTaskEnd" in line]
        return {
            task["Task Info"]["Executor ID"]
            for task in tasks
            if task["Task Type"] == "ResultTask"
            and any(
                each["Name"] == "data returned from Python workers" and int(each["Update"])
                for each in task["Task Info"]["Accumulables"]
            )
        }


def whole_lines(path: Path) -> list[str]:
    """The lines of a file that may end in the middle of one."""
    return path.read_text().rpartition("\n")[0].splitlines()


def sell_until_both_write(sold: Sold, archive: Archive, events: EventLog) -> None:
    """Sell more until both executors have written: the files of a batch may be one's alone."""
    for _ in range(12):
        if events.writers() == {"0", "1"}:
            return
        sold.send(50)
        wait_until(lambda: archive.lines() == sold.lines(), 180, "lines differ")
    assert events.writers() == {"0", "1"}


def test_two_executors_write_the_files_through_a_kill_and_the_trends_read_them(
    process: PipelineProcess, tmp_path: Path
) -> None:
    folder = tmp_path / "spark"
    folder.mkdir()
    events = EventLog(folder)
    master = {"TALLYBOARD_PIPELINES_MASTER": "local-cluster[2,1,1024]"}
    process.variables = master | events.variables
    process.bus.ensure_topics([TopicSpec(*process.topics.invoices())])
    sold, archive = Sold(process), Archive(process)
    sell_through_kills(process, sold, archive)
    sell_until_both_write(sold, archive, events)
    kill(process)
    done = subprocess.run(
        [sys.executable, "manage.py", "invoice-trends", "--days", "3", "--json"],
        cwd=ROOT, env=os.environ | process.environment(),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    sums = json.loads(done.stdout)
    assert {day["day"]: day["revenue"] for day in sums["days"]} == sold.revenue()


def sum_by_day(archive: Archive) -> Counter[str]:
    days: Counter[str] = Counter()
    for row in archive.rows():
        days[row["day"]] += row["amount"]
    return days
