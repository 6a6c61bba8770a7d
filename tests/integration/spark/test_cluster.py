"""The job on a standalone cluster whose workers have an empty environment."""

from __future__ import annotations

import json
import os
import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from support.histories.judge import assert_equal_to_fold
from support.kafka.secured_broker import SecuredBroker
from support.run.stack import EmbeddedBroker, free_ports, wait_until
from support.spark.disclosure import in_arguments, in_files, pages
from support.spark.jobs import Job
from support.spark.pipeline_process import PipelineProcess
from support.spark.topology import SECRET, Feed, Topology, can_hide, scenario
from wire.job import QueryReport, decode_heartbeat

pytestmark = [pytest.mark.timeout(480), pytest.mark.slow]

PYTHON = """\
[words]
partitions = 2
vote_lifetime = "1d"
states = [{ name = "attack" }, { name = "odd" }, { name = "clear" }]
rule = { kind = "python", function = "loudest" }
"""


def last(job: Job, query: str = "kernel") -> QueryReport | None:
    """The newest report of a query."""
    return (job.query_reports(query) or [None])[-1]  # type: ignore[list-item]


def is_in(job: Job, status: str, trigger: str = "", query: str = "kernel") -> bool:
    report = last(job, query)
    return report is not None and report.status == status and trigger in report.trigger


def quiet(cluster: Topology) -> None:
    """Fail where an executor logs what the driver would not."""
    logs = [*cluster.folder.glob("worker-*-work/*/*/std*")]
    assert len(logs) >= 2
    for log in logs:
        lines = [line for line in log.read_text(errors="replace").splitlines() if " INFO" in line]
        assert not lines[:3], log


@pytest.mark.extensive(
    guard="tests/unit/streaming/test_spark_cluster.py::"
    "test_the_shipped_code_is_importable_without_the_checkout"
)
def test_rules_and_pipelines_in_python_run_on_workers_with_an_empty_environment(
    open_topology: Any, tmp_path: Path, broker: EmbeddedBroker
) -> None:
    cluster: Topology = open_topology(workers=(4, 4))
    job = cluster.job("bare.", f"{scenario()}\n{PYTHON}", batch_s=5)
    job.start()
    with Feed(job), Feed(job, "words", rate=20):
        wait_until(lambda: job.state_records() > 200, 150, f"no states, see {job.log}")
        wait_until(
            lambda: job.state_records("words") > 50, 150, f"no states in Python, see {job.log}"
        )
        beats = [decode_heartbeat(one.value) for one in job.read([job.topics.buckets])]
        assert {beat.executor for beat in beats if beat.engine == "kernel"} == {"0", "1"}, beats
    quiet(cluster)
    running = PipelineProcess(broker, tmp_path / "pipelines", "bare.", pipelines="recent-reports")
    running.trials = False
    running.variables = {**job.variables, "TALLYBOARD_PIPELINES_MASTER": cluster.url}
    running.variables |= {"TALLYBOARD_SCENARIOS": str(job.scenarios_file)}
    running.data_dir.mkdir()
    cluster.jobs.append(running)
    job.started[-1].terminate()  # it has all of the cluster's cores
    assert job.started[-1].wait(30) == 0
    running.start()
    rates = ["bare.pipelines.recent-reports"]
    wait_until(lambda: running.read(rates), 150, f"nothing came, see {running.log}")
    running.clean_up()
    assert_equal_to_fold(job)


def committed(job: Job) -> list[Path]:
    """The batches that are committed."""
    return [*(job.data_dir / "checkpoint").glob("*/epoch-*/commits/[0-9]*")]


@pytest.mark.skipif(not can_hide(), reason="this machine grants no mounts of one's own")
@pytest.mark.extensive(
    guard="tests/unit/streaming/test_spark_cluster.py::"
    "test_an_executor_without_the_checkpoint_is_named_within_20_s_and_nothing_starts"
)
def test_a_worker_without_the_checkpoint_is_named_and_nothing_is_committed(
    open_topology: Any,
) -> None:
    cluster: Topology = open_topology(workers=(4, 4), blind=1)
    job = cluster.job("blind.", batch_s=5)
    job.start()
    with Feed(job) as feed:
        wait_until(lambda: last(job), 150, f"nothing is reported, see {job.log}")
        begun = job.query_reports()[0].at
        wait_until(lambda: is_in(job, "waiting"), 60, f"it does not wait, see {job.log}")
        report = last(job)
        assert report is not None
        assert report.at - begun < 20_000, report
        checkpoint = job.data_dir / "checkpoint"
        assert f"on 127.0.0.1 does not see the checkpoint {checkpoint} (no such" in report.message
        assert "mount its storage there" in report.message
        enough = feed.sent + 1_000  # of which a batch would have been committed
        wait_until(lambda: feed.sent >= enough, 60, "the feed has stopped")
        assert is_in(job, "waiting")
        assert (job.state_records(), committed(job)) == (0, [])
        cluster.workers[1].kill()
        wait_until(lambda: is_in(job, "running"), 60, f"it does not go on, see {job.log}")
        wait_until(lambda: job.state_records() > 200, 60, f"no states, see {job.log}")


@pytest.mark.extensive(
    guard="tests/unit/streaming/test_spark_cluster.py::"
    "test_a_query_starts_at_once_with_enough_slots_and_soon_with_fewer"
)
def test_real_time_mode_waits_for_its_slots_in_micro_batches(open_topology: Any) -> None:
    cluster: Topology = open_topology(workers=(4,))
    job = cluster.job("slots.", trigger="real-time", batch_s=5, state_partitions=2)
    job.start()
    with Feed(job):
        wait_until(lambda: is_in(job, "running"), 150, f"it does not run, see {job.log}")
        report = last(job)
        assert report is not None
        assert report.trigger == "micro-batch"
        assert "needs 6 slots, the cluster has 4" in report.message
        wait_until(lambda: job.state_records() > 200, 60, f"no states, see {job.log}")
        cluster.add_worker(4)
        wait_until(lambda: is_in(job, "running", "real-time"), 60, f"see {job.log}")
        before = job.state_records()
        wait_until(lambda: job.state_records() > before + 200, 60, f"no states, see {job.log}")
        cluster.workers[1].kill()
        wait_until(lambda: is_in(job, "running", "micro-batch"), 60, f"see {job.log}")
        before = job.state_records()
        wait_until(lambda: job.state_records() > before + 200, 60, f"no states, see {job.log}")
    assert not [one for one in job.query_reports() if "local[N]" in one.message]
    job.clean_up()
    assert_equal_to_fold(job)


@pytest.mark.extensive(
    guard="tests/unit/streaming/test_spark_cluster.py::"
    "test_the_secret_goes_by_a_file_that_is_gone_once_the_session_is_there"
)
def test_no_secret_is_in_arguments_logs_work_folders_or_sparks_pages(
    open_topology: Any, tmp_path: Path, jars_dir: Path
) -> None:
    password = "of-the-job-71b3&=5e"
    (tmp_path / "broker").mkdir()
    secured = SecuredBroker(tmp_path / "broker", jars_dir, job=password)
    secured.start()
    try:
        _look_for_secrets(open_topology(broker=secured), secured, password)
    finally:
        secured.kill()


def _look_for_secrets(cluster: Topology, secured: SecuredBroker, password: str) -> None:
    (page,) = free_ports(1)
    variables = {
        "TALLYBOARD_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "TALLYBOARD_KAFKA_SASL_MECHANISM": "PLAIN",
        "TALLYBOARD_KAFKA_USERNAME": "admin",
        "TALLYBOARD_KAFKA_PASSWORD": secured.options()["sasl.password"],
        "TALLYBOARD_SPARK_UI_PORT": str(page),
    }
    words = [SECRET, secured.options()["sasl.password"]]
    job = cluster.job("secret.", batch_s=5, variables=variables)
    job.start()
    with Feed(job):
        wait_until(lambda: job.state_records() > 200, 150, f"no states, see {job.log}")
        assert in_arguments(words) == []
        secured.stand_still()  # so that a batch fails, of which Spark tells more
        wait_until(lambda: "Exception" in job.log.read_text(), 90, f"see {job.log}")
        own = f"http://127.0.0.1:{page}"
        api = f"{own}/api/v1/applications"
        (application,) = json.loads(dict(pages(api))[api])
        more = [f"{api}/{application['id']}/{what}" for what in ("environment", "sql", "jobs")]
        places = [f"{own}/{what}/" for what in ("jobs", "SQL", "StreamingQuery", "environment")]
        shown = dict(pages(cluster.pages, *places, *more))
        secured.go_on()
    assert len(shown) > 20
    assert any("spark.authenticate" in text for text in shown.values())
    assert [address for address, text in shown.items() if any(w in text for w in words)] == []
    kept = {cluster.folder / "spark.conf"}
    folders = [cluster.folder, job.data_dir]
    assert {*in_files(folders, words)} - kept == set()
    assert in_arguments(words) == []


@pytest.mark.extensive(
    guard="tests/unit/streaming/test_spark_cluster.py::"
    "test_a_query_starts_at_once_with_enough_slots_and_soon_with_fewer"
)
def test_a_killed_executor_costs_at_most_ten_seconds(open_topology: Any) -> None:
    cluster: Topology = open_topology(workers=(4, 4))
    job = cluster.job("killed.", trigger="real-time", batch_s=5, state_partitions=4)
    job.start()
    with Feed(job):
        wait_until(lambda: is_in(job, "running", "real-time"), 150, f"see {job.log}")
        before = job.state_records()
        wait_until(lambda: job.state_records() > before + 1_000, 60, f"no states, see {job.log}")
        at = int(time.time() * 1000)
        os.kill(cluster.workers[0].executors[0], signal.SIGKILL)
        wait_until(lambda: is_in(job, "running", "real-time"), 60, f"see {job.log}")
        before = job.state_records()
        wait_until(lambda: job.state_records() > before + 1_000, 60, f"no states, see {job.log}")
    times = sorted(one.timestamp for one in job.read([job.topics.states("sites")]))
    gaps = [(b - a, a) for a, b in pairwise(times) if b > at]
    assert max(gaps)[0] < 10_000, max(gaps)
