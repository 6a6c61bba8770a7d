"""A batch that ends every JVM which reads it: the job sets it aside by itself, and goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bombs import MIB, Big, batch, send
from jobs import SCENARIOS, Job, Load
from judging import assert_equal_to_fold, set_aside

from domain.records import Report
from stack import EmbeddedBroker
from wire.job import decode_progress
from wire.partitioner import partition_of
from wire.source import encode_report

pytestmark = pytest.mark.slow

OPEN = {"compression.type": "producer", "max.message.bytes": "100000000"}
"""Settings of a topic that takes a batch as its sender packed it."""

GOOD = [(b"asset", encode_report(Report("asset", "bystander", "attack")))]
PARTITION = partition_of(b"asset", 2)


@pytest.fixture
def job(broker: EmbeddedBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Job]:
    """A job with little memory, whose topics take any batch."""
    prefix = f"bombs-{abs(hash(request.node.name)) % 10**8}."
    made = Job(broker, tmp_path / "job", prefix, memory="512m", batch_s=5, source_config=OPEN)
    made.configure(SCENARIOS)
    yield made
    made.clean_up()


def drop(job: Job, codec: str, size: int) -> int:
    """Have a batch with a bomb between two good records in the log; its first offset."""
    topic = job.topics.reports("sites")
    job.bus.alter(topic, OPEN)
    data = batch(codec, [*GOOD, Big(b"asset", size), *GOOD])
    code, offset = send(job.broker.bootstrap, topic, PARTITION, data)
    assert code == 0
    return offset


def supervise(job: Job, load: Load, timeout_s: float) -> int:
    """Start the job as often as it dies, until it has come to the log's end; how often it died."""
    end, died = time.monotonic() + timeout_s, 0
    process = job.started[-1] if job.started else job.start()
    while time.monotonic() < end:
        try:
            load.finish(5)
        except AssertionError:
            if process.poll() is not None:
                died += 1
                process = job.start()
        else:
            process.terminate()
            process.wait(10)
            return died
    raise AssertionError(f"it does not come to the log's end, see {job.log}")


def check(job: Job, first: int, codec: str) -> None:
    """The batch is a dead letter, is told of, and everything else is as the fold has it."""
    (letter,) = set_aside(job)
    assert letter["topic"] == job.topics.reports("sites")
    assert (letter["partition"], letter["span"]) == (PARTITION, (first, first + 2))
    assert (letter["codec"], letter["records"]) == (codec, 3)
    told = decode_progress(job.read([job.topics.progress])[-1].value)
    assert told.asides == {f"sites/{PARTITION}": ((first, first + 2),)}
    assert_equal_to_fold(job)


@pytest.mark.timeout(420)
def test_a_running_job_gets_past_a_bomb(job: Job) -> None:
    load = Load(job, 1)
    load.send(100)
    job.start()
    load.finish()
    first = drop(job, "zstd", 700 * MIB)
    load.send(100)
    assert supervise(job, load, 300) >= 2
    check(job, first, "zstd")


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("size", [50, 200, 1000])
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_job_that_begins_gets_past_a_bomb(job: Job, codec: str, size: int) -> None:
    """One of 50 MB need not end it: then it is a record that is too large, like any other."""
    load = Load(job, 2)
    load.send(1000)
    first = drop(job, codec, size * MIB)
    load.send(100)
    died = supervise(job, load, 600)
    if died:
        check(job, first, codec)
    else:
        assert size == 50
        assert set_aside(job) == []
        assert_equal_to_fold(job)
