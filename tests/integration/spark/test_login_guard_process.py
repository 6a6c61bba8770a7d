"""The login guard on real parts: how soon a challenge shows, a kill in mid stream, both clocks."""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from domain.login_windows import Client
from domain.records import StateRecord
from pipelines.login_guard import VERIFIED
from support.histories.login_logs import DAY_MS, Event, LoginLog, client
from support.run.stack import EmbeddedBroker, wait_until
from support.spark.jobs import Job
from support.spark.pipeline_process import PipelineProcess
from wire.sink import decode_state

pytestmark = [
    pytest.mark.timeout(480),
    pytest.mark.slow,
    pytest.mark.extensive(
        guard="tests/integration/spark/test_login_guard.py::"
        "test_the_operator_reports_what_the_fold_does"
    ),
]

NAME = "login-guard"
CLIENTS = """\
[clients]
partitions = 2
vote_lifetime = "1h"
severity = "none"
states = [{ name = "challenge" }, { name = "verified" }, { name = "quiet" }]
[clients.rule]
kind = "quorum"
ladder = [
    { state = "challenge", at_least = 1 },
    { state = "verified", at_least = 1 },
    { state = "quiet", at_least = 1 },
]
default = "quiet"
"""
MINUTE_MS = 60_000
PROMISED_S = 3.0


@pytest.fixture
def process(
    broker: EmbeddedBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[PipelineProcess]:
    """The process with the login guard alone, not yet started."""
    prefix = f"{re.sub(r'[^a-z_]', '.', request.node.name)}."
    made = PipelineProcess(broker, tmp_path / "job", prefix, pipelines=NAME, trials=False)
    made.configure(CLIENTS)
    yield made
    made.clean_up()


@pytest.fixture
def job(process: PipelineProcess) -> Iterator[Job]:
    """The board's job on the same topics, started."""
    made = Job(process.broker, process.data_dir / "board", process.prefix)
    made.configure(CLIENTS)
    made.start()
    yield made
    made.clean_up()


def send(process: PipelineProcess, events: Iterable[Event], pause_s: float = 0) -> None:
    """Append records to the log, and wait until they are in it."""
    producer = process.bus.producer(linger_ms=0)
    for one in events:
        producer.send(process.topics.app_logs, one.client.encode(), one.value)
        producer.poll(0)
        time.sleep(pause_s)
    assert producer.flush(20) == 0


def states(process: PipelineProcess) -> list[StateRecord]:
    """What the job has written about clients, each partition in order."""
    messages = process.read([process.topics.states("clients")])
    records = [decode_state(one.key, one.value, one.headers) for one in messages]
    return [one for one in records if isinstance(one, StateRecord)]


def reported(process: PipelineProcess) -> Counter[tuple[str, str]]:
    """How often each state was reported of each client: a report sent twice counts once."""
    sent = {}
    for one in process.read([process.topics.reports("clients")]):
        if one.key is not None:
            state = json.loads(one.value or b"")["state"]
            sent[dict(one.headers)["id"]] = (one.key.decode(), state)
    return Counter(sent.values())


def wait_for_reports(process: PipelineProcess, more_than: int) -> None:
    """Wait until more reports than so many are in the log."""
    wait_until(lambda: reported(process).total() > more_than, 120, f"none, see {process.log}")


def wanted(events: Iterable[Event]) -> Counter[tuple[str, str]]:
    """The same by the fold."""
    clients: dict[str, Client] = {}
    counted: Counter[tuple[str, str]] = Counter()
    for one in events:
        fold = clients.setdefault(one.client, Client())
        reports = fold.verify(one.time) if one.action == VERIFIED else fold.act(one.time)
        counted.update((one.client, each.state) for each in reports)
    return counted


def challenged(counted: Counter[tuple[str, str]]) -> set[str]:
    """The clients that were challenged."""
    return {name for name, state in counted if state == "challenge"}


def now_ms() -> int:
    """The time now, Unix ms."""
    return time.time_ns() // 1_000_000


def begin(process: PipelineProcess) -> None:
    """Start the process, and return once it has done a batch."""
    process.start()
    wait_until(
        lambda: any(one.batch >= 0 for one in process.reports(NAME)), 120, f"see {process.log}"
    )


def kill(process: PipelineProcess) -> None:
    """End the newest process as `kill -9` does."""
    running = process.started[-1]
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()


def test_the_fifth_action_shows_as_a_challenge_within_three_seconds(
    process: PipelineProcess, job: Job
) -> None:
    begin(process)
    delays = []
    for number in range(12):
        name, producer = client(number), process.bus.producer(linger_ms=0)
        for _ in range(5):
            acted = time.monotonic()
            event = Event(now_ms(), name)
            producer.send_and_wait(process.topics.app_logs, name.encode(), event.value)
        wait_until(
            lambda name=name: any(one.asset == name for one in states(process)),  # type: ignore[misc]
            60,
            f"{name} is not challenged, see {process.log} and {job.log}",
        )
        delays.append(time.monotonic() - acted)
    # The first reaches Spark's code cold.
    median, worst = statistics.median(delays), max(delays[2:])
    print(f"fifth action -> clients.states: median {median:.2f} s, worst {worst:.2f} s, "
          f"first {delays[0]:.2f} s")  # fmt: skip
    shown = states(process)
    assert {(one.state, one.unconfirmed) for one in shown} == {("challenge", False)}
    assert worst < PROMISED_S


def test_killed_in_mid_stream_it_challenges_the_same_clients_and_none_twice(
    process: PipelineProcess, job: Job
) -> None:
    log = LoginLog(now_ms() - 50 * MINUTE_MS, seed=5, length=30 * MINUTE_MS, guessers=40)
    events, quarter = log.events, len(log.events) // 4
    begin(process)
    for part in range(3):
        send(process, events[part * quarter : (part + 1) * quarter])
        wait_for_reports(process, more_than=part * 5)
        kill(process)
        process.start()
    send(process, events[3 * quarter :])
    right = wanted(events)
    wait_until(lambda: reported(process) >= right, 120, f"reports are missing, see {process.log}")
    assert reported(process) == right

    def transitions() -> Counter[tuple[str, str]]:
        """How often each client has entered each state: a version counts once."""
        shown = {(one.asset, one.version): one for one in states(process)}
        entered: Counter[tuple[str, str]] = Counter()
        before: dict[str, str] = {}
        for (name, _), one in sorted(shown.items()):
            entered[name, one.state] += one.state != before.get(name)
            before[name] = one.state
        return entered

    wait_until(lambda: transitions() == right, 60, f"not the same on the board, see {job.log}")


@pytest.mark.parametrize("clock", ["event", "wall"])
def test_a_day_of_logs_replayed_in_five_seconds(process: PipelineProcess, clock: str) -> None:
    """By event time it challenges whom it did that day, by the wall clock others too."""
    process.variables = {"TALLYBOARD_GUARD_CLOCK": clock}
    log = LoginLog(now_ms() - 2 * DAY_MS, seed=7)
    begin(process)
    send(process, log.events, pause_s=5 / len(log.events))
    wait_until(
        lambda: process.last(NAME).records == len(log.events), 120, f"not read, see {process.log}"
    )
    that_day = challenged(wanted(log.events))
    slow = {client(2_000 + number) for number in range(log.slow)}
    assert that_day
    assert not that_day & slow
    by_clock = challenged(reported(process))
    if clock == "event":
        assert by_clock == that_day
    else:
        assert by_clock != that_day
        assert by_clock >= slow


def test_late_records_are_counted_where_invalid_times_are(process: PipelineProcess) -> None:
    begin(process)
    name, now = client(1), now_ms()
    times = [now, *[now - 10_001] * 6, now - 10_000, -1, now + 10 * MINUTE_MS]
    send(process, [Event(at, name) for at in times])
    send(process, [Event(now, client(2))])
    wait_until(lambda: process.last(NAME).records == len(times) + 1, 60, "not read")
    counted = {(one.topic, one.reason): one.records for one in process.last(NAME).invalid}
    topic = process.topics.app_logs
    assert counted == {(topic, "late"): 6, (topic, "negative"): 1, (topic, "ahead"): 1}
    assert not reported(process)
    assert {one.topic for one in process.last(NAME).assignments} == {topic}
