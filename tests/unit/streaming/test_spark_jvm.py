"""The end of Spark's JVM: by itself, or killed where it takes too long."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from streaming.spark.jvm import end_spark

Start = Callable[..., tuple[Any, subprocess.Popen[bytes]]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a session whose JVM is this command, and which stops like this."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*command: str, stop: Callable[[], Any] = lambda: None) -> Any:
        process = subprocess.Popen(command, stdin=subprocess.PIPE)
        started.append(process)
        context = SimpleNamespace(_gateway=SimpleNamespace(proc=process))
        return SimpleNamespace(sparkContext=context, stop=stop), process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_jvm_ends_once_its_input_is_closed(start: Start) -> None:
    spark, process = start("cat")
    assert end_spark(spark)
    assert process.returncode == 0


def test_a_jvm_that_does_not_end_is_killed(start: Start) -> None:
    spark, process = start("sleep", "600")
    assert not end_spark(spark, exit_s=0.1)
    assert process.returncode == -signal.SIGKILL


def test_a_jvm_whose_spark_does_not_stop_is_killed(start: Start) -> None:
    never = threading.Event()
    spark, process = start("cat", stop=never.wait)
    assert not end_spark(spark, patience_s=0.1)
    assert process.returncode == -signal.SIGKILL
    never.set()


def test_what_spark_raises_as_it_stops_is_passed_over(start: Start) -> None:
    def fail() -> None:
        raise ConnectionError("it is gone already")

    spark, process = start("cat", stop=fail)
    assert end_spark(spark)
    assert process.returncode == 0
