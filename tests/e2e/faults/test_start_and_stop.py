"""Starting and stopping from the console: Ctrl-C, kills of the starter and its supervisor."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.supervise import log_path
from support.run.stack import Stack, wait_until

BROKER_ALONE = ("broker",)


@pytest.fixture
def stack(tmp_path: Path, jars_dir: Path) -> Iterator[Stack]:
    """A copy with nothing but its broker."""
    own = Stack(tmp_path / "data", BROKER_ALONE, jars_dir=jars_dir)
    yield own
    own.stop()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, jars_dir: Path) -> Iterator[Stack]:
    """A copy with nothing but its broker, which runs: its tests leave it so."""
    folder = tmp_path_factory.mktemp("running") / "data"
    own = Stack(folder, BROKER_ALONE, jars_dir=jars_dir).start()
    yield own
    own.stop()


def test_interrupt_ends_all_within_ten_seconds(stack: Stack) -> None:
    stack.start()
    assert stack.leftovers() != []
    kept = [path for path in stack.data_dir.rglob("*") if path.name != stack.output.name]
    assert len(kept) > 20
    assert [path for path in kept if path.lstat().st_mode & 0o077] == [], "others may look into it"
    assert stack.stop() < 10
    assert stack.process
    assert stack.process.returncode == 0
    assert stack.leftovers() == []


@pytest.mark.extensive(
    guard="tests/e2e/faults/test_supervisor.py::test_everything_ends_with_a_killed_starter"
)
def test_killed_starter_leaves_nothing_in_the_way(stack: Stack) -> None:
    stack.start()
    assert stack.process
    stack.process.kill()
    stack.process.wait()
    stack.start()
    wait_until(lambda: stack.pid("broker"), 20, "no broker after the second start")


@pytest.mark.extensive(
    guard="tests/e2e/faults/test_start_and_stop.py::test_killed_supervisor_is_replaced"
)
def test_starter_and_supervisor_killed_together(stack: Stack) -> None:
    stack.start()
    supervisor = int((stack.data_dir / "supervisord.pid").read_text())
    assert stack.process
    stack.process.kill()
    os.kill(supervisor, signal.SIGKILL)
    stack.process.wait()
    stack.start()


def test_killed_supervisor_is_replaced(stack: Stack) -> None:
    stack.start()
    first = int((stack.data_dir / "supervisord.pid").read_text())
    broker = stack.pid("broker")
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: stack.pid("broker") != broker, 30, "the broker did not come back")
    assert "supervisor ended" in stack.output.read_text()


@pytest.mark.extensive(
    guard="tests/unit/ops/test_ops_run.py::test_failed_process_is_told_with_its_log"
)
def test_killed_broker_is_told_and_comes_back(stack: Stack) -> None:
    stack.start()
    killed = stack.kill("broker")
    wait_until(lambda: stack.pid("broker") not in (0, killed), 30, "the broker did not come back")
    message = (
        f"broker ended unexpectedly and is restarted; its log: {log_path(stack.data_dir, 'broker')}"
    )
    wait_until(lambda: message in stack.output.read_text(), 10, "nothing told")


def test_second_start_on_the_same_data_is_refused(running: Stack, jars_dir: Path) -> None:
    second = Stack(running.data_dir, BROKER_ALONE, jars_dir=jars_dir)
    log = running.output.read_bytes()
    second.start(wait=False)
    assert second.process
    assert second.process.wait(30) != 0
    assert "already runs" in second.output.read_text()
    assert running.pid("broker")
    running.output.write_bytes(log)


def test_taken_port_is_one_message(running: Stack, tmp_path: Path, jars_dir: Path) -> None:
    port = running.settings.kafka_port
    second = Stack(tmp_path / "second", BROKER_ALONE, jars_dir=jars_dir, kafka_port=port)
    second.start(wait=False)
    assert second.process
    assert second.process.wait(30) == 1
    message = second.output.read_text().strip()
    assert message == (
        f"tallyboard: Port {port} is taken: stop what listens there, or set "
        "TALLYBOARD_KAFKA_PORT to a free port."
    )


@pytest.mark.extensive(
    guard="tests/e2e/faults/test_start_and_stop.py::test_taken_port_is_one_message"
)
def test_two_copies_run_side_by_side(running: Stack, tmp_path: Path, jars_dir: Path) -> None:
    second = Stack(tmp_path / "second", BROKER_ALONE, jars_dir=jars_dir)
    second.start()
    assert second.stop() < 10
    assert running.pid("broker") in running.leftovers()
