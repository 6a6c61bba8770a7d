"""The running job agrees with `domain.fold` on thousands of generated histories.

They share a log (see sharedlog.py), which comes in portions while the job runs; now and then one
of its processes, or all, are killed and the job is started anew. At the end every record that it
wrote is held against the plain fold over the log, byte for byte.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bus.base import Bus
from domain.records import CAUSE_TYPES, DEAD_LETTER_REASONS
from ops.leftovers import descendants
from support.histories.judge import Judged, assert_equal_to_fold
from support.histories.sharedlog import SCENARIOS, VIRTUAL_TIME, Portion, Sender, shared_log
from support.run.stack import EmbeddedBroker, wait_until
from support.spark.jobs import Job, Load, alive
from wire.signature import FAULTS

pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

HISTORIES, ROUNDS = 2400, 300
"""Of the kernel's logs: more than 50,000 records of up to 40 each."""

FEWER, FEWER_ROUNDS = 300, 100
"""Of the Python engine's log, and of a shorter one for the kernel."""

PORTIONS = 4
"""How many portions come in each life of the job; one more comes while it is dead."""

KILLED_AFTER = (0.1, 1.2)
"""Records that a life of the job writes before it is killed, for each that it was sent.

All would be 1.3 at the beginning of the Python engine's log, and two over all of a kernel's.
"""

WRITTEN_S = 240
"""How long a job may take, on a busy machine, from its start until it writes something."""

BATCH_S = 5
"""Of Real-time Mode: short, so that a job that is killed goes on from a checkpoint of its own."""


@dataclass
class Trial:
    """One log, and the lives of a job that reads it."""

    job: Job
    seed: int
    histories: int
    rounds: int
    random: random.Random = field(init=False)
    bus: Bus = field(init=False)

    def __post_init__(self) -> None:
        self.random, self.bus = random.Random(self.seed), self.job.bus
        self.job.configure(SCENARIOS)

    def run(self, lives: Sequence[str | None]) -> Judged:
        """Judge the job after so many lives, each with this trigger (None: the default)."""
        log = shared_log(self.seed, self.histories, self.rounds)
        sender = Sender(self.job.broker.bootstrap, self.job.topics, log)
        portions = iter(log.portions(len(lives) * (PORTIONS + 1)))
        for number, trigger in enumerate(lives):
            sender.send(next(portions))  # the job is dead, or has not lived yet
            self.job.trigger = trigger
            before = self._written()  # what the start writes counts: nothing may be left to come
            process = self._start()
            last = number == len(lives) - 1
            while_alive = PORTIONS if last else self.random.randint(1, PORTIONS - 1)
            self._send(sender, portions, while_alive)
            if not last:
                share = self.random.uniform(*KILLED_AFTER) * (while_alive + 1)
                enough = before + int(share * len(log) / (len(lives) * (PORTIONS + 1)))
                self._wait(process, enough, WRITTEN_S)
                self._kill(process)
            self._send(sender, portions, PORTIONS - while_alive)
        begun = time.monotonic()
        Load(self.job, self.seed).finish()
        print(f"all read after {time.monotonic() - begun:.1f} s more")
        self._kill(process)
        return self._judge(len(log))

    def _judge(self, records: int) -> Judged:
        begun = time.monotonic()
        judged = assert_equal_to_fold(self.job)
        took = time.monotonic() - begun
        print(f"{records} records, {len(judged.needed)} of the fold's, judged in {took:.1f} s")
        return judged

    def _send(self, sender: Sender, portions: Iterator[Portion], number: int) -> None:
        """Send so many portions, with pauses."""
        for _ in range(number):
            sender.send(next(portions))
            time.sleep(self.random.uniform(0, 0.5))

    def _start(self) -> subprocess.Popen[bytes]:
        """Start the job, and wait until it writes."""
        before, begun = self._written(), time.monotonic()
        process = self.job.start()
        self._wait(process, before + 1, WRITTEN_S)
        print(f"started, writes after {time.monotonic() - begun:.1f} s")
        return process

    def _wait(self, process: subprocess.Popen[bytes], written: int, timeout_s: float) -> None:
        """Wait until the job has written so many records to the states topics."""
        end = time.monotonic() + timeout_s
        while self._written() < written:
            assert process.poll() is None, f"the job ended, see {self.job.log}"
            assert time.monotonic() < end, f"fewer than {written} written, see {self.job.log}"
            time.sleep(0.25)

    def _written(self) -> int:
        """Return how many records the states topics hold."""
        topics = map(self.job.topics.states, self.job.scenarios())
        return sum(end for _, end in self.bus.offsets(topics).values())

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        """As `kill -9` does: the driver, the JVM below it, or everything at once."""
        begun, written = time.monotonic(), self._written()
        below = descendants(process.pid)
        victims = ([process.pid], below[:1], [process.pid, *below])
        for pid in self.random.choice(victims):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: process.poll() is not None, 40, "the driver outlives its JVM")
        wait_until(lambda: not alive(below), 40, "JVM or workers outlive a killed driver")
        print(f"{written} records written, killed, dead after {time.monotonic() - begun:.1f} s")


@pytest.fixture
def trial(
    broker: EmbeddedBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Trial]]:
    """Makes a trial: seed, histories, rounds, and settings of the job."""
    made: list[Job] = []

    def make(seed: int, histories: int, rounds: int, **settings: str) -> Trial:
        prefix = re.sub("[^a-z-]+", "-", request.node.name)
        job = Job(broker, tmp_path / "job", f"{prefix}.", **settings)  # type: ignore[arg-type]
        job.source_config, job.batch_s = VIRTUAL_TIME, BATCH_S
        made.append(job)
        return Trial(job, seed, histories, rounds)

    yield make
    for job in made:
        job.clean_up()


def check_coverage(judged: Judged, histories: int) -> None:
    """Everything that can happen did, to as many assets as there should be."""
    assert judged.causes == set(CAUSE_TYPES)
    assert {key.reason for key in judged.dead} == set(DEAD_LETTER_REASONS) - set(FAULTS)
    assert len({key[:2] for key in judged.emissions}) > 0.9 * histories


REAL_TIME, MICRO_BATCH = "real-time", "micro-batch"


@pytest.mark.extensive(
    guard="tests/integration/spark/test_conformance.py::"
    "test_the_kernel_is_the_fold_over_a_shorter_log"
)
@pytest.mark.parametrize(
    ("seed", "lives"),
    [
        pytest.param(11, [REAL_TIME, REAL_TIME, MICRO_BATCH, REAL_TIME], id="mostly-real-time"),
        pytest.param(12, [MICRO_BATCH] * 3, id="micro-batch"),
    ],
)
def test_the_kernel_is_the_fold(trial: Callable[..., Trial], seed: int, lives: list[str]) -> None:
    """Through each change from one trigger to the other, too."""
    judged = trial(seed, HISTORIES, ROUNDS, engine="kernel").run(lives)
    check_coverage(judged, HISTORIES)


def test_the_kernel_is_the_fold_over_a_shorter_log(trial: Callable[..., Trial]) -> None:
    judged = trial(14, FEWER, FEWER_ROUNDS, engine="kernel").run([REAL_TIME, MICRO_BATCH])
    check_coverage(judged, FEWER)


@pytest.mark.extensive(
    guard="tests/unit/streaming/test_streaming_processor.py::"
    "test_any_cut_into_batches_emits_what_the_fold_emits"
)
def test_the_python_engine_is_the_fold(trial: Callable[..., Trial]) -> None:
    judged = trial(14, FEWER, FEWER_ROUNDS, engine="python", master="local[2]").run([None] * 2)
    check_coverage(judged, FEWER)
