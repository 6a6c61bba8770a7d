"""A standby: it takes over from a leader that is killed or stopped, nothing is lost, and never do
two of them write; in the product it is started, told of, and ends with Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import pytest

from config import leadership
from config.leadership import Leader
from ops.leftovers import descendants
from streaming.job.leadership import SESSION_S
from support.histories.judge import assert_equal_to_fold
from support.run.stack import ROOT, EmbeddedBroker, Stack, wait_until
from support.spark.jobs import SCENARIOS, Job, Load, alive
from wire.job import decode_heartbeat, decode_progress

pytestmark = [
    pytest.mark.timeout(480),
    pytest.mark.slow,
    pytest.mark.extensive(
        guard="tests/integration/kafka/test_leadership.py::test_a_killed_leader_is_replaced_at_once"
    ),
]

BATCH_S = 5
"""Length of a batch in Real-time Mode: take-overs begin in the middle of one, and behind some."""


@pytest.fixture
def job(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[Job]:
    """A configured job that may have a standby, not yet started."""
    name = f"standby-{uuid4().hex[:8]}."
    made = Job(broker, tmp_path / "job", name, batch_s=BATCH_S, standby=1, memory="1g")
    made.configure(SCENARIOS)
    yield made
    made.clean_up()


def leader(job: Job | Stack) -> Leader:
    """Who leads, by the file."""
    return leadership.read(leadership.file_of(job.data_dir / "checkpoint"))


def with_standby(job: Job, load: Load) -> tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]:
    """Start a leader and a standby; return both once the standby is ready."""
    first, second = job.start(), job.start("--standby")

    def ready() -> bool:
        load.send(20)
        return leader(job).standby > 0

    wait_until(ready, 120, f"no standby is ready, see {job.log}")
    assert leader(job).driver == first.pid
    return first, second


def took_over(job: Job, process: subprocess.Popen[bytes]) -> None:
    """Wait until a process leads, and answers."""
    wait_until(lambda: leader(job).driver == process.pid, SESSION_S + 30, "nobody took over")


def check_one_at_a_time(job: Job, take_overs: int) -> None:
    """Each bucket's heartbeats go forward, but for once at each take-over: so one query at a time
    has applied records. Two at once would take turns."""
    offsets: dict[str, list[int]] = {}
    for message in job.read([job.topics.buckets]):
        beat = decode_heartbeat(message.value)
        offsets.setdefault(beat.bucket, []).append(beat.offset)
    assert len(offsets) == 4
    for bucket, reached in offsets.items():
        back = sum(after < before for before, after in pairwise(reached))
        assert back <= take_overs, f"{bucket} went back {back} times: {reached}"


def check_commits(job: Job) -> None:
    """Each batch was committed once: Spark would have told of another, and failed."""
    query_reports = [decode_progress(message.value) for message in job.read([job.topics.progress])]
    assert not [record.message for record in query_reports if record.status == "waiting"]
    assert not [record.error for record in query_reports if "oncurrent" in record.error]


def end(job: Job, *processes: subprocess.Popen[bytes]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        assert process.wait(10) == 0


@pytest.mark.parametrize("whole", [True, False], ids=["driver-and-jvm", "driver-alone"])
def test_a_leader_that_stands_still_is_replaced_and_never_wakes(job: Job, whole: bool) -> None:
    load = Load(job, 4)
    first, second = with_standby(job, load)
    processes = [first.pid, *descendants(first.pid)]
    for pid in processes if whole else processes[:1]:
        os.kill(pid, signal.SIGSTOP)
    load.send(100)
    took_over(job, second)
    # Of the one before nobody is left that could write when it is woken.
    assert first.wait(5) == -signal.SIGKILL
    wait_until(lambda: not alive(processes), 5, "a killed process has not gone")
    load.finish()
    end(job, second)
    check_one_at_a_time(job, 1)
    check_commits(job)
    assert_equal_to_fold(job)


def test_a_second_job_without_a_standby_is_refused(job: Job) -> None:
    """Two that were started by mistake: the second says so, and the first goes on."""
    job.standby = None
    load = Load(job, 5)
    first = job.start()
    load.send(50)
    load.finish()
    second = job.start()
    assert second.wait(60) == 1
    assert "another one runs in the same data directory" in job.log.read_text()
    load.send(50)
    load.finish()
    end(job, first)
    check_one_at_a_time(job, 0)


# ---- in the product -----------------------------------------------------------------------------

PARTS = ("broker", "job", "standby", "materialiser", "web")


@pytest.fixture
def stack(tmp_path: Path, jars_dir: Path) -> Iterator[Stack]:
    own = Stack(tmp_path / "data", only=PARTS, jars_dir=jars_dir, standby=True, spark_memory="1g")
    own.start(180)
    yield own
    own.stop()


def await_standby(stack: Stack, leads: str) -> None:
    """Wait until a role leads, and the other one stands by."""
    wait_until(
        lambda: leader(stack).role == leads and leader(stack).standby > 0,
        150,
        f"{leads} does not lead with a standby: {leader(stack)}, see {stack.data_dir}/logs",
    )


def status(stack: Stack) -> str:
    """What `make status` prints."""
    command = [sys.executable, "-m", "ops.control", "status"]
    done = subprocess.run(
        command, cwd=ROOT, env=stack.environment(), capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_standby_from_the_start_to_the_end(stack: Stack) -> None:
    await_standby(stack, "job")
    output = status(stack)
    assert "standby        RUNNING" in output
    assert f"job leads the job (process {stack.pid('job')}); a standby is ready since " in output

    before, begun = stack.kill("job"), time.time() * 1000
    wait_until(lambda: leader(stack).role == "standby", 30, "the standby does not lead")
    assert leader(stack).since - begun < 3_000
    wait_until(lambda: stack.pid("job") != before, 30, "the job was not started again")
    await_standby(stack, "standby")

    assert stack.stop() < 10
    assert stack.leftovers() == []


def test_a_standby_takes_over_from_a_killed_leader_and_back(job: Job) -> None:
    load = Load(job, 3)
    first, second = with_standby(job, load)
    orphans = descendants(first.pid)
    assert orphans, "expected a JVM"
    begun = time.monotonic()
    os.kill(first.pid, signal.SIGKILL)
    load.send(100)
    took_over(job, second)
    assert not alive([leader(job).jvm] if leader(job).jvm in orphans else [])
    load.finish()
    took_s = time.monotonic() - begun
    wait_until(lambda: not alive(orphans), 1, "the killed leader's JVM works on")

    third = job.start()
    wait_until(lambda: leader(job).standby > 0, 120, "who was killed does not stand by")
    os.kill(leader(job).jvm, signal.SIGKILL)  # the JVM alone
    load.send(100)
    took_over(job, third)
    load.finish()
    assert second.wait(20) != 0
    end(job, third)

    check_one_at_a_time(job, 2)
    check_commits(job)
    assert assert_equal_to_fold(job).rules == 4
    assert took_s < 15, "it was no warm one"
