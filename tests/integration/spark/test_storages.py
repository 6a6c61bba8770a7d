"""Checkpoints at a URL: the storage itself, and jobs killed, moved and kept apart on it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from config.settings import Settings
from streaming.state.hadoop import storage_at
from streaming.state.storage import StoragePath
from support.histories.judge import assert_equal_to_fold
from support.run.stack import wait_until
from support.spark.jobs import SCENARIOS, Job, Load, alive
from support.spark.storages.hdfs import MiniHdfs
from support.spark.storages.s3 import MiniS3
from support.spark.storages.storage_contract import StorageContract
from support.spark.storages.storage_jvm import storage_session
from wire.job import QueryReport, decode_heartbeat, decode_progress

pytestmark = [pytest.mark.timeout(480), pytest.mark.slow]


@pytest.mark.extensive(
    guard="tests/unit/streaming/test_storage.py::test_what_is_broken_off_leaves_the_old_content"
)
class TestHdfs(StorageContract):
    @pytest.fixture(scope="class")
    def root(
        self, hdfs: MiniHdfs, jars_dir: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[StoragePath]:
        folder = tmp_path_factory.mktemp("driver")
        settings = Settings(data_dir=folder, jars_dir=jars_dir, _env_file=None)  # type: ignore[call-arg]
        with storage_session(settings) as session:
            yield storage_at(f"{hdfs.url}/contract", session, folder)

    @pytest.fixture
    def home(self, root: StoragePath) -> StoragePath:
        return root / str(uuid4())


@pytest.mark.extensive(
    guard="tests/unit/streaming/test_storage.py::test_what_is_broken_off_leaves_the_old_content"
)
class TestS3(StorageContract):
    @pytest.fixture(scope="class")
    def root(
        self, s3: MiniS3, jars_dir: Path, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[StoragePath]:
        folder, url = tmp_path_factory.mktemp("driver"), f"{s3.url}/contract"
        settings = Settings(
            data_dir=folder,
            jars_dir=jars_dir,
            checkpoint=url,
            spark_jars=s3.list_archives(),
            _env_file=None,
        )  # type: ignore[call-arg]
        with pytest.MonkeyPatch.context() as patched:
            for name, value in s3.environment().items():
                patched.setenv(name, value)
            with storage_session(settings) as session:
                yield storage_at(url, session, folder)

    @pytest.fixture
    def home(self, root: StoragePath) -> StoragePath:
        return root / str(uuid4())


# ---- jobs ---------------------------------------------------------------------------------------


@pytest.fixture
def storage() -> str:
    """Where the job keeps its checkpoints."""
    return "hdfs"


@pytest.fixture
def job(make_job: Callable[..., Job], storage: str, request: pytest.FixtureRequest) -> Job:
    """A job whose checkpoints are on a storage."""
    server, name = request.getfixturevalue(storage), f"{request.node.originalname[:50]}-{storage}"
    made = make_job(prefix=f"{name}.", checkpoint=f"{server.url}/{name}")
    if isinstance(server, MiniS3):
        made.spark_jars, made.variables = server.list_archives(), server.environment()
    return made


def reports(job: Job) -> list[QueryReport]:
    return [decode_progress(message.value) for message in job.read([job.topics.progress])]


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a job with all that it has started."""
    group = [
        int(folder.name) for folder in Path("/proc").glob("[0-9]*") if _group(folder) == process.pid
    ]
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not alive(group), 10, "the JVM outlives kill -9")


def _group(folder: Path) -> int:
    try:
        return os.getpgid(int(folder.name))
    except ProcessLookupError:
        return 0


@pytest.mark.extensive(
    guard="tests/integration/spark/test_conformance.py::"
    "test_the_kernel_is_the_fold_over_a_shorter_log"
)
@pytest.mark.parametrize("storage", ["hdfs", "s3"])
def test_a_job_goes_on_where_it_was_killed(job: Job) -> None:
    load = Load(job, 7)
    process = job.start()
    load.send(300)
    load.finish()
    kill(process)
    load.send(100)
    process = job.start()
    load.finish()
    process.terminate()
    assert process.wait(30) == 0, job.log.read_text()[-2000:]
    assert_equal_to_fold(job)
    assert {entry.name for entry in (job.data_dir / "checkpoint").iterdir()} <= {
        "leader.lock",
        "leader.json",
    }
    assert reports(job)[0].message == ""
    first = next(report.message for report in reports(job) if report.status == "running")
    assert first.startswith("first start: epoch 1")


@pytest.mark.extensive(
    guard="tests/unit/streaming/test_streaming_leadership.py::"
    "test_a_lease_ends_before_another_machine_leads"
)
def test_a_second_machine_waits_and_takes_over(job: Job, tmp_path: Path) -> None:
    """Another data directory is another machine: no lock is common to both."""
    other = Job(job.broker, tmp_path / "other", job.prefix, batch_s=5, checkpoint=job.checkpoint)
    other.configure(SCENARIOS)
    keys = job.data_dir / "command-keys.json"
    load = Load(job, 8)
    try:
        first = job.start()
        load.send(100)
        load.finish()
        (other.data_dir / keys.name).write_bytes(keys.read_bytes())
        second = other.start()
        wait_until(lambda: "standing by" in _text(other.log), 60, "it does not stand by")
        load.send(50)
        load.finish()
        assert "this process leads" not in _text(other.log)

        os.kill(first.pid, signal.SIGSTOP)  # its JVM goes on, and could commit
        load.send(50)
        wait_until(lambda: "this process leads" in _text(other.log), 60, "it does not take over")
        load.send(50)
        load.finish()

        os.kill(first.pid, signal.SIGCONT)
        assert first.wait(30) != 0
        second.terminate()
        assert second.wait(30) == 0, _text(other.log)[-2000:]
    finally:
        other.clean_up()
    assert_equal_to_fold(job)


def _text(log: Path) -> str:
    return log.read_text() if log.exists() else ""


@pytest.mark.extensive(
    guard="tests/unit/streaming/test_identity.py::"
    "test_a_foreign_checkpoint_is_refused_until_it_is_taken_away"
)
def test_a_lost_checkpoint_is_no_first_start_and_a_foreign_one_is_refused(
    job: Job, tmp_path: Path
) -> None:
    load = Load(job, 9)
    process = job.start()
    load.send(100)
    load.finish()
    process.terminate()
    assert process.wait(30) == 0

    foreign = Job(
        job.broker, tmp_path / "foreign", "foreign.", batch_s=5, checkpoint=job.checkpoint
    )
    foreign.configure(SCENARIOS)
    try:
        foreign.start()
        refused = lambda: [r for r in reports(foreign) if r.status == "waiting"]  # noqa: E731
        wait_until(refused, 60, f"it is not refused, see {foreign.log}")
        why = refused()[0].message
        assert f"topic prefix '{job.prefix}'" in why
        assert "TALLYBOARD_CHECKPOINT" in why
        assert foreign.read([foreign.topics.states("sites")]) == []
    finally:
        foreign.clean_up()

    job.checkpoint = f"{job.checkpoint}-moved"  # nothing is there
    process = job.start()
    load.send(100)
    load.finish()
    process.terminate()
    assert process.wait(30) == 0
    messages = {report.message for report in reports(job) if report.epoch == 2}
    lost = "the checkpoint is lost, and the log shows epoch 1: it is read again in epoch 2"
    assert any(message.startswith(lost) for message in messages), messages
    beats = [decode_heartbeat(m.value) for m in job.read([job.topics.buckets])]
    assert {beat.epoch for beat in beats} == {1, 2}
