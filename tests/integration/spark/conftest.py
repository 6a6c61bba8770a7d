"""What tests of the job and its kernel are given."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from support.run.locks import exclusive
from support.run.stack import EmbeddedBroker
from support.spark.jobs import SCENARIOS, Job
from support.spark.kernel_replay import Replay, compile_replay
from support.spark.spark_session import spark
from support.spark.storages.hdfs import MiniHdfs
from support.spark.storages.s3 import MiniS3
from support.spark.topology import Topology, topology

__all__ = ["hdfs", "replay", "s3", "spark"]

Server = TypeVar("Server", MiniHdfs, MiniS3)


@contextmanager
def started(server: Server) -> Iterator[Server]:
    """Yield a server that runs, and stop it afterwards, also where it did not start."""
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory, jars_dir: Path) -> Iterator[MiniHdfs]:
    """A small HDFS for the session; tests that share it keep apart by folder."""
    with started(MiniHdfs(tmp_path_factory.mktemp("hdfs"), jars_dir)) as small:
        yield small


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory, jars_dir: Path) -> Iterator[MiniS3]:
    """A server of S3 for the session; tests that share it keep apart by folder."""
    with started(MiniS3(tmp_path_factory.mktemp("s3"), jars_dir)) as small:
        yield small


@pytest.fixture
def make_job(
    broker: EmbeddedBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Job]]:
    """Makes the test's job, configured and not yet started; all it has started ends with the test.

    text: its scenarios; options: settings of `Job`. Unless they say otherwise its batches are
    short, so that a test sees some end.
    """
    with ExitStack() as stack:

        def make(text: str = SCENARIOS, **options: Any) -> Job:
            name = re.sub(r"[^\w.-]", "-", request.node.name)[:99].rstrip("-")
            options = {"prefix": f"{name}.", "batch_s": 5, **options}
            made = Job(broker, tmp_path / "job", **options)
            stack.callback(made.clean_up)
            made.configure(text)
            return made

        yield make


@pytest.fixture
def job(make_job: Callable[..., Job]) -> Job:
    """A job, configured and not yet started."""
    return make_job()


@pytest.fixture
def open_topology(tmp_path: Path, jars_dir: Path, broker: EmbeddedBroker) -> Iterator[Any]:
    """Opens a topology beside the session's broker, or brokers of its own; all of it ends with the
    test."""
    with ExitStack() as stack:

        def open_(**how: Any) -> Topology:
            how = {"broker": None if "brokers" in how else broker, **how}
            return stack.enter_context(topology(tmp_path / "cluster", jars_dir, **how))

        yield open_


@pytest.fixture(scope="session")
def replay(session_folder: Path, jars_dir: Path) -> Replay:
    """The kernel, compiled, beside its harness, which the session compiles once."""
    work = session_folder / "replay"
    with exclusive(session_folder / "replay.lock"):
        if not work.exists():
            compile_replay(jars_dir, work)
    return Replay(jars_dir, work)
