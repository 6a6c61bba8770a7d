"""Worker and Beat killed as `kill -9` does: one Beat schedules afterwards, and each task once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from ops.leftovers import MARK, end_leftovers, mark_of
from ops.processes import ALONE, CELERY
from ops.supervise import ROOT, log_path
from support.run.stack import Stack, wait_until

pytestmark = pytest.mark.extensive(
    guard="tests/web/core/test_beat.py::test_who_takes_over_goes_by_what_the_last_one_has_left"
)

RECEIVED = re.compile(
    r"^\[(\S+ \S+): INFO/MainProcess\] "
    r"Task dashboard\.notify\.notifications\.tasks\.carry_on\S+ received$",
    re.MULTILINE,
)
"""The line of the notifier for a task that is scheduled each second."""
AT_WORK = {"worker": " ready.", "beat": "beat schedules"}
"""What a process logs once it is at work."""
ENOUGH = 6
"""So many of them are looked at: with a second Beat they come in half of the time."""


@pytest.fixture
def stack(tmp_path: Path, jars_dir: Path) -> Iterator[Stack]:
    """The workers and their Beat."""
    only = ["worker", "notifier", "beat"]
    own = Stack(tmp_path / "data", only=only, jars_dir=jars_dir, demo=False)
    own.start(180)
    yield own
    own.stop()


def beats(stack: Stack) -> list[int]:
    """Processes of this copy that are a Beat, or were forked from a worker to be one."""
    named = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in stack.leftovers()}
    return [pid for pid, command in named.items() if b"beat" in command.split(b"\0")]


def orphans(stack: Stack) -> list[int]:
    """Processes of this copy whose parent has ended."""
    own = stack.leftovers()
    parents = {
        pid: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1] for pid in own
    }
    return [pid for pid, parent in parents.items() if parent == "1"]


def received(stack: Stack) -> list[float]:
    """When the notifier received the task, s."""
    log = log_path(stack.data_dir, "notifier").read_text(errors="replace")
    times = (datetime.strptime(each, "%Y-%m-%d %H:%M:%S,%f") for each in RECEIVED.findall(log))  # noqa: DTZ007
    return [each.timestamp() for each in times]


def check_rate(stack: Stack) -> None:
    """Each second the task is received once, from now on."""
    before = len(received(stack))
    wait_until(lambda: len(received(stack)) >= before + ENOUGH, 90, "tasks are not scheduled")
    times = received(stack)[before : before + ENOUGH]
    assert times[-1] - times[0] > 0.75 * (ENOUGH - 1)


def starts(stack: Stack, name: str) -> int:
    """How often a process has come to work."""
    return log_path(stack.data_dir, name).read_text().count(AT_WORK[name])


def kill(stack: Stack, name: str) -> None:
    """Kill a process at work, and wait until the next one is."""
    wait_until(lambda: starts(stack, name) == 1, 60, f"{name} was not started")
    stack.kill(name)
    wait_until(lambda: starts(stack, name) == 2, 60, f"{name} was not started again")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_one_beat_is_left_whoever_was_killed(stack: Stack) -> None:
    for name in ("worker", "beat"):
        kill(stack, name)
        check_rate(stack)
        assert beats(stack) == [stack.pid("beat")]
        assert orphans(stack) == []


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_second_beat_waits_and_takes_over(stack: Stack, tmp_path: Path) -> None:
    wait_until(lambda: starts(stack, "beat") == 1, 60, "Beat was not started")
    log = tmp_path / "second.log"
    environment = stack.environment() | {MARK: mark_of(stack.data_dir)}
    command = [sys.executable, *CELERY, "beat", "--loglevel", "info"]
    with log.open("wb") as output:
        second = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        wait_until(lambda: "another one schedules" in log.read_text(), 60, log.read_text())
        check_rate(stack)
        assert "Sending due task" not in log.read_text()
        os.kill(stack.pid("beat"), 9)
        wait_until(lambda: "beat schedules" in log.read_text(), 60, log.read_text())
        check_rate(stack)
        assert "Sending due task" in log.read_text()
    finally:
        second.kill()
        second.wait()


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_beat_that_is_a_workers_own_ends_with_it(tmp_path: Path) -> None:
    own, log = Stack(tmp_path / "data", demo=False), tmp_path / "worker.log"
    prepared = own.manage("prepare")
    assert prepared.returncode == 0, prepared.stderr
    command = [sys.executable, *CELERY, "worker", *ALONE, "--beat"]
    environment = own.environment() | {MARK: mark_of(own.data_dir)}
    with log.open("wb") as output:
        worker = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        wait_until(lambda: "beat schedules" in log.read_text(), 60, log.read_text())
        assert len(own.leftovers()) == 3, "the worker, the process of its tasks, its Beat"
        worker.kill()
        worker.wait()
        wait_until(lambda: not own.leftovers(), 20, "something lives on")
    finally:
        end_leftovers(own.data_dir, patience_s=0)
