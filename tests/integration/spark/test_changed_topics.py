"""What outsiders do to a source topic: create it again, add partitions, delete what is old."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from bus.base import ConsumerRecord
from domain.records import LOG_REPLACED
from domain.version import Version
from ops.leftovers import descendants
from support.histories.judge import assert_equal_to_fold
from support.run.stack import wait_until
from support.spark.jobs import SCENARIOS, Job, Load, alive
from wire.job import Control, encode

pytestmark = [pytest.mark.timeout(480), pytest.mark.slow]

AGENTS = ("w1", "w2", "w3")
LASTING = SCENARIOS.replace('vote_lifetime = "3s"', 'vote_lifetime = "10m"')
"""Votes live for longer than a job takes to start."""


def admin(job: Job) -> AdminClient:
    return AdminClient({"bootstrap.servers": job.broker.bootstrap})


def report(job: Job, asset: str, state: str) -> None:
    """Report as an adopter's first program does: with the client's own partitioner."""
    producer = Producer({"bootstrap.servers": job.broker.bootstrap})
    for agent in AGENTS:
        value = json.dumps({"type": "report", "agent": agent, "state": state}).encode()
        producer.produce(job.topics.reports("sites"), value, asset.encode())
    assert producer.flush(20) == 0


def newest(job: Job) -> dict[str, ConsumerRecord]:
    """The record of each site that readers show: that of the highest version."""
    shown: dict[str, ConsumerRecord] = {}
    for message in job.read([job.topics.states("sites")]):
        asset = (message.key or b"").decode()
        if asset not in shown or version(message) >= version(shown[asset]):
            shown[asset] = message
    return shown


def version(message: ConsumerRecord) -> Version:
    return Version.parse(dict(message.headers)["version"].decode())


def states(job: Job) -> dict[str, str]:
    """The state that readers show of each site; of one that was purged its cause."""
    return {
        asset: json.loads(message.value)["state"]
        if message.value
        else json.loads(dict(message.headers)["cause"])["type"]
        for asset, message in newest(job).items()
    }


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    assert process.wait(30) == 0


def statuses(job: Job) -> list[str]:
    """What its query has reported of itself."""
    return [each.status for each in job.query_reports(job.engine or "kernel") if not each.answer]


def test_any_client_may_report_into_any_partition_and_none_is_lost(job: Job) -> None:
    """With the client's default partitioner, and while an admin adds a partition."""
    job.configure(LASTING)
    process, load = job.start(), Load(job, 3)
    load.finish()
    before = [f"before-{n}" for n in range(30)]
    after = [f"after-{n}" for n in range(30)]
    for asset in before:
        report(job, asset, "attack")
    topic, client = job.topics.reports("sites"), admin(job)
    client.create_partitions([NewPartitions(topic, 3)])[topic].result(20)
    for asset in after:
        report(job, asset, "attack")

    def red() -> bool:
        shown = states(job)
        return all(shown.get(asset) == "attack" for asset in (*before, *after))

    wait_until(red, 60, f"not every site is red, see {job.log}")
    load.send(300)
    load.finish()
    stop(process)
    assert_equal_to_fold(job)


@pytest.mark.extensive(
    guard="tests/unit/streaming/test_log_identity.py::"
    "test_the_job_waits_however_long_the_new_log_is"
)
@pytest.mark.parametrize("engine", ["kernel", "python"])
def test_a_topic_that_was_created_again_is_waited_for_and_then_read(
    make_job: Callable[..., Job], engine: str
) -> None:
    job = make_job(engine=engine)
    job.configure(LASTING)
    process, load = job.start(), Load(job, 4)
    for asset in ("old", "both"):
        report(job, asset, "clear")
    load.finish()
    topic, client = job.topics.reports("sites"), admin(job)
    client.delete_topics([topic])[topic].result(20)
    wait_until(lambda: topic not in client.list_topics(timeout=10).topics, 20, "not deleted")
    job.configure(LASTING)
    for asset in ("new", "both"):
        report(job, asset, "attack")
    for _ in range(20):  # longer than the old one
        load.send(100)
    wait_until(lambda: statuses(job)[-1] == "waiting", 90, f"it does not wait, see {job.log}")
    assert states(job)["both"] == "clear"
    record = Control("1", engine, "rebuild", "ada", "a drill", {})
    job.bus.producer().send_and_wait(job.topics.control, engine.encode(), encode(record))

    def read() -> bool:
        shown = states(job)
        return [shown.get(asset) for asset in ("old", "new", "both")] == [
            LOG_REPLACED,
            "attack",
            "attack",
        ]

    wait_until(read, 90, f"the new log is not shown, see {job.log}")
    stop(process)


@pytest.mark.extensive(
    guard="tests/unit/streaming/test_streaming_quarantine.py::"
    "test_what_retention_has_deleted_is_not_looked_through"
)
def test_a_job_that_was_killed_twice_starts_behind_what_retention_has_deleted(job: Job) -> None:
    load = Load(job, 5)
    process = job.start()
    load.finish()
    load.send(300)
    load.finish()
    stop(process)
    for _ in range(3):  # at one place of the log
        before, process = statuses(job).count("running"), job.start()
        wait_until(lambda n=before: statuses(job).count("running") > n, 90, "not started")  # type: ignore[misc]
        below = descendants(process.pid)
        process.kill()
        process.wait()
        wait_until(lambda pids=below: not alive(pids), 10, "JVM outlives its driver")  # type: ignore[misc]
    client, topics = admin(job), [job.topics.reports(name) for name in job.scenarios()]
    for place, (_, end) in job.bus.offsets(topics).items():
        delete_before(client, place, end)
    process = job.start()
    load.finish()
    stop(process)


def delete_before(client: AdminClient, place: tuple[str, int], offset: int) -> None:
    """Delete a partition's records before an offset, as retention does."""
    from confluent_kafka import TopicPartition

    for future in client.delete_records([TopicPartition(*place, offset)]).values():
        future.result(20)
