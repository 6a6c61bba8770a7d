"""A checkpoint of another log is refused, a lost one is told from a first start."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from bus.memory import MemoryBus
from streaming.spark.restart_policy import judge
from streaming.state.checkpoint import current_epoch
from streaming.state.identity import IDENTITY, ForeignCheckpoint, claim, read_identity
from streaming.state.storage import LocalPath
from support.spark.driver_harness import SCENARIOS, TOPICS, Stage

NOW = 1_790_000_000_000


def test_an_identity_is_written_once(tmp_path: LocalPath) -> None:
    assert read_identity(tmp_path) is None
    own = claim(tmp_path, "aLog", "a.", NOW)
    assert (own.cluster, own.prefix, own.since) == ("aLog", "a.", NOW)
    assert own.id
    assert claim(tmp_path, "aLog", "a.", NOW + 1) == own == read_identity(tmp_path)


def test_each_place_has_an_id_of_its_own(tmp_path: LocalPath) -> None:
    one, other = (claim(tmp_path / name, "aLog", "", NOW).id for name in "ab")
    assert one != other


@pytest.mark.parametrize(("cluster", "prefix"), [("other", "a."), ("aLog", ""), ("other", "b.")])
def test_another_log_is_refused(tmp_path: LocalPath, cluster: str, prefix: str) -> None:
    claim(tmp_path, "aLog", "a.", NOW)
    with pytest.raises(
        ForeignCheckpoint, match=r"is of cluster aLog, topic prefix 'a\.'"
    ) as raised:
        claim(tmp_path, cluster, prefix, NOW)
    assert f"this job has cluster {cluster}" in str(raised.value)
    verdict = judge(f"ForeignCheckpoint: {raised.value}")
    assert not verdict.passes
    assert "TALLYBOARD_CHECKPOINT" in verdict.advice


def test_an_identity_that_cannot_be_read_may_be_anybodys(tmp_path: LocalPath) -> None:
    (tmp_path / IDENTITY).write_whole(b"{")
    with pytest.raises(ForeignCheckpoint, match=r"identity\.json cannot be read"):
        claim(tmp_path, "aLog", "a.", NOW)


# ---- what the job says --------------------------------------------------------------------------


@pytest.fixture
def stage(tmp_path: LocalPath, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A driver, not begun."""
    made = Stage(tmp_path, MemoryBus(lambda: int(time.time() * 1000)), monkeypatch)
    made.file.write_text(SCENARIOS)
    yield made
    made.end()


def test_a_first_start_says_so(stage: Stage) -> None:
    stage.begin()
    stage.wait_for("running")
    assert stage.query_reports()[-1].message == "first start: epoch 1 begins with the log"


def test_a_lost_checkpoint_says_so(stage: Stage) -> None:
    stage.begin()
    stage.wait_for("running")
    stage.end()
    version = [("version", b"1.1.0")]
    stage.bus.producer().send_and_wait(TOPICS.states("sites"), b"a", b"{}", headers=version)
    (stage.folder / "checkpoint").delete()
    stage.begin()
    stage.wait_for("running")
    assert stage.query_reports()[-1].message == (
        "the checkpoint is lost, and the log shows epoch 1: it is read again in epoch 2"
    )


def test_a_foreign_checkpoint_is_refused_until_it_is_taken_away(stage: Stage) -> None:
    claim(stage.folder / "checkpoint", "another cluster", "", NOW)
    stage.begin()
    stage.wait_for("waiting")
    assert "it is of cluster another cluster, no topic prefix" in stage.query_reports()[-1].message
    assert stage.queries == []
    assert stage.rules() == 0
    home = stage.folder / "checkpoint" / "kernel"
    assert [name for name in home.names() if name.startswith("epoch")] == []
    assert current_epoch(home).number == 1
