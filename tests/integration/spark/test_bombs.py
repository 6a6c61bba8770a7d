"""A batch that ends every JVM which reads it: the job sets it aside by itself, and goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from domain.records import Report
from domain.version import Version
from support.histories.judge import Content, assert_equal_to_fold, judge_log, set_aside
from support.kafka.bombs import MIB, Big, batch, send
from support.run.stack import wait_until
from support.spark.jobs import Job, Load
from wire.job import Control, JobAnswer, decode_progress, encode
from wire.partitioner import partition_of
from wire.source import encode_report

pytestmark = pytest.mark.slow

OPEN = {"compression.type": "producer", "max.message.bytes": "100000000"}
"""Settings of a topic that takes a batch as its sender packed it."""

GOOD = [(b"asset", encode_report(Report("asset", "bystander", "attack")))]
PARTITION = partition_of(b"asset", 2)


@pytest.fixture
def job(make_job: Callable[..., Job]) -> Job:
    """A job with little memory, whose topics take any batch."""
    return make_job(memory="512m", source_config=OPEN)


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
    query_report = decode_progress(job.read([job.topics.progress])[-1].value)
    assert query_report.asides == {f"sites/{PARTITION}": ((first, first + 2),)}
    assert_equal_to_fold(job)


@pytest.mark.extensive(
    guard="tests/unit/streaming/test_streaming_quarantine.py::"
    "test_a_driver_sets_aside_what_its_query_ends_at_again_and_again"
)
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
    job.batch_s, job.warm_up_s = 120, 0  # nothing is committed before it dies
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


@pytest.mark.long
@pytest.mark.timeout(900)
def test_what_reads_the_log_again_steps_over_it_too(job: Job) -> None:
    """A rebuild and a what-if: neither dies of it, and the board is what it was."""
    job.batch_s, job.warm_up_s = 120, 0  # nothing is committed before it dies
    load, begun = Load(job, 3), int(time.time() * 1000) - 60_000
    load.send(1000)
    drop(job, "zstd", 700 * MIB)
    load.send(100)
    assert supervise(job, load, 600) >= 2
    before = newest(job)
    process = job.start()
    load.finish()

    changes = {"holds": {"clear": "100ms"}}
    wish = {"scenario": "sites", "since": begun, "changes": changes}
    answer = asked(job, "what-if", wish)
    assert answer.outcome == "done", answer.why
    assert asked(job, "rebuild", {}).outcome == "done"
    load.finish()

    assert process.poll() is None, "it died of what was set aside"
    after = newest(job)
    assert {name for name in before if not name.startswith("marker-")} <= after.keys()
    process.terminate()
    process.wait(10)
    wanted: dict[str, tuple[Version, Content]] = {}
    for key, content in judge_log(job, epoch=2).emissions.items():
        if key.topic == job.topics.states("sites") and content.value is not None:
            wanted[key.asset] = max(wanted.get(key.asset, (key.version, content)),
                                    (key.version, content), key=lambda pair: pair[0])  # fmt: skip
    settled = [name for name, (version, _) in wanted.items() if after[name][0] == version]
    assert len(settled) > 10
    for name in settled:
        assert after[name][1] == wanted[name][1].value


def newest(job: Job) -> dict[str, tuple[Version, bytes | None]]:
    """The newest record of each site: its version and value."""
    records: dict[str, tuple[Version, bytes | None]] = {}
    for message in job.read([job.topics.states("sites")]):
        name = (message.key or b"").decode()
        version = Version.parse(dict(message.headers)["version"].decode())
        if name not in records or records[name][0] < version:
            records[name] = (version, message.value)
    return records


def asked(job: Job, action: Any, parameters: dict[str, Any]) -> JobAnswer:
    """Ask the query for something, and wait until it is answered for good."""
    record = Control(f"bombs-{action}", "kernel", action, "ada", "a drill", parameters)
    job.bus.producer().send_and_wait(job.topics.control, b"kernel", encode(record))

    def last() -> list[JobAnswer]:
        job_answers = [decode_progress(m.value).answer for m in job.read([job.topics.progress])]
        mine = [each for each in job_answers if each is not None and each.id == record.id]
        return [each for each in mine if each.outcome != "accepted"]

    wait_until(last, 240, f"{action} is not answered, see {job.log}")
    return last()[-1]
