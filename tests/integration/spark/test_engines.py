"""A rule in Python and the kernel, side by side in one job; and a scenario that moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from domain.scenario import PythonRule
from support.histories.judge import assert_equal_to_fold
from support.run.stack import wait_until
from support.spark.jobs import SCENARIOS, Job, Load
from wire.job import decode_heartbeat
from wire.source import encode_scenario

pytestmark = [
    pytest.mark.timeout(480),
    pytest.mark.slow,
    pytest.mark.extensive(
        guard="tests/integration/spark/test_batch_queries.py::"
        "test_the_state_reader_reads_what_the_fold_has"
    ),
]

IN_PYTHON = SCENARIOS.replace('{ kind = "latest" }', '{ kind = "python", function = "loudest" }')


@pytest.fixture
def job(make_job: Callable[..., Job]) -> Job:
    """A job with a Python rule."""
    return make_job(IN_PYTHON, batch_s=None)


def test_each_scenario_on_its_engine(job: Job) -> None:
    process = job.start()
    load = Load(job, 7)
    load.send(500)
    load.finish()
    expected = {("sites", "kernel"), ("orders", "python")}
    # Ticks bring heartbeats, and may come after all else has been answered.
    wait_until(lambda: engines_of(job) >= expected, 60, "not both engines have been heard of")
    process.terminate()
    assert process.wait(10) == 0
    assert_equal_to_fold(job)
    assert engines_of(job) == expected


def engines_of(job: Job) -> set[tuple[str, str]]:
    """Scenario and engine of every heartbeat so far."""
    beats = [decode_heartbeat(m.value) for m in job.read([job.topics.buckets])]
    return {(beat.scenario, beat.engine) for beat in beats}


def test_a_log_that_calls_for_python_hands_its_scenario_over(job: Job) -> None:
    job.configure(SCENARIOS)
    process = job.start()
    load = Load(job, 8)
    load.send(100)
    load.finish()
    rule = replace(job.scenarios()["orders"], rule=PythonRule("loudest"))
    topic = job.topics.reports("orders")
    job.bus.producer().send_and_wait(topic, None, encode_scenario(rule), partition=0)
    assert process.wait(60) != 0
    process = job.start()
    load.send(100)
    load.finish()
    process.terminate()
    assert process.wait(10) == 0
    beats = [decode_heartbeat(m.value) for m in job.read([job.topics.buckets])]
    assert ("orders", "python", 2) in {(b.scenario, b.engine, b.epoch) for b in beats}
    assert "sites" not in {b.scenario for b in beats if b.engine == "python"}
