"""The job on several executors: each has a part of the buckets, and the states are the fold's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from jobs import SCENARIOS, Job, Load
from judge import assert_equal_to_fold

from stack import EmbeddedBroker, wait_until
from wire.job import decode_heartbeat

pytestmark = [pytest.mark.timeout(480), pytest.mark.slow]


@pytest.fixture
def job(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[Job]:
    """A configured job of two executors, not yet started."""
    made = Job(broker, tmp_path / "job", "executors.", master="local-cluster[2,2,1024]", batch_s=5)
    made.configure(SCENARIOS)
    yield made
    made.clean_up()


def owners(job: Job) -> dict[str, str]:
    """Return which executor sent the newest heartbeat of each bucket."""
    beats = [decode_heartbeat(message.value) for message in job.read([job.topics.buckets])]
    return {beat.bucket: beat.executor for beat in beats}


def test_two_executors_share_the_buckets_and_the_states_are_the_folds(job: Job) -> None:
    load = Load(job, 3)
    job.start()
    load.send(300)
    load.finish()
    assert len(owners(job)) == 4
    assert len(set(owners(job).values())) == 2, owners(job)
    job.clean_up()
    assert_equal_to_fold(job)


def test_the_working_copy_of_the_state_lies_in_the_directory_that_is_set(job: Job) -> None:
    load = Load(job, 4)
    job.start()
    load.send(100)
    load.finish()
    checkpoint = job.data_dir / "checkpoint"
    wait_until(lambda: list(checkpoint.rglob("*.zip")), 60, "no state was committed")
    assert list((job.data_dir / "spark").rglob("*")), "nothing of Spark's lies there"
