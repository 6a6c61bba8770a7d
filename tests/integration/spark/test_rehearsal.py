"""A job rehearses its commits beside its query: nobody hears of it, and no state is another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from jobs import SCENARIOS, Job, Load
from judge import assert_equal_to_fold

from stack import EmbeddedBroker, wait_until
from streaming.rehearsal import COMMITS, LEAST_BATCH_S

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]


@pytest.fixture
def job(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[Job]:
    """A configured job with batches long enough, not yet started."""
    made = Job(broker, tmp_path / "job", "rehearsal.", batch_s=LEAST_BATCH_S)
    made.configure(SCENARIOS)
    yield made
    made.clean_up()


def test_commits_are_rehearsed_unheard(job: Job) -> None:
    load = Load(job, 9)
    process = job.start()
    load.send(150)
    load.finish()
    commits = job.data_dir / "spark" / "local" / "rehearsal" / "commits"
    wait_until((commits / str(COMMITS - 1)).exists, 90, "the rehearsal is not through")
    load.send(150)
    load.finish()
    process.terminate()
    assert process.wait(8) == 0
    said = job.log.read_text()
    assert "rehearsal" not in said
    assert "Lost task" not in said
    assert_equal_to_fold(job)
