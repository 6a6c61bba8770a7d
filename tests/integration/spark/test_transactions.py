"""Whoever writes in a transaction, and leaves it open, stops no scenario."""

from __future__ import annotations

from collections.abc import Callable

import confluent_kafka as ck
import pytest

from domain.records import Report
from domain.scenario import Scenario
from support.histories.judge import assert_equal_to_fold
from support.run.stack import wait_until
from support.spark.jobs import Job, Load
from wire.partitioner import partition_of
from wire.sink import read_state
from wire.source import encode_report

pytestmark = [
    pytest.mark.timeout(480),
    pytest.mark.slow,
    pytest.mark.extensive(
        guard="tests/integration/kafka/test_transactions.py::"
        "test_a_reader_reads_past_an_open_transaction"
    ),
]

ENGINES = [("kernel", None), ("kernel", "micro-batch"), ("python", None)]


@pytest.fixture(params=ENGINES, ids=lambda each: "-".join(filter(None, each)))
def job(make_job: Callable[..., Job], request: pytest.FixtureRequest) -> Job:
    """A job of each engine."""
    engine, trigger = request.param
    return make_job(engine=engine, trigger=trigger)


def key_of(scenario: Scenario, partition: int, prefix: str) -> str:
    """An asset that belongs on this partition."""
    names = (f"{prefix}-{n}.example" for n in range(1000))
    return next(n for n in names if partition_of(n.encode(), scenario.partitions) == partition)


def hold(job: Job, scenario: Scenario) -> ck.Producer:
    """Leave a transaction open in each partition of a scenario's reports."""
    topic = job.topics.reports(scenario.name)
    producer = ck.Producer(
        {
            "bootstrap.servers": job.broker.bootstrap,
            "transactional.id": job.prefix,
            "transaction.timeout.ms": 900_000,
            "partitioner": "murmur2_random",
        }
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    for partition in range(scenario.partitions):
        report = Report(key_of(scenario, partition, "held"), "holder", "attack")
        producer.produce(topic, encode_report(report), key=report.asset.encode())
    assert producer.flush(20) == 0
    return producer


def test_an_open_transaction_stops_no_scenario(job: Job) -> None:
    scenario = job.scenarios()["sites"]
    process = job.start()
    load = Load(job, 1)
    load.send(50)
    load.finish()
    producer = hold(job, scenario)
    load.send(50)
    load.finish()  # answered behind the open transaction, in each partition

    def states() -> set[str]:
        messages = job.read([job.topics.states("sites")])
        return {m.key.decode() for m in messages if m.key and read_state(m.key, m.value, m.headers)}

    held = {key_of(scenario, partition, "held") for partition in range(scenario.partitions)}
    wait_until(lambda: held <= states(), 20, "what is in the open transaction was not applied")

    producer.abort_transaction(20)
    load.send(50)
    load.finish()
    process.terminate()
    assert process.wait(20) == 0
    # The fold over the same log, what was aborted with it, gives the same states and versions.
    assert_equal_to_fold(job)
