"""The real job on a real broker: what it writes is what the plain fold makes of the log."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from jobs import SCENARIOS, Job, Load, alive
from judge import assert_equal_to_fold

from ops.leftovers import descendants
from stack import EmbeddedBroker, wait_until
from wire.job import decode_heartbeat, decode_progress

pytestmark = [pytest.mark.timeout(480), pytest.mark.slow]


BATCH_S = 5
"""Length of a batch in Real-time Mode, so that a test sees some end."""


@pytest.fixture
def job(broker: EmbeddedBroker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Job]:
    """A configured job, not yet started."""
    made = Job(broker, tmp_path / "job", f"{request.node.name[:60]}.", batch_s=BATCH_S)
    made.configure(SCENARIOS)
    yield made
    made.clean_up()


def stop(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM: everything is gone within eight seconds."""
    below = descendants(process.pid)
    assert below, "expected a JVM"
    begun = time.monotonic()
    process.terminate()
    assert process.wait(8) == 0
    wait_until(lambda: not alive(below), begun + 8 - time.monotonic(), "orphans after SIGTERM")


def test_the_job_is_the_fold_over_its_log(job: Job) -> None:
    load = Load(job, 1)
    load.send(300)  # before the first rule is in the log
    process = job.start()
    load.finish()
    for _ in range(8):
        load.send(150)
        time.sleep(0.5)  # real time passes, so that dues fall due between records
    load.finish()
    stop(process)
    judged = assert_equal_to_fold(job)
    assert judged.dead
    assert {"report", "set", "release", "purge", "hold", "vote-expiry", "reminder",
            "override-end", "purge-after"} <= judged.causes  # fmt: skip

    job.configure(SCENARIOS.replace('"open"', '"open"\nmin_voters = 9'))
    process = job.start()
    load.send(300)
    load.finish()
    check_what_it_tells_of_itself(job)
    stop(process)
    judged = assert_equal_to_fold(job)
    assert judged.rules == 4 + 2
    assert "scenario" in judged.causes


def check_what_it_tells_of_itself(job: Job) -> None:
    """Heartbeats of every bucket, Spark's progress."""

    def batches() -> list[int]:
        told = [decode_progress(m.value) for m in job.read([job.topics.progress])]
        return [p.batch["numInputRows"] for p in told if p.batch and p.status == "running"]

    wait_until(batches, 60, "no figures of a batch")
    beats = [decode_heartbeat(m.value) for m in job.read([job.topics.buckets])]
    assert {beat.bucket for beat in beats} == {"sites/0", "sites/1", "orders/0", "orders/1"}
    assert max(beat.assets for beat in beats) > 5
    assert sum(beat.dead_letters for beat in beats) > 0


@pytest.mark.extensive
def test_killed_in_mid_stream_it_ends_with_the_same_states(job: Job) -> None:
    load = Load(job, 2)
    process = job.start()
    load.send(100)
    load.finish()
    load.send(5000)
    below = descendants(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not alive(below), 10, "JVM or workers outlive a killed driver")
    load.send(500)
    process = job.start()
    load.finish()
    stop(process)
    assert_equal_to_fold(job)


@pytest.mark.extensive
def test_a_lost_broker_is_waited_for(tmp_path: Path, jars_dir: Path) -> None:
    broker = EmbeddedBroker(tmp_path / "own", jars_dir)
    (tmp_path / "own").mkdir()
    broker.start()
    job = Job(broker, tmp_path / "job", "")
    job.configure(SCENARIOS)
    try:
        process = job.start()
        load = Load(job, 3)
        load.send(200)
        load.finish()
        broker.kill()
        time.sleep(25)  # longer than every time-out of the query's clients
        assert process.poll() is None
        broker.start()
        Load(job, 4).send(200)
        Load(job, 5).finish()
        assert process.poll() is None
        stop(process)
        assert_equal_to_fold(job)
    finally:
        job.clean_up()
        broker.stop()


def test_a_changed_partition_count_is_told_and_no_query_starts(job: Job) -> None:
    job.scenarios_file.write_text(SCENARIOS.replace("partitions = 2", "partitions = 3", 1))
    process = job.start()

    def told() -> bool:
        found = [decode_progress(m.value) for m in job.read([job.topics.progress])]
        return any(p.status == "waiting" and "has 2 partitions" in p.message for p in found)

    wait_until(told, 60, f"nothing is told, see {job.log}")
    assert process.poll() is None
    assert not (job.data_dir / "checkpoint" / "kernel" / "epoch-1").exists()
