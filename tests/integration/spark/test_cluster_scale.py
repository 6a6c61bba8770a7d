"""A cluster as an admin runs one: three brokers, a million assets, more and fewer partitions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from bus.base import Delivered, Outgoing
from domain.records import Report
from streaming.fold.epochs import start_of
from support.histories.judge import assert_equal_to_fold
from support.run.stack import ROOT, wait_until
from support.spark.jobs import Job, Load
from support.spark.storages.hdfs import MiniHdfs
from support.spark.topology import Feed, Topology, scenario
from wire.job import decode_heartbeat
from wire.source import encode_report

pytestmark = [pytest.mark.timeout(1800), pytest.mark.slow]

ASSETS = 1_000_000
PORTION = 100_000
BUCKETS = {f"sites/{at}" for at in range(8)}


def await_states(job: Job, least: int) -> None:
    """Return once there are so many records of states."""
    wait_until(lambda: job.state_records() >= least, 150, f"no states, see {job.log}")


def executors(job: Job) -> dict[str, set[str]]:
    """The buckets of each executor, by their heartbeats."""
    held: dict[str, set[str]] = defaultdict(set)
    for record in job.read([job.topics.buckets]):
        beat = decode_heartbeat(record.value)
        if beat.executor:
            held[beat.executor].add(beat.bucket)
    return held


def is_divided(job: Job, number: int) -> bool:
    """Return whether the newest epoch has so many state partitions, and Spark has made them."""
    return (start_of(job.epoch()).state_partitions, job.stores()) == (number, set(range(number)))


@pytest.mark.long
def test_a_million_assets_on_two_executors_equal_the_fold(open_topology: Any) -> None:
    cluster: Topology = open_topology(workers=(4, 4), brokers=3)
    job = cluster.job("million.", scenario(partitions=8), batch_s=5, memory="2g")
    producer = job.bus.producer(linger_ms=5)
    for begin in range(0, ASSETS, PORTION):
        names = (f"asset-{number}" for number in range(begin, begin + PORTION))
        values = ((name.encode(), encode_report(Report(name, "w1", "odd"))) for name in names)
        reports = (Outgoing(job.topics.reports("sites"), *each) for each in values)
        outcomes = producer.send_all(reports, 120)
        assert all(isinstance(each, Delivered) for each in outcomes)
    producer.close()
    job.start()
    Load(job, 1).finish(900)
    assert is_divided(job, 8)
    held = executors(job)
    assert held.keys() == {"0", "1"}
    assert set.union(*held.values()) == BUCKETS
    job.clean_up()
    judged = assert_equal_to_fold(job)
    assert len({key.asset for key in judged.emissions}) >= ASSETS


class Board:
    """The product's database beside a job, kept by its materialiser."""

    def __init__(self, job: Job) -> None:
        self._job, self._environment = job, os.environ | job.environment()

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `manage.py` to its end."""
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=self._environment, capture_output=True, text=True, check=False
        )

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Run the materialiser meanwhile."""
        prepared = self.manage("prepare")
        assert prepared.returncode == 0, prepared.stderr
        with (self._job.data_dir / "materialiser.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "manage.py", "materialise"],
                cwd=ROOT, env=self._environment, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            yield
        finally:
            process.kill()
            process.wait()


@pytest.mark.long
def test_the_state_partitions_change_on_a_cluster_under_load(open_topology: Any) -> None:
    """4, then 8, then 2: each record is the fold's, in order of versions, and so is the board."""
    cluster: Topology = open_topology(workers=(4, 4), brokers=3)
    job = cluster.job("divided.", scenario(partitions=8), batch_s=5)
    board = Board(job)
    with board.kept(), Feed(job):
        for number in (4, 8, 2):
            job.state_partitions = number
            process = job.start()
            wait_until(partial(is_divided, job, number), 150, f"see {job.log}")
            await_states(job, job.state_records() + 1_000)
            if number == 8:
                process.kill()
                job.clean_up()
            else:
                process.terminate()
                assert process.wait(30) == 0
        job.start()
        wait_until(lambda: job.query_reports()[-1].status == "running", 150, f"see {job.log}")
    Load(job, 1).finish()
    with board.kept():
        for fold in ("--kernel", "--plain"):
            reconciled = board.manage("reconcile", fold)
            assert reconciled.returncode == 0, reconciled.stdout + reconciled.stderr
    job.clean_up()
    judged = assert_equal_to_fold(job)
    assert {key.version.epoch for key in judged.emissions} == {1}


@pytest.mark.extensive(
    guard="tests/unit/streaming/test_storage.py::test_what_is_broken_off_leaves_the_old_content"
)
def test_a_cluster_whose_checkpoints_are_at_a_url(open_topology: Any, hdfs: MiniHdfs) -> None:
    """Executors share nothing with the driver but the URL; one of them is killed."""
    cluster: Topology = open_topology(workers=(4, 4), blind=1)
    keys = cluster.folder / "command-keys.json"
    job = cluster.job(
        "url.",
        scenario(partitions=8),
        batch_s=5,
        checkpoint=f"{hdfs.url}/cluster",
        variables={"TALLYBOARD_COMMAND_KEYS": str(keys)},
    )
    job.start()
    with Feed(job):
        await_states(job, 1_000)
        wait_until(lambda: executors(job).keys() >= {"0", "1"}, 60, f"one idles, see {job.log}")
        os.kill(cluster.workers[1].executors[0], signal.SIGKILL)
        await_states(job, job.state_records() + 1_000)
    Load(job, 1).finish()
    job.clean_up()
    assert_equal_to_fold(job)
