"""A running job's state goes from one number of partitions to another, and nothing else changes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable

import pytest

from ops.leftovers import descendants
from streaming.fold.epochs import start_of
from streaming.state.checkpoint import positions
from support.histories.judge import assert_equal_to_fold
from support.run.selection import is_whole
from support.run.stack import wait_until
from support.spark.jobs import SCENARIOS, Job, Load, alive
from wire.job import decode_heartbeat, decode_progress

pytestmark = [pytest.mark.timeout(480), pytest.mark.slow]

WIDE = SCENARIOS.replace("partitions = 2", "partitions = 8", 1)


@pytest.fixture
def job(make_job: Callable[..., Job], request: pytest.FixtureRequest) -> Job:
    """A job of eight and two source partitions."""
    return make_job(WIDE, engine=request.node.callspec.params.get("engine", "kernel"))


def run(job: Job, state_partitions: int | None) -> subprocess.Popen[bytes]:
    """Start the job with this setting, and wait until its query has committed something."""
    job.state_partitions = state_partitions
    before = len(statuses(job))
    process = job.start()
    running = lambda: "running" in statuses(job)[before:]  # noqa: E731
    wait_until(running, 120, f"the query does not run, see {job.log}")
    wait_until(lambda: positions(job.epoch().path), 60, f"nothing is committed, see {job.log}")
    return process


def statuses(job: Job) -> list[str]:
    return [decode_progress(m.value).status for m in job.read([job.topics.progress])]


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    assert process.wait(20) == 0


def kill(process: subprocess.Popen[bytes]) -> None:
    """End the whole job wherever it is."""
    below = descendants(process.pid)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not alive(below), 40, "processes outlive the driver")


def number(job: Job) -> int:
    """How many state partitions the newest epoch says it has."""
    return start_of(job.epoch()).state_partitions


def live(job: Job, load: Load, state_partitions: int) -> None:
    """Start the job with so many state partitions, under load."""
    load.send(300)
    run(job, state_partitions)
    load.send(300)
    assert (number(job), job.stores()) == (state_partitions, set(range(state_partitions)))


@pytest.mark.parametrize("engine", ["kernel", pytest.param("python", marks=pytest.mark.extensive)])
def test_the_number_changes_under_load(job: Job, engine: str) -> None:
    """Every record, before and after, is the fold's, byte for byte, in order of its versions."""
    load = Load(job, 34)
    if is_whole():
        live(job, load, 4)
        stop(job.started[-1])
    live(job, load, 8)
    kill(job.started[-1])
    live(job, load, 2)
    load.finish()
    kill(job.started[-1])

    judged = assert_equal_to_fold(job)
    assert {key.version.epoch for key in judged.emissions} == {1}
    beats = [decode_heartbeat(m.value) for m in job.read([job.topics.buckets])]
    sites, orders = (f"sites/{at}" for at in range(8)), ("orders/0", "orders/1")
    assert {(beat.epoch, beat.bucket) for beat in beats} == {
        (1, name) for name in [*sites, *orders]
    }
    epochs = [name for name in job.epoch().path.parent.names() if name.startswith("epoch-")]
    assert sorted(epochs) == (["epoch-2", "epoch-3"] if is_whole() else ["epoch-1", "epoch-2"])
