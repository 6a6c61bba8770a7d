"""Pipelines in their own process, on a real broker: totals, ids, requests, errors."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.leftovers import descendants
from support.run.selection import is_whole
from support.run.stack import EmbeddedBroker, wait_until
from support.spark.jobs import SCENARIOS
from support.spark.pipeline_process import PipelineProcess

pytestmark = [pytest.mark.timeout(480), pytest.mark.slow]

KEYS = 20


@pytest.fixture
def process(
    broker: EmbeddedBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[PipelineProcess]:
    """The process, not yet started."""
    made = PipelineProcess(broker, tmp_path / "job", f"{request.node.name[:60]}.")
    made.configure(SCENARIOS)
    yield made
    made.clean_up()


class Numbers:
    """Numbers sent to `trial.numbers`, and what they come to."""

    def __init__(self, process: PipelineProcess) -> None:
        self._process, self._producer = process, process.bus.producer()
        self.sums: Counter[str] = Counter()
        self.sent = 0

    def send(self, count: int) -> None:
        """Send the next numbers, and wait until they are in the log."""
        topic = f"{self._process.prefix}trial.numbers"
        for _ in range(count):
            key = f"key-{self.sent % KEYS}"
            self._producer.send(topic, key.encode(), json.dumps({"n": self.sent}).encode())
            self.sums[key] += self.sent
            self.sent += 1
        assert self._producer.flush(20) == 0

    def totals(self) -> dict[str, int]:
        """What the pipeline says: the newest record of each key."""
        newest = {one.key: json.loads(one.value or b"") for one in self._process.output("totals")}
        return {key.decode(): value["n"] for key, value in newest.items() if key}


def ids(process: PipelineProcess, topic: str) -> list[bytes]:
    """The id of each output record, in the order of the log."""
    return [dict(one.headers)["id"] for one in process.output(topic)]


def kill(process: PipelineProcess) -> None:
    """End the newest process as `kill -9` does."""
    running = process.started[-1]
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()


def test_totals_stay_right_from_one_slot_to_three_and_through_kills(
    process: PipelineProcess,
) -> None:
    process.pipelines = "totals,copies"
    process.make(numbers=3)
    numbers, size = Numbers(process), 3_000 if is_whole() else 1_000
    numbers.send(size)
    process.start()
    wait_until(lambda: process.output("totals"), 120, f"nothing came, see {process.log}")
    numbers.send(3 * size)
    kill(process)
    numbers.send(size)
    process.bus.producer().send_and_wait(f"{process.prefix}trial.numbers", b"k", b"{")
    process.variables = {"TRIAL_SLOTS": "3"}
    process.start()
    if is_whole():
        wait_until(lambda: len({*ids(process, "copies")}) > 6_000, 120, "no copies after the kill")
        kill(process)
        process.start()
    wait_until(lambda: numbers.totals() == dict(numbers.sums), 120, "the totals are not right")
    wait_until(lambda: len(set(ids(process, "copies"))) == numbers.sent, 60, "copies are missing")
    by_id = {dict(one.headers)["id"]: one.value for one in process.output("copies")}
    sent = sorted(json.loads(value or b"")["n"] for value in by_id.values())
    assert sent == list(range(numbers.sent))
    shown = process.last("totals")
    assert shown.slots == 3
    wait_until(lambda: process.last("totals").behind == 0, 30, "it stays behind")
    wait_until(lambda: process.last("copies").dead_letters == 1, 30, "a dead letter is missing")
    assert {one.value for one in process.read([process.topics.dead_letters])} == {b"{"}


@pytest.mark.extensive(
    guard="tests/unit/streaming/test_pipelines.py::"
    "test_the_budget_is_the_pipelines_and_its_tasks_have_equal_shares"
)
def test_a_batch_takes_no_more_of_a_backlog_than_it_may(process: PipelineProcess) -> None:
    process.pipelines = "totals"
    process.make(numbers=3)
    numbers = Numbers(process)
    numbers.send(9_000)
    process.start()
    wait_until(lambda: numbers.totals() == dict(numbers.sums), 150, "the totals are not right")
    wait_until(lambda: process.last("totals").records == 9_000, 30, "it stays behind")
    read = [report.batch_records for report in process.reports("totals")]
    assert 0 < max(read) <= process.last("totals").batch_limit == 2_000
    running = process.started[-1]
    running.terminate()
    assert running.wait(20) == 0
    assert process.last("totals").status == "stopped"


def executors(process: PipelineProcess) -> list[int]:
    """The executors of the newest process."""
    below = descendants(process.started[-1].pid)
    return [pid for pid in below if b"CoarseGrainedExecutorBackend" in cmdline(pid)]


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.extensive(
    guard="tests/integration/spark/test_pipelines.py::"
    "test_totals_stay_right_from_one_slot_to_three_and_through_kills"
)
def test_totals_stay_right_when_one_of_three_executors_is_killed(process: PipelineProcess) -> None:
    process.pipelines = "totals"
    master = "local-cluster[3,1,1024]"
    process.variables = {"TRIAL_SLOTS": "3", "TALLYBOARD_PIPELINES_MASTER": master}
    process.make(numbers=3)
    numbers = Numbers(process)
    numbers.send(2_000)
    process.start()
    wait_until(lambda: process.output("totals"), 150, f"nothing came, see {process.log}")
    wait_until(lambda: len(executors(process)) == 3, 60, "expected three executors")
    numbers.send(20_000)
    victim = executors(process)[0]
    os.kill(victim, signal.SIGKILL)
    numbers.send(2_000)
    wait_until(lambda: numbers.totals() == dict(numbers.sums), 150, "the totals are not right")
    assert victim not in executors(process)


@pytest.mark.extensive(
    guard="tests/unit/streaming/test_pipelines_supervisor.py::test_stop_start_and_reset"
)
def test_a_reset_reads_the_log_again_and_nobody_counts_twice(process: PipelineProcess) -> None:
    process.pipelines = "totals,copies"
    process.variables = {"TRIAL_STATE": "memory"}
    process.make(numbers=2)
    numbers = Numbers(process)
    numbers.send(500)
    process.start()
    wait_until(lambda: numbers.totals() == dict(numbers.sums), 120, f"see {process.log}")
    wait_until(lambda: len(ids(process, "copies")) == 500, 60, "copies are missing")
    first = process.last("copies").epoch
    answer = process.ask("copies", "reset")
    assert (answer.outcome, "is deleted" in answer.why) == ("done", True)
    wait_until(lambda: len(ids(process, "copies")) == 1_000, 60, "the log was not read again")
    assert set(Counter(ids(process, "copies")).values()) == {2}
    wait_until(lambda: process.last("copies").records == 500, 30, "the figures began anew")
    folder = process.data_dir / "pipelines" / "checkpoint" / "copies"
    assert process.last("copies").epoch > first
    assert not (folder / f"epoch-{first}").exists()
    assert numbers.totals() == dict(numbers.sums)  # the other one goes on

    assert process.ask("totals", "stop").outcome == "done"
    process.wait_for("totals", "stopped")
    numbers.send(100)
    kill(process)
    process.start()
    process.wait_for("copies", "running")
    wait_until(lambda: len(set(ids(process, "copies"))) == 600, 60, "the other one goes on")
    assert process.last("totals").store == "memory"
    assert process.last("totals").status == "stopped"  # through a restart too
    assert process.ask("totals", "start").outcome == "done"
    wait_until(lambda: numbers.totals() == dict(numbers.sums), 60, "it did not go on")
    assert process.ask("totals", "reload").outcome == "refused"


def test_wrong_topics_times_and_values_are_named_and_counted(process: PipelineProcess) -> None:
    process.pipelines = "pairs,strict,copies"
    process.make(numbers=2, odd=3, timed=1)
    producer = process.bus.producer()
    for value in (b'{"n":1}', b"{", b"\xff", b'{"n":"x"}'):
        producer.send_and_wait(f"{process.prefix}trial.numbers", b"k", value)
    producer.send_and_wait(f"{process.prefix}trial.timed", b"k", b'{"at":-5}')
    process.start()
    why = process.wait_for("pairs", "waiting").message
    assert f"{process.prefix}trial.numbers has 2 and {process.prefix}trial.odd has 3" in why
    why = process.wait_for("strict", "waiting").message
    assert "trial.timed/0/0: negative" in why
    assert "timestamp" in why
    wait_until(lambda: process.last("copies").dead_letters == 3, 60, "dead letters")
    letters = process.read([process.topics.dead_letters])
    assert [one.value for one in letters] == [b"{", b"\xff", b'{"n":"x"}']
    assert {dict(one.headers)["source-offset"] for one in letters} == {b"1", b"2", b"3"}
    assert len(ids(process, "copies")) == 1
