"""An epoch begins above all that the log shows, whatever folders are there."""

from __future__ import annotations

import json

import pytest

from bus.base import TopicSpec
from bus.memory import MemoryBus
from domain.scenario import Scenario
from domain.scenario_parser import load_scenarios
from domain.version import MAX_EPOCH, Version
from streaming.fold.assignment import assign_engines
from streaming.fold.epochs import LoggedEpoch, rise, shown_by_log, start_of
from streaming.spark.restart_policy import judge
from streaming.state.checkpoint import (
    Epoch,
    LogProblem,
    LogReplaced,
    check_logs,
    current_epoch,
    raise_floor,
    read_floor,
)
from streaming.state.storage import LocalPath
from support.spark.driver_harness import SCENARIOS, TOPICS
from wire.job import Heartbeat, encode

NOW = 1_790_000_000_000


class Trial:
    """A query's folder, and a log that an earlier job has written states to."""

    def __init__(self, folder: LocalPath) -> None:
        (folder / "scenarios.toml").write_text(SCENARIOS)
        self.scenarios: dict[str, Scenario] = load_scenarios(folder / "scenarios.toml")
        self.homes = folder / "checkpoint"
        self.home = self.homes / "kernel"
        self.bus = MemoryBus(lambda: NOW)
        specs = TOPICS.specs(self.scenarios.values())
        self.bus.ensure_topics(TopicSpec(*spec) for spec in specs)

    def state(self, version: str, partition: int = 0, *, tombstone: bool = False) -> None:
        """A state record of this version, or the tombstone of an asset."""
        self.bus.producer().send_and_wait(
            "sites.states",
            b"a",
            None if tombstone else b"{}",
            headers=[("version", version.encode())],
            partition=partition,
        )

    def beat(self, epoch: int, offset: int, bucket: str = "sites/0", log: str = "") -> None:
        scenario, _, partition = bucket.partition("/")
        beat = Heartbeat(
            bucket, scenario, int(partition), epoch, "driver", "here", NOW, offset,
            0, 0, 0, 0, 0, "kernel", NOW, log=log,
        )  # fmt: skip
        self.bus.producer().send_and_wait(TOPICS.buckets, bucket.encode(), encode(beat))

    def begun(self, *, moved: bool = False) -> Epoch:
        """The epoch with which a job begins that finds these folders and this log.

        moved: whether another job has carried one of its scenarios.
        """
        assign_engines("kernel", self.scenarios, self.homes)
        rise(self.bus, TOPICS, self.home, self.scenarios.keys(), lambda: NOW, moved=moved)
        return current_epoch(self.home)

    def committed(self, epoch: int) -> None:
        """A batch of this epoch was committed."""
        checkpoint = self.home / f"epoch-{epoch}"
        for name in ("commits", "offsets"):
            (checkpoint / name).mkdir(parents=True, exist_ok=True)
        positions = {"sites.reports": {"0": 5, "1": 5}}
        (checkpoint / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps(positions)}")
        (checkpoint / "commits" / "0").write_text("v1\n{}")


@pytest.fixture
def trial(tmp_path: LocalPath) -> Trial:
    """A new folder, and a log without states."""
    return Trial(tmp_path)


def test_a_first_job_begins_with_epoch_1_and_stays_there(trial: Trial) -> None:
    assert trial.begun().number == 1
    assert start_of(current_epoch(trial.home)).quiet == {}
    trial.state("1.3.0")  # of its own, before its first commit
    trial.beat(1, 3)
    assert trial.begun().number == 1


@pytest.mark.parametrize("highest", [1, 2, 7])
def test_a_job_without_its_checkpoint_begins_above_all_states(trial: Trial, highest: int) -> None:
    trial.state(f"{highest}.40.2")
    trial.state("1.90.0", partition=1)  # a lower one that was written after it
    epoch = trial.begun()
    assert epoch.number == highest + 1
    # Up to what readers have seen only the last record of each asset is emitted.
    assert start_of(epoch).quiet == {"sites/0": 40, "sites/1": 90}


def test_tombstones_and_heartbeats_count_too(trial: Trial) -> None:
    trial.state("4.7.0", tombstone=True)
    assert trial.begun().number == 5
    other = Trial(trial.homes)
    other.beat(3, 50, "sites/1")
    assert other.begun().number == 4
    assert start_of(current_epoch(other.home)).quiet == {"sites/1": 50}


def test_an_old_copy_of_a_checkpoint_is_no_current_epoch(trial: Trial) -> None:
    trial.begun()
    trial.committed(1)
    trial.beat(1, 8)
    assert trial.begun().number == 1
    trial.beat(3, 60)  # the job that had the newer folders
    trial.state("4.61.0")  # of a job that did not live to its first heartbeat
    assert trial.begun().number == 5
    assert trial.begun().number == 5


def test_a_lost_checkpoint_of_a_log_that_is_gone_knows_which_one_it_was(trial: Trial) -> None:
    trial.beat(1, 8, log="gone")
    trial.state("1.8.0")
    present = trial.bus.topic_ids(["sites.reports"])
    start = start_of(trial.begun())
    assert start.quiet == {}
    with pytest.raises(LogReplaced):
        check_logs(start.logs, present)


def test_a_lost_checkpoint_of_the_same_log_goes_on_with_it(trial: Trial) -> None:
    present = trial.bus.topic_ids(["sites.reports"])
    trial.beat(1, 8, log=present["sites.reports"])
    start = start_of(trial.begun())
    assert (start.quiet, start.logs) == ({"sites/0": 8}, present)


def test_a_folder_of_a_former_release_goes_on(trial: Trial) -> None:
    trial.committed(2)
    trial.state("2.4.0")
    trial.beat(2, 4)
    assert trial.begun().number == 2
    assert read_floor(trial.home) == 2


def test_another_scenarios_epochs_do_not_count(trial: Trial) -> None:
    trial.beat(9, 4, "orders/0")
    assert trial.begun().number == 1


def test_the_floor_alone_keeps_epochs_rising(trial: Trial) -> None:
    raise_floor(trial.home, 6)
    raise_floor(trial.home, 2)
    assert read_floor(trial.home) == 6
    assert trial.begun().number == 7


def test_what_cannot_be_read_is_passed_over(trial: Trial) -> None:
    trial.state("nonsense")
    trial.bus.producer().send_and_wait("sites.states", b"a", b"{}", partition=0)
    trial.bus.producer().send_and_wait(TOPICS.buckets, b"a", b"no json")
    assert shown_by_log(trial.bus, TOPICS, trial.scenarios.keys()) == {}
    assert trial.begun().number == 1


def test_an_epoch_that_has_no_successor_is_an_error_that_stays(trial: Trial) -> None:
    trial.state(f"{MAX_EPOCH}.1.0")
    with pytest.raises(LogProblem, match="sites/0: the log shows epoch 999999") as raised:
        trial.begun()
    verdict = judge(f"LogProblem: {raised.value}")
    assert not verdict.passes
    assert "who may write" in verdict.advice


def test_the_highest_epoch_still_sorts() -> None:
    highest, below = Version(MAX_EPOCH, 0, 0), Version(MAX_EPOCH - 1, 9, 9)
    assert highest.sortable() > below.sortable()
    assert len(highest.sortable()) == len(below.sortable())


def test_shown_keeps_the_highest_of_each() -> None:
    assert LoggedEpoch().with_(2, 5).with_(1, 9) == LoggedEpoch(2, 9)


def test_a_scenario_that_has_moved_begins_above_both_jobs(tmp_path: LocalPath):
    trial = Trial(tmp_path)
    raise_floor(trial.home, 7)
    assert trial.begun().number == 8
    assert trial.begun().number == 8, "its own"
    trial.state("3.41.0")
    trial.beat(3, 42)
    risen = trial.begun(moved=True)
    assert risen.number == 9, "however low the epoch of the job that carried it before"
    assert start_of(risen).quiet == {"sites/0": 42}, "readers have seen what that job wrote"
