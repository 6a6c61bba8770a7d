"""A job killed while it commits, again and again: every file of its checkpoint can be read, and
the states are those of the plain fold over the log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jobs import SCENARIOS, Job, Load, alive
from judge import assert_equal_to_fold

from ops.leftovers import descendants
from stack import EmbeddedBroker, wait_until

pytestmark = [pytest.mark.timeout(480), pytest.mark.slow]

BATCH_S = 5

MOMENTS = ("state/0/*/*.changelog", "offsets/*", "commits/*")
"""What a commit writes, in this order; the job is killed at the first sight of each."""


@pytest.fixture
def job(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[Job]:
    """A configured job, not yet started."""
    made = Job(broker, tmp_path / "job", "commit-kills.", batch_s=BATCH_S)
    made.configure(SCENARIOS)
    yield made
    made.clean_up()


def checkpoint(job: Job) -> Path:
    return job.data_dir / "checkpoint" / "kernel" / "epoch-1"


def spin_until(condition: Callable[[], bool], timeout_s: float, why: str) -> None:
    """Look without a pause: what is waited for is over within milliseconds."""
    give_up = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < give_up, why


def kill_at(job: Job, process: subprocess.Popen[bytes], moment: str) -> None:
    """Kill job and JVM at once as soon as a file is there that was not there before."""
    below = descendants(process.pid)
    before = set(checkpoint(job).glob(moment))
    spin_until(lambda: set(checkpoint(job).glob(moment)) > before, 60, f"no new {moment}")
    for pid in [process.pid, *below]:
        os.kill(pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not alive(below), 10, "JVM or workers outlive kill -9")


def assert_readable(folder: Path) -> None:
    """Every file that has its name is whole, and every commit has its offsets and its states."""
    for kind in ("offsets", "commits"):
        for path in folder.glob(f"{kind}/[0-9]*"):
            version, *lines = path.read_text().splitlines()
            assert version.startswith("v")
            assert [json.loads(line) for line in lines]
    commits = {int(path.name) for path in folder.glob("commits/[0-9]*")}
    offsets = {int(path.name) for path in folder.glob("offsets/[0-9]*")}
    assert commits <= offsets
    for number in commits:
        for state in ("0", "1"):
            [*changes] = folder.glob(f"state/0/{state}/{number + 1}_*.changelog")
            assert changes
            assert all(path.stat().st_size for path in changes)


def test_killed_in_the_middle_of_commits_it_ends_with_the_same_states(job: Job) -> None:
    load = Load(job, 6)
    for moment in MOMENTS:
        process = job.start()
        load.send(150)
        load.finish()
        load.send(400)
        kill_at(job, process, moment)
        assert_readable(checkpoint(job))
    process = job.start()
    load.send(150)
    load.finish()
    process.terminate()
    assert process.wait(8) == 0
    assert_readable(checkpoint(job))
    assert_equal_to_fold(job)
