"""The product with a standby: it is started, told of, takes over, and ends with Ctrl-C."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from config import leadership
from config.leadership import Leader
from dashboard.core.times import now_ms
from stack import ROOT, Stack, wait_until

PARTS = ("broker", "job", "standby", "materialiser", "web")


@pytest.fixture
def stack(tmp_path: Path, jars_dir: Path) -> Iterator[Stack]:
    own = Stack(tmp_path / "data", only=PARTS, jars_dir=jars_dir, standby=True, spark_memory="1g")
    own.start(180)
    yield own
    own.stop()


def leader(stack: Stack) -> Leader:
    return leadership.read(leadership.file_of(stack.data_dir))


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


@pytest.mark.slow
@pytest.mark.timeout(480)
def test_a_standby_from_the_start_to_the_end(stack: Stack) -> None:
    await_standby(stack, "job")
    told = status(stack)
    assert "standby        RUNNING" in told
    assert f"job leads the job (process {stack.pid('job')}); a standby is ready since " in told

    before, begun = stack.kill("job"), now_ms()
    wait_until(lambda: leader(stack).role == "standby", 30, "the standby does not lead")
    assert leader(stack).since - begun < 3_000
    wait_until(lambda: stack.pid("job") != before, 30, "the job was not started again")
    await_standby(stack, "standby")

    assert stack.stop() < 10
    assert stack.leftovers() == []
