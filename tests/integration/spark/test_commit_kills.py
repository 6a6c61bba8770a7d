"""A job killed while it commits, again and again: every file of its checkpoint can be read, and
the states are those of the plain fold over the log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from streaming.job.driver import LONG_BACKLOG
from support.histories.judge import assert_equal_to_fold
from support.run.stack import wait_until
from support.spark.jobs import Job, Load, alive

pytestmark = [
    pytest.mark.timeout(480),
    pytest.mark.slow,
    pytest.mark.extensive(
        guard="tests/integration/spark/test_conformance.py::"
        "test_the_kernel_is_the_fold_over_a_shorter_log"
    ),
]

MOMENTS = ("state/0/*/*.changelog", "offsets/*", "commits/*")
"""What a commit writes, in this order; the job is killed at the first sight of each."""

CATCH_UP_MOMENTS = ("state/0/*/*.zip", "state/0/*/*.zip", "commits/*")
"""The same of a backlog, whose commits are snapshots."""


def checkpoint(job: Job) -> Path:
    return job.data_dir / "checkpoint" / "kernel" / "epoch-1"


def spin_until(condition: Callable[[], object], timeout_s: float, why: str) -> None:
    """Look without a pause: what is waited for is over within milliseconds."""
    give_up = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < give_up, why


def kill_at(job: Job, process: subprocess.Popen[bytes], moment: str) -> None:
    """Kill job and JVM at once as soon as a file is there that was not there before."""
    before = set(checkpoint(job).glob(moment))
    spin_until(lambda: set(checkpoint(job).glob(moment)) - before, 60, f"no new {moment}")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not alive(members(process.pid)), 10, "JVM or workers outlive kill -9")


def all_committed(folder: Path) -> bool:
    """Return whether the last batch that began is committed: the kill came too late for it."""

    def numbers(kind: str) -> set[int]:
        return {int(path.name) for path in folder.glob(f"{kind}/[0-9]*")}

    return numbers("offsets") == numbers("commits")


def members(group: int) -> Iterator[int]:
    """Yield the processes of a group."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(ProcessLookupError):
            if os.getpgid(int(folder.name)) == group:
                yield int(folder.name)


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
            [*written] = folder.glob(f"state/0/{state}/{number + 1}_*")
            assert {path.suffix for path in written} & {".changelog", ".zip"}
            assert all(path.stat().st_size for path in written)


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


def test_killed_while_it_catches_up_it_ends_with_the_same_states(job: Job) -> None:
    load = Load(job, 7)
    process = job.start()
    load.send(150)
    load.finish()
    # Not a draft: a checkpoint whose first batch is not committed is begun again.
    wait_until(lambda: any(checkpoint(job).glob("commits/[0-9]*")), 30, "nothing is committed")
    process.terminate()
    assert process.wait(8) == 0
    caught_up = True
    for moment in CATCH_UP_MOMENTS:
        if caught_up:
            load.send(LONG_BACKLOG + 1_000)
        kill_at(job, job.start(), moment)
        assert_readable(checkpoint(job))
        caught_up = all_committed(checkpoint(job))
    process = job.start()
    load.send(150)
    load.finish()
    process.terminate()
    assert process.wait(8) == 0
    assert_equal_to_fold(job)
