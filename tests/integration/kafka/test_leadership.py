"""Candidates as processes, with a real broker and a real lock: which one leads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from bus.base import TopicSpec
from bus.kafka import KafkaBus
from config import leadership as records
from streaming.job.leadership import SESSION_S
from support.run.stack import ROOT, EmbeddedBroker, wait_until

pytestmark = pytest.mark.timeout(90)

CANDIDATE = "tests/support/kafka/candidate_process.py"


class Candidate:
    """One process, and what it has said."""

    def __init__(self, folder: Path, name: str, bootstrap: str) -> None:
        self.name, self.said = name, list[str]()
        self.process = subprocess.Popen(
            [
                sys.executable,
                "tests/support/kafka/candidate_process.py",
                str(folder),
                name,
                bootstrap,
            ],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._ears = threading.Thread(target=self._listen, daemon=True)
        self._ears.start()

    def _listen(self) -> None:
        assert self.process.stdout
        with self.process.stdout as lines:
            self.said.extend(line.strip() for line in lines)

    def leads(self) -> bool:
        return self.said[-1:] == ["leads"] and self.process.poll() is None

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def end(self) -> None:
        """Ask it to end."""
        assert self.process.stdin
        self.process.stdin.close()
        assert self.process.wait(20) == 0

    def clean_up(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self._ears.join(5)


Start = Callable[[str], Candidate]


@pytest.fixture
def folder(tmp_path: Path, broker: EmbeddedBroker) -> Path:
    """Where the lock is; its name is the prefix of the group and of its topic."""
    own = tmp_path / f"leaders-{uuid4().hex[:8]}"
    own.mkdir()
    bus = KafkaBus({"bootstrap.servers": broker.bootstrap})
    bus.ensure_topics([TopicSpec(f"{own.name}.job.control", 1, {})])
    return own


@pytest.fixture
def start(folder: Path, broker: EmbeddedBroker) -> Iterator[Start]:
    started: list[Candidate] = []

    def begin(name: str) -> Candidate:
        started.append(Candidate(folder, name, broker.bootstrap))
        return started[-1]

    yield begin
    for one in started:
        one.clean_up()


def pair(folder: Path, start: Start) -> tuple[Candidate, Candidate]:
    """A leader, and a standby of which it knows."""
    one = start("one")
    wait_until(one.leads, 20, "nobody leads")
    two = start("two")
    wait_until(lambda: records.read(folder / "leader.json").standby, 20, "no standby is known")
    assert one.leads()
    assert two.said == []
    return one, two


def test_a_killed_leader_is_replaced_at_once(folder: Path, start: Start) -> None:
    one, two = pair(folder, start)
    begun = time.monotonic()
    one.signal(signal.SIGKILL)
    wait_until(two.leads, 20, "nobody took over")
    assert time.monotonic() - begun < SESSION_S / 2, "it waited for the session to end"
    assert records.read(folder / "leader.json").name == "two"


@pytest.mark.extensive(
    guard="tests/integration/kafka/test_leadership.py::test_a_killed_leader_is_replaced_at_once"
)
def test_a_leader_that_ends_hands_over(folder: Path, start: Start) -> None:
    one, two = pair(folder, start)
    one.end()
    wait_until(two.leads, 20, "nobody took over")
    assert one.said == ["leads"]


@pytest.mark.extensive(
    guard="tests/unit/streaming/test_streaming_leadership.py::"
    "test_a_leader_that_stands_still_is_ended_once_its_session_is_over"
)
def test_a_leader_that_stands_still_is_ended_before_another_leads(
    folder: Path, start: Start
) -> None:
    one, two = pair(folder, start)
    one.signal(signal.SIGSTOP)
    wait_until(two.leads, SESSION_S + 15, "nobody took over")
    assert one.process.wait(5) == -signal.SIGKILL
    assert one.said == ["leads"]


@pytest.mark.extensive(
    guard="tests/integration/kafka/test_leadership.py::test_a_killed_leader_is_replaced_at_once"
)
def test_a_third_one_takes_nothing_from_a_leader(folder: Path, start: Start) -> None:
    one, two = pair(folder, start)
    three = start("three")
    two.end()
    wait_until(lambda: records.read(folder / "leader.json").standby, 20, "no standby is known")
    assert one.leads()
    one.signal(signal.SIGKILL)
    wait_until(three.leads, 20, "nobody took over")


@pytest.mark.extensive(
    guard="tests/unit/streaming/test_streaming_leadership.py::test_a_leader_that_wakes_up_as_none_lets_go"
)
def test_a_member_that_is_dismissed_is_gone(
    broker: EmbeddedBroker, start: Start, folder: Path
) -> None:
    bus, group = KafkaBus({"bootstrap.servers": broker.bootstrap}), f"{folder.name}.job-leader"
    assert bus.dismiss(group, "one") is False
    one = start("one")
    wait_until(one.leads, 20, "nobody leads")
    one.signal(signal.SIGSTOP)
    assert bus.dismiss(group, "one") is True
    assert bus.members(group) == []
    one.signal(signal.SIGCONT)
    assert one.process.wait(20) == 3, "it goes on, though the group has put it out"
    assert one.said == ["leads", "lost"]
