"""Scenarios in a job of their own: what becomes of one job is nothing to the other, and a scenario
that moves from job to job keeps its versions rising."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Self
from uuid import uuid4

import pytest

from bus.base import ConsumerRecord
from domain.records import Report
from domain.version import Version
from ops.leftovers import descendants
from support.histories.judge import Content, Key, assert_equal_to_fold, judge_log
from support.run.stack import wait_until
from support.spark.jobs import Job, Load
from wire.job import decode_heartbeat, decode_progress
from wire.source import encode_report

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.slow,
    pytest.mark.extensive(
        guard="tests/unit/streaming/test_claims.py::"
        "test_a_job_waits_while_another_one_carries_its_scenario"
    ),
]

DIVISION = "shop: orders"
MEASURED_S = 20
EVERY_S = 0.1
LARGEST_RATIO = 3.0
"""The other job's delay beside a killed one, to its delay before. On one machine both share the
processors, and the killed one's pages are freed meanwhile; in a cluster there is nothing shared."""


@pytest.fixture
def job(make_job: Callable[..., Job]) -> Job:
    """A job whose scenarios may be divided."""
    return make_job(batch_s=10, memory="1g")


def divided(job: Job) -> tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]:
    """Start the main job, and one of its own for the orders."""
    job.job_scenarios = DIVISION
    return job.start(), job.start("--job", "shop")


class Delays:
    """Sends a report on a new order every tenth of a second, and measures when its state is
    there, s."""

    def __init__(self, job: Job) -> None:
        self._job, self._producer = job, job.bus.producer(linger_ms=0)
        topics = [job.topics.states("orders")]
        ends = {place: end for place, (_, end) in job.bus.offsets(topics).items()}
        self._reader = job.bus.reader(ends)
        self._stop = threading.Event()
        self.sent: dict[bytes, float] = {}
        self.delays: dict[float, float] = {}
        self._threads = [threading.Thread(target=each) for each in (self._send, self._read)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
        self._reader.close()

    def _send(self) -> None:
        topic = self._job.topics.reports("orders")
        while not self._stop.wait(EVERY_S):
            asset = f"order/{uuid4().hex}".encode()
            self.sent[asset] = time.monotonic()
            report = encode_report(Report(asset.decode(), "till", "received"))
            self._producer.send(topic, asset, report)
            self._producer.poll(0)

    def _read(self) -> None:
        while not self._stop.is_set():
            for message in self._reader.poll(0.1, 1000):
                begun = self.sent.get(message.key or b"")
                if begun is not None:
                    self.delays[begun] = time.monotonic() - begun

    def between(self, begin: float, end: float) -> list[float]:
        """The delays of reports that were sent in this time; fails for one that has no answer."""
        sent = [at for at in list(self.sent.values()) if begin <= at < end]
        wait_until(lambda: all(at in self.delays for at in sent), 30, "reports have no state")
        assert len(sent) > MEASURED_S / EVERY_S / 2
        return [self.delays[at] for at in sent]


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a job with its JVM."""
    for pid in [process.pid, *descendants(process.pid)]:
        os.kill(pid, signal.SIGKILL)
    process.wait()


def test_a_job_that_is_killed_leaves_the_delay_of_the_other(job: Job) -> None:
    main, _shop = divided(job)
    load = Load(job, 1)
    load.send(300)
    load.finish()
    with Delays(job) as delays:
        time.sleep(2 * MEASURED_S)  # a JVM's first seconds are slower, and its batches shorter
        begun = time.monotonic()
        time.sleep(MEASURED_S)
        kill(main)
        killed = time.monotonic()
        time.sleep(MEASURED_S)
        before = delays.between(begun, killed - 0.5)
        beside = delays.between(killed - 0.5, time.monotonic() - 1)
    ratio = statistics.median(beside) / statistics.median(before)
    print(
        f"median {1000 * statistics.median(before):.1f} ms before, "
        f"{1000 * statistics.median(beside):.1f} ms beside the killed job: ratio {ratio:.2f}; "
        f"longest {1000 * max(before):.0f} and {1000 * max(beside):.0f} ms"
    )
    assert ratio < LARGEST_RATIO
    beats = [decode_heartbeat(each.value) for each in job.read([job.topics.buckets])]
    assert {(beat.scenario, beat.job) for beat in beats} == {("sites", ""), ("orders", "shop")}
    reports = [decode_progress(each.value) for each in job.read([job.topics.progress])]
    assert {report.query for report in reports} == {"kernel", "shop-kernel"}

    job.start()
    load.send(300)
    load.finish()
    assert_equal_to_fold(job)


def test_a_scenario_that_moves_keeps_its_versions_rising(job: Job) -> None:
    load = Load(job, 2)
    alone = job.start()
    load.send(200)
    load.finish()
    alone.terminate()
    assert alone.wait(30) == 0

    main, shop = divided(job)
    load.send(200)
    load.finish()
    for process in (main, shop):
        process.terminate()
        assert process.wait(30) == 0, job.log.read_text()[-2000:]

    job.job_scenarios = None
    job.start()
    load.send(200)
    load.finish()

    epochs = check_ends(job)
    assert len(epochs["orders"]) == 3, epochs


def check_ends(job: Job) -> dict[str, set[int]]:
    """Fail unless each asset's new versions rise, and its highest record is the fold's. Return the
    epochs of each scenario.

    A job that was ended reads its last batch again, and repeats what it wrote then.
    """
    seen: set[tuple[str, bytes | None, Version]] = set()
    newest: dict[tuple[str, bytes | None], tuple[Version, ConsumerRecord]] = {}
    epochs: dict[str, set[int]] = {name: set() for name in job.scenarios()}
    for message in job.read([job.topics.states(name) for name in job.scenarios()]):
        version, asset = version_of(message), (message.topic, message.key)
        if (*asset, version) in seen:
            continue
        seen.add((*asset, version))
        if asset in newest:
            assert newest[asset][0] < version, f"{asset}: {version} comes after {newest[asset][0]}"
        newest[asset] = version, message
        epochs[job.topics.scenario_of(message.topic) or ""].add(version.epoch)
    for epoch in set().union(*epochs.values()):
        judged = judge_log(job, epoch)
        states = sorted(key for key in judged.needed if isinstance(key, Key))
        last = {key[:2]: key.version for key in states}
        for (topic, name), (version, message) in newest.items():
            if version.epoch == epoch:
                key = Key(topic, (name or b"").decode(), version)
                content = Content(message.key, message.value, message.headers)
                assert judged.emissions.get(key) == content, key
                assert version >= last.get(key[:2], version), key
    return epochs


def version_of(message: ConsumerRecord) -> Version:
    return Version.parse(dict(message.headers)["version"].decode())


def test_a_job_with_another_division_waits_and_says_for_whom(job: Job) -> None:
    job.start()
    load = Load(job, 3)
    load.send(100)
    load.finish()
    job.job_scenarios = DIVISION
    job.start("--job", "shop")

    def waits() -> bool:
        reports = [decode_progress(each.value) for each in job.read([job.topics.progress])]
        return any(
            report.query == "shop-kernel"
            and report.status == "waiting"
            and "orders is carried by the job, heard" in report.message
            for report in reports
        )

    wait_until(waits, 90, f"it does not wait, see {job.log}")
    load.send(100)
    load.finish()
    beats = [decode_heartbeat(each.value) for each in job.read([job.topics.buckets])]
    assert {beat.job for beat in beats} == {""}
    assert_equal_to_fold(job)
