"""A job whose checkpoint is gone goes on above all that readers have seen."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from domain.version import Version
from streaming.state.checkpoint import raise_floor
from streaming.state.storage import LocalPath
from support.spark.jobs import Job, Load

pytestmark = [
    pytest.mark.timeout(480),
    pytest.mark.slow,
    pytest.mark.extensive(
        guard="tests/unit/streaming/test_streaming_state_rebuild.py::"
        "test_readers_have_been_where_the_heartbeats_were"
    ),
]


@pytest.fixture(params=["kernel", "python"])
def job(make_job: Callable[..., Job], request: pytest.FixtureRequest) -> Job:
    """A job that begins with its fourth epoch, as after rebuilds."""
    made = make_job(engine=request.param)
    raise_floor(LocalPath(made.data_dir / "checkpoint" / request.param), 3)
    return made


Place = tuple[str, int, bytes]
"""A topic, one of its partitions, and an asset."""


def versions(job: Job) -> dict[Place, list[Version]]:
    """The versions of each asset's records, in the order of the log."""
    seen: dict[Place, list[Version]] = {}
    for message in job.read([job.topics.states(name) for name in job.scenarios()]):
        version = Version.parse(dict(message.headers)["version"].decode())
        seen.setdefault((message.topic, message.partition, message.key or b""), []).append(version)
    return seen


def run(job: Job, load: Load) -> None:
    """Run the job until it has answered a load."""
    process = job.start()
    load.send(200)
    load.finish()
    process.terminate()
    assert process.wait(30) == 0, job.log.read_text()[-2000:]


def test_states_rise_above_those_of_the_lost_checkpoint(job: Job) -> None:
    load = Load(job, 1)
    run(job, load)
    before = versions(job)
    assert {version.epoch for each in before.values() for version in each} == {4}

    shutil.rmtree(job.data_dir / "checkpoint")
    run(job, load)

    after = versions(job)
    risen = {place: each[len(before.get(place, ())) :] for place, each in after.items()}
    assert {version.epoch for each in risen.values() for version in each} == {5}
    for place, each in risen.items():
        assert each == sorted(each), place
    # What readers have seen is no change again, but for an asset's last record, and for what time
    # brought about behind the last record that any version or heartbeat names.
    for place, each in before.items():
        earlier = {version.in_log() for version in each[:-5]}
        assert not earlier & {version.in_log() for version in risen[place]}, place


def test_an_old_copy_of_the_checkpoint_rises_too(job: Job) -> None:
    load, checkpoint = Load(job, 1), job.data_dir / "checkpoint"
    run(job, load)
    shutil.copytree(checkpoint, job.data_dir / "copy")
    shutil.rmtree(checkpoint)
    run(job, load)
    shutil.rmtree(checkpoint)
    (job.data_dir / "copy").rename(checkpoint)
    before = versions(job)

    run(job, load)

    for place, each in versions(job).items():
        added = each[len(before.get(place, ())) :]
        assert all(version.epoch == 6 for version in added), place
