"""The lock on the checkpoints, with real processes."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from config.leadership import Leader, boot_id
from streaming.job import leader_lock
from streaming.job.leader_lock import DRIVER, JVM, SOMEBODY, STANDBY, LeaderLock
from support.run.stack import ROOT, wait_until

HOLD = """\
import fcntl, os, sys, time
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(file, fcntl.LOCK_EX, 1, int(sys.argv[2]))
print("held", flush=True)
time.sleep(1000)
"""

Hold = Callable[[int], subprocess.Popen[bytes]]


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Hold]:
    """Starts a process that holds one byte of the lock."""
    started = []

    def begin(byte: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", HOLD, str(tmp_path / "leader.lock"), str(byte)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
        assert process.stdout
        assert process.stdout.readline() == b"held\n"
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_a_lock_that_nobody_holds_is_taken(tmp_path: Path) -> None:
    lock = LeaderLock(tmp_path / "checkpoint")
    assert lock.free()
    assert lock.take()
    assert lock.take()


def test_a_held_lock_says_whose_it_is_and_is_free_at_the_end_of_its_process(
    tmp_path: Path, hold: Hold
) -> None:
    lock, other = LeaderLock(tmp_path), hold(DRIVER)
    assert not lock.take()
    assert not lock.free()
    assert lock.holder(DRIVER) == other.pid
    other.kill()
    other.wait()
    assert lock.free()
    assert lock.take()


def test_a_standby_is_known_until_it_leads_or_ends(tmp_path: Path, hold: Hold) -> None:
    lock = LeaderLock(tmp_path)
    assert not lock.stood_by()
    other = hold(STANDBY)
    assert lock.stood_by()
    lock.stand_by()
    other.kill()
    other.wait()
    assert not lock.stood_by()
    lock.stand_by()
    assert lock.take()
    seen = subprocess.run(
        [sys.executable, "-c", HOLD.replace("time.sleep(1000)", ""), lock.path, str(STANDBY)],
        capture_output=True,
        timeout=10,
        check=True,
    )
    assert seen.stdout == b"held\n", "who leads still stands by"


def test_a_jvm_without_its_driver_is_ended(tmp_path: Path, hold: Hold) -> None:
    lock, orphan = LeaderLock(tmp_path), hold(JVM)
    assert not lock.take()
    assert lock.free()
    assert lock.end_orphan()
    assert orphan.wait(5) == -signal.SIGKILL
    assert lock.take()
    assert not lock.end_orphan()


def test_a_leader_that_stands_still_is_fenced(tmp_path: Path, hold: Hold) -> None:
    lock, driver, jvm = LeaderLock(tmp_path), hold(DRIVER), hold(JVM)
    for process in (driver, jvm):
        process.send_signal(signal.SIGSTOP)
    assert lock.fence(Leader("one", "job", boot_id(), driver.pid, jvm.pid))
    assert driver.wait(5) == jvm.wait(5) == -signal.SIGKILL
    wait_until(lock.take, 5, "the lock is not free")


@pytest.mark.parametrize("boot", ["", "another machine's"])
def test_a_leader_on_another_machine_is_left_alone(tmp_path: Path, hold: Hold, boot: str) -> None:
    lock, driver = LeaderLock(tmp_path), hold(DRIVER)
    assert not lock.fence(Leader("one", "job", boot, driver.pid))
    assert driver.poll() is None


def test_who_is_not_the_leader_of_the_record_is_left_alone(tmp_path: Path, hold: Hold) -> None:
    """The record may be of an earlier one: its ids may be anybody's by now."""
    lock, driver = LeaderLock(tmp_path), hold(DRIVER)
    assert not lock.fence(Leader("one", "job", boot_id(), os.getpid(), 1))
    assert driver.poll() is None


def test_a_holder_in_another_container_counts_and_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There the system names no process: the lock is held all the same."""
    lock = LeaderLock(tmp_path)
    answer = leader_lock._FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, DRIVER, 1, 0)
    monkeypatch.setattr(leader_lock.fcntl, "fcntl", lambda *_: answer)
    assert lock.holder(DRIVER) == SOMEBODY
    assert not lock.free()
    assert not lock.fence(Leader("one", "job", boot_id(), 4711))
    assert not lock.end_orphan()
