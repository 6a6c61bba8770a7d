"""The job on several executors, and beside another: each has its part, and the states are the
fold's."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from domain.records import Report
from support.histories.judge import assert_equal_to_fold
from support.run.stack import EmbeddedBroker, wait_until
from support.spark.jobs import SCENARIOS, Job, Load
from wire.job import decode_heartbeat
from wire.source import encode_report

pytestmark = [pytest.mark.timeout(480), pytest.mark.slow]


SITES, ORDERS = SCENARIOS.split("\n\n")


@pytest.fixture
def job(make_job: Callable[..., Job]) -> Job:
    """A job of two executors."""
    return make_job(master="local-cluster[2,2,1024]")


@pytest.fixture
def apart(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[list[Job]]:
    """A job for each of two scenarios, on one broker, not yet started."""
    jobs = [Job(broker, tmp_path / name, f"{name}.", batch_s=5) for name in ("sites", "orders")]
    for each, text in zip(jobs, (SITES, ORDERS), strict=True):
        each.configure(text)
    yield jobs
    for each in jobs:
        each.clean_up()


def owners(job: Job) -> dict[str, str]:
    """Return which executor sent the newest heartbeat of each bucket."""
    beats = [decode_heartbeat(message.value) for message in job.read([job.topics.buckets])]
    return {beat.bucket: beat.executor for beat in beats}


@pytest.mark.extensive(
    guard="tests/unit/streaming/test_streaming_parts.py::test_buckets_spread_evenly_over_the_state_partitions"
)
def test_two_executors_share_the_buckets_and_the_states_are_the_folds(job: Job) -> None:
    load = Load(job, 3)
    job.start()
    load.send(300)
    load.finish()
    assert len(owners(job)) == 4
    assert len(set(owners(job).values())) == 2, owners(job)
    job.clean_up()
    assert_equal_to_fold(job)


@pytest.mark.extensive(
    guard="tests/unit/streaming/test_streaming_parts.py::test_on_one_machine_spark_listens_there_alone"
)
def test_the_working_copy_of_the_state_lies_in_the_directory_that_is_set(job: Job) -> None:
    load = Load(job, 4)
    job.start()
    load.send(100)
    load.finish()
    checkpoint = job.data_dir / "checkpoint"
    wait_until(lambda: list(checkpoint.rglob("*.zip")), 60, "no state was committed")
    spark = job.data_dir / "spark"
    wait_until(lambda: list(spark.rglob("*.sst")), 60, "no table of RocksDB lies there")


def report(job: Job, scenario: str, asset: str, state: str) -> None:
    """Send a report to a job's own topic."""
    value = encode_report(Report(asset, "w1", state))
    job.bus.producer().send_and_wait(job.topics.reports(scenario), asset.encode(), value)


def shown(job: Job, scenario: str) -> dict[str, str]:
    """Return the newest state of each asset that the job has written."""
    records = job.read([job.topics.states(scenario)])
    states = {m.key: json.loads(m.value)["state"] for m in records if m.key and m.value}
    return {asset.decode(): state for asset, state in states.items()}


@pytest.mark.extensive(
    guard="tests/integration/spark/test_job.py::test_the_job_is_the_fold_over_its_log"
)
def test_a_scenario_with_a_job_of_its_own_goes_on_without_the_other(apart: list[Job]) -> None:
    sites, orders = apart
    process = sites.start()
    orders.start()
    report(sites, "sites", "shop", "attack")
    report(orders, "orders", "order-1", "received")
    wait_until(lambda: shown(sites, "sites") == {"shop": "attack"}, 120, f"see {sites.log}")
    wait_until(lambda: shown(orders, "orders") == {"order-1": "received"}, 120, f"see {orders.log}")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    report(orders, "orders", "order-2", "received")
    wait_until(lambda: "order-2" in shown(orders, "orders"), 30, "the other job stands still")
