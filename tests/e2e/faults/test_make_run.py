"""`make run` as a person uses it: in a terminal's process group, interrupted or killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.supervise import ROOT
from support.run.stack import Stack, wait_until


@pytest.fixture
def stack(tmp_path: Path, jars_dir: Path) -> Iterator[Stack]:
    own = Stack(tmp_path / "data", ("broker",), jars_dir=jars_dir)
    own.data_dir.mkdir()
    yield own
    own.stop()


def make_run(stack: Stack, *, deaf: bool = False) -> subprocess.Popen[bytes]:
    """Start `make run` in a process group of its own and wait until it is ready."""
    with stack.output.open("wb") as output:
        process = subprocess.Popen(
            [*(("sh", "-c", "trap '' INT; exec make run ONLY=broker") if deaf else RUN)],
            cwd=ROOT,
            env=stack.environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    wait_until(lambda: b"is ready" in stack.output.read_bytes(), 60, f"see {stack.output}")
    return process


RUN = ("make", "run", "ONLY=broker")


@pytest.mark.spread(1)
@pytest.mark.parametrize("deaf", [False, True], ids=["foreground", "background"])
def test_interrupt_of_the_group_ends_all(stack: Stack, deaf: bool) -> None:
    process = make_run(stack, deaf=deaf)
    begun = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    process.wait(15)
    wait_until(lambda: not stack.leftovers(), 1, "something lives on")
    assert time.monotonic() - begun < 10


@pytest.mark.extensive(
    guard="tests/e2e/faults/test_supervisor.py::test_everything_ends_with_a_killed_starter"
)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_end_of_make_ends_all(stack: Stack, number: signal.Signals) -> None:
    process = make_run(stack)
    process.send_signal(number)
    process.wait(15)
    wait_until(lambda: not stack.leftovers(), 10, "something lives on")
    wait_until(lambda: b"stopped;" in stack.output.read_bytes(), 5, "no orderly end")
