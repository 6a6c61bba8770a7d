"""`manage.py view login-windows` on a real broker: every client's windows as they end, Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from bus.base import TopicSpec
from bus.kafka import KafkaBus
from dashboard.core.common.times import utc
from domain.login_windows import HOP_MS, begins
from support.histories.login_logs import Event, client
from support.run.stack import ROOT, EmbeddedBroker
from wire.topics import Topics

PREFIX = f"windows-{uuid4().hex[:8]}."


@pytest.fixture
def options(broker: EmbeddedBroker, tmp_path: Path) -> dict[str, Any]:
    """How the command is run where the guard is on."""
    own = {
        "DATA_DIR": str(tmp_path),
        "KAFKA_BOOTSTRAP": broker.bootstrap,
        "TOPIC_PREFIX": PREFIX,
        "PIPELINES": "report-rates,login-guard",
    }
    environment = os.environ | {f"TALLYBOARD_{name}": value for name, value in own.items()}
    return {"env": environment, "cwd": ROOT, "text": True}


def send(bus: KafkaBus, *events: Event) -> None:
    producer = bus.producer(linger_ms=0)
    for one in events:
        producer.send(Topics(PREFIX).app_logs, one.client.encode(), one.value)
    assert producer.flush(20) == 0


def command(*arguments: str) -> list[str]:
    return [sys.executable, "manage.py", "view", "login-windows", *arguments]


def windows(events: list[Event]) -> set[str]:
    """The lines that are expected of clients with one action each."""
    return {f"{e.client}\t{utc(b)}\t5 s\t1" for e in events for b in begins(e.time)}


def of_clients(following: subprocess.Popen[str]) -> Iterator[str]:
    assert following.stdout is not None
    return (line.rstrip("\n") for line in following.stdout if line.startswith("client-"))


@pytest.mark.extensive(
    guard="tests/unit/domain/test_login_windows.py::"
    "test_windows_equal_a_naive_count_in_any_order_of_records"
)
def test_windows_of_clients_that_nobody_challenges_are_printed_as_they_end(
    broker: EmbeddedBroker, options: dict[str, Any]
) -> None:
    bus = KafkaBus({"bootstrap.servers": broker.bootstrap})
    bus.ensure_topics([TopicSpec(Topics(PREFIX).app_logs, 2, {})])
    now = time.time_ns() // 1_000_000
    over = [Event(now - 60_000 - 7 * n, client(n)) for n in range(3)]
    # A later record of the client ends its windows, else time does, 15 s after the action.
    ends = [Event(now - 40_000, one.client) for one in over]
    send(bus, *over, *ends)
    once = subprocess.run(command(), capture_output=True, timeout=90, check=True, **options)
    assert set(once.stdout.splitlines()) == windows(over) | windows(ends)
    with subprocess.Popen(command("--follow"), stdout=subprocess.PIPE, **options) as following:
        lines = of_clients(following)
        expected = windows(over) | windows(ends)
        assert {next(lines) for _ in expected} == expected
        fresh = Event(time.time_ns() // 1_000_000, client(7))
        send(bus, fresh)
        assert {next(lines) for _ in begins(fresh.time)} == windows([fresh])
        assert time.time_ns() // 1_000_000 >= fresh.time + 10_000 - HOP_MS
        following.send_signal(signal.SIGINT)
        assert following.wait(20) == 0


def test_where_the_guard_is_off_the_command_says_so(options: dict[str, Any]) -> None:
    environment = options["env"] | {"TALLYBOARD_PIPELINES": "report-rates"}
    ended = subprocess.run(
        command("--follow"), capture_output=True, timeout=60, check=False,
        **{**options, "env": environment},
    )  # fmt: skip
    assert ended.returncode == 1
    assert "The login guard is off: TALLYBOARD_PIPELINES is 'report-rates'" in ended.stderr
    assert "Traceback" not in ended.stderr
