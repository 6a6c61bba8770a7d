"""The supervisor restarts what dies, and nothing outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ops.leftovers import end_leftovers, find_leftovers
from ops.processes import Process
from ops.supervise import ROOT, NotRunning, Supervisor, environment, start_supervisor
from support.run.stack import wait_until

SLEEPER = Process("sleeper", ("sleep", "1000"))
STUBBORN = Process(
    "stubborn",
    (
        sys.executable,
        "-c",
        "import signal as s; s.signal(15, s.SIG_IGN); print('deaf', flush=True); s.pause()",
    ),
    stop_s=1,
)


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "logs").mkdir()
    yield tmp_path
    end_leftovers(tmp_path, patience_s=0)


def pid_of(data_dir: Path, name: str) -> int:
    try:
        return Supervisor(data_dir).statuses()[name].pid
    except NotRunning:
        return 0


def running(data_dir: Path, *wanted: Process) -> subprocess.Popen[bytes]:
    process = start_supervisor(data_dir, wanted)
    for each in wanted:
        wait_until(partial(pid_of, data_dir, each.name), 20, f"{each.name} does not run")
    return process


def test_killed_process_comes_back(data_dir: Path) -> None:
    running(data_dir, SLEEPER)
    first = pid_of(data_dir, "sleeper")
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: pid_of(data_dir, "sleeper") not in (0, first), 20, "not restarted")


def test_stop_ends_a_process_that_ignores_sigterm(data_dir: Path) -> None:
    supervisor = running(data_dir, SLEEPER, STUBBORN)
    log = data_dir / "logs" / "stubborn.log"
    wait_until(lambda: "deaf" in log.read_text(), 10, "not ready to ignore a signal")
    supervisor.terminate()
    assert supervisor.wait(10) == 0
    assert find_leftovers(data_dir) == []


def test_children_end_with_a_killed_supervisor(data_dir: Path) -> None:
    supervisor = running(data_dir, SLEEPER)
    supervisor.kill()
    supervisor.wait()
    wait_until(lambda: not find_leftovers(data_dir), 10, "the sleeper lives on")


def test_everything_ends_with_a_killed_starter(data_dir: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path;"
        "from ops.supervise import start_supervisor; from ops.processes import Process;"
        "start_supervisor(Path(sys.argv[1]), [Process('sleeper', ('sleep', '1000'))]);"
        "time.sleep(1000)"
    )
    starter = subprocess.Popen([sys.executable, "-c", code, str(data_dir)], cwd=ROOT)
    wait_until(lambda: pid_of(data_dir, "sleeper"), 20, "the sleeper does not run")
    starter.kill()
    starter.wait()
    wait_until(lambda: not find_leftovers(data_dir), 10, "something lives on")


def test_leftover_that_ignores_sigterm_is_ended(data_dir: Path) -> None:
    left = subprocess.Popen(
        STUBBORN.command, env=environment(data_dir), stdout=subprocess.PIPE, start_new_session=True
    )
    assert left.stdout
    assert left.stdout.readline() == b"deaf\n"
    assert end_leftovers(data_dir, patience_s=0.2) == [left.pid]
    assert left.wait(5) == -signal.SIGKILL


def test_stop_and_start_of_one_process(data_dir: Path) -> None:
    running(data_dir, SLEEPER)
    supervisor = Supervisor(data_dir)
    supervisor.stop("sleeper")
    assert supervisor.statuses()["sleeper"].state == "STOPPED"
    supervisor.start("sleeper")
    assert pid_of(data_dir, "sleeper")


def test_supervisor_in_a_directory_with_a_long_name(tmp_path: Path) -> None:
    long = tmp_path / ("deep-" * 20) / "50% off & more"
    (long / "logs").mkdir(parents=True)
    running(long, SLEEPER).terminate()
    wait_until(lambda: not find_leftovers(long), 10, "the sleeper lives on")
