"""The real job on a real broker: what it writes is what the plain fold makes of the log."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from uuid import uuid4

import pytest

from domain.records import Command, Report, Schedule, StateRecord
from domain.version import Version
from ops.leftovers import descendants
from support.histories.judge import assert_equal_to_fold
from support.run.stack import EmbeddedBroker, wait_until
from support.spark.jobs import SCENARIOS, Job, Load, alive
from wire.job import decode_heartbeat, decode_progress
from wire.sink import decode_state
from wire.source import encode_command, encode_report

pytestmark = [pytest.mark.timeout(480), pytest.mark.slow]


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
        time.sleep(0.5)  # real time passes, so that timers fire between records
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
        query_reports = [decode_progress(m.value) for m in job.read([job.topics.progress])]
        return [p.batch["numInputRows"] for p in query_reports if p.batch and p.status == "running"]

    wait_until(batches, 60, "no figures of a batch")
    beats = [decode_heartbeat(m.value) for m in job.read([job.topics.buckets])]
    assert {beat.bucket for beat in beats} == {"sites/0", "sites/1", "orders/0", "orders/1"}
    assert max(beat.assets for beat in beats) > 5
    assert sum(beat.dead_letters for beat in beats) > 0


@pytest.mark.extensive(
    guard="tests/integration/spark/test_conformance.py::"
    "test_the_kernel_is_the_fold_over_a_shorter_log"
)
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


def commits(job: Job) -> int:
    """How many batches are committed."""
    return len(list((job.data_dir / "checkpoint" / "kernel").glob("epoch-*/commits/[0-9]*")))


@pytest.mark.extensive(
    guard="tests/integration/spark/test_job.py::test_the_job_is_the_fold_over_its_log"
)
def test_a_cold_jvm_commits_often(job: Job) -> None:
    job.batch_s = 300
    process, load = job.start(), Load(job, 6)
    load.finish()
    wait_until(lambda: commits(job) >= 2, 60, "no commit before the batch of 300 s is over")
    stop(process)


@pytest.mark.extensive(
    guard="tests/integration/spark/test_job.py::test_the_job_is_the_fold_over_its_log"
)
def test_a_batch_ends_early_where_many_reports_come(job: Job) -> None:
    job.batch_s, job.batch_reports, job.warm_up_s = 300, 100, 5
    process, load = job.start(), Load(job, 7)

    def later_commits() -> bool:
        load.send(20)
        return commits(job) >= 4  # one or two of them while the JVM was cold

    wait_until(later_commits, 120, "no commit before the batch of 300 s is over")
    load.finish()
    stop(process)
    assert_equal_to_fold(job)


def runs_of(job: Job, task: str) -> list[tuple[Version, str]]:
    """The version and the outcome of each record of a run of this task, however often it came."""
    runs = set()
    for message in job.read([job.topics.states("sites")]):
        record = decode_state(message.key, message.value, message.headers)
        if isinstance(record, StateRecord) and record.cause.command == task:
            runs |= {
                (record.version, each.outcome or "")
                for each in record.tasks
                if record.cause.type == "schedule" and each.id == task
            }
    return sorted(runs)


@pytest.mark.extensive(
    guard="tests/integration/spark/test_conformance.py::"
    "test_the_kernel_is_the_fold_over_a_shorter_log"
)
def test_a_task_runs_once_though_the_job_is_killed_before_its_time(job: Job) -> None:
    """And though it is dead at that time: what counts is the log's."""
    load, task = Load(job, 3), str(uuid4())
    process = job.start()
    for agent in ("w1", "w2"):
        load.put("sites", "shop", encode_report(Report("shop", agent, "attack")))
    load.finish()  # the job has begun
    order = Schedule("notify", after=10_000)
    command = Command("schedule", "shop", task, "olga", "watch it", schedule=order)
    load.put("sites", "shop", encode_command(command))
    load.finish()  # every marker is answered, so the task is scheduled too
    due = time.monotonic() + 10
    below = descendants(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not alive(below), 10, "JVM or workers outlive a killed driver")
    assert runs_of(job, task) == []
    wait_until(lambda: time.monotonic() > due, 15, "the task's time does not come")
    process = job.start()
    wait_until(lambda: runs_of(job, task), 90, "the task did not run")
    load.finish()
    stop(process)
    [(version, outcome)] = runs_of(job, task)
    assert (version.step > 0, outcome) == (True, "applied")
    assert "schedule" in assert_equal_to_fold(job).causes


@pytest.mark.extensive(
    guard="tests/e2e/faults/test_kill_each.py::test_killed_processes_come_back_and_nothing_is_lost"
)
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
        time.sleep(35)  # longer than every time-out of the query's clients
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


@pytest.mark.extensive(
    guard="tests/unit/streaming/test_streaming_sources.py::test_the_job_waits_until_it_is_corrected"
)
def test_a_changed_partition_count_is_told_and_no_query_starts(job: Job) -> None:
    job.scenarios_file.write_text(SCENARIOS.replace("partitions = 2", "partitions = 3", 1))
    process = job.start()

    def is_waiting() -> bool:
        query_reports = [decode_progress(m.value) for m in job.read([job.topics.progress])]
        return any(p.status == "waiting" and "has 2 partitions" in p.message for p in query_reports)

    wait_until(is_waiting, 60, f"nothing is told, see {job.log}")
    assert process.poll() is None
    assert not list((job.data_dir / "checkpoint" / "kernel" / "epoch-1").iterdir())
