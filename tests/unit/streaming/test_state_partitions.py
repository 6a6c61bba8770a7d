"""The number of state partitions: which, since when, and how another comes into force."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from pydantic import ValidationError

from config.settings import Settings
from domain.records import Mute
from domain.scenario_parser import load_scenarios
from streaming.fold.assignment import EngineAssignment, ProcessNeeded, slots
from streaming.fold.epochs import START, EpochStart, UnreadableStart, begin, divide, start_of
from streaming.job import state_partitions
from streaming.job.state_partitions import (
    StatePartitions,
    most_state_partitions,
    next_state_partitions,
)
from streaming.state import transfer
from streaming.state.checkpoint import Epoch, begin_epochs, current_epoch, start_folder
from streaming.state.restore import read_initial_state
from streaming.state.storage import LocalPath, StoragePath
from streaming.state.transfer import Seed, write_seeds
from wire.topics import Topics

ROOT = Path(__file__).resolve().parents[3]
OFFSETS = {"sites.reports": {"0": 40, "1": 7}}


def settings(**given: Any) -> Settings:
    return Settings(_env_file=None, **given)  # type: ignore[call-arg]


def commit(epoch: Epoch) -> None:
    """Commit a batch, as Spark does."""
    for part in ("offsets", "commits"):
        (epoch.path / part).make()
    (epoch.path / "offsets" / "3").write_whole(b"v1\n{}\n" + json.dumps(OFFSETS).encode())
    (epoch.path / "commits" / "3").write_whole(b"v1\n{}")


class Trial:
    """A query's folder, and what decides on its state partitions."""

    def __init__(self, home: LocalPath, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.statuses = home, list[str]()
        begin_epochs([home])
        self.seeds = {"sites/0": Seed("sites-0.seed", "the rule of then")}
        self.error: Exception | None = None
        monkeypatch.setattr(state_partitions, "write_seeds", self._write)

    def _write(self, _spark: Any, _engine: Any, _path: Any, batch: int, into: StoragePath) -> Any:
        assert batch == 3
        for seed in self.seeds.values():
            (into / seed.file).write_whole(b"a seed")
        if self.error:
            raise self.error
        return self.seeds

    def divided(self, **given: Any) -> StatePartitions:
        workload: Any = SimpleNamespace(
            settings=settings(**given), home=self.home, engine="kernel", topics=Topics()
        )
        report: Any = SimpleNamespace(status=lambda *words: self.statuses.append(" ".join(words)))
        spark: Any = None
        return StatePartitions(workload, report, spark)

    @property
    def start(self) -> EpochStart:
        return start_of(current_epoch(self.home))


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trial:
    return Trial(LocalPath(tmp_path) / "checkpoint" / "kernel", monkeypatch)


def test_a_new_checkpoint_has_two_on_one_machine_and_eight_on_a_cluster() -> None:
    assert settings().first_state_partitions == 2
    assert settings(spark_master="local[4]").first_state_partitions == 2
    assert settings(spark_master="spark://one:7077").first_state_partitions == 8
    assert settings(spark_master="spark://one:7077", state_partitions=3).first_state_partitions == 3


@pytest.mark.parametrize("number", [0, 257, "two"])
def test_a_number_out_of_bounds_is_refused(number: Any) -> None:
    with pytest.raises(ValidationError, match="state_partitions"):
        settings(state_partitions=number)


def test_slots_count_the_state_partitions() -> None:
    shares: Any = {"kernel": load_scenarios(ROOT / "scenarios.toml")}
    assert slots(shares, "real-time", 8) == slots(shares, "real-time", 2) + 6
    room = slots(shares, "real-time", 8) - 1
    sharing = EngineAssignment("kernel", "real-time", LocalPath("/nowhere"), shares, room, 8)
    with pytest.raises(ProcessNeeded):
        sharing.anew("kernel", shares["kernel"])


def test_a_checkpoint_without_a_number_has_two(trial: Trial) -> None:
    epoch = current_epoch(trial.home)
    commit(epoch)
    assert start_of(epoch).state_partitions == 2
    cluster = settings(spark_master="spark://one:7077")
    assert (
        next_state_partitions(cluster, epoch, start_of(epoch)) == 2
    )  # nobody has asked for another
    assert most_state_partitions(cluster, trial.home.parent, ["kernel"]) == 2
    assert most_state_partitions(settings(state_partitions=8), trial.home.parent, ["kernel"]) == 8
    divide(epoch, 16)
    assert (
        most_state_partitions(settings(state_partitions=8), trial.home.parent, ["kernel"]) == 16
    )  # if refused


def test_a_start_that_cannot_be_read_is_the_query_s_to_say(trial: Trial) -> None:
    folder = start_folder(current_epoch(trial.home))
    (folder / START).write_whole(b"{")
    assert most_state_partitions(settings(), trial.home.parent, ["kernel"]) == 1
    with pytest.raises(UnreadableStart):
        trial.divided().settle()


def test_an_epoch_without_a_batch_is_given_its_number(trial: Trial) -> None:
    def with_quiet(_number: int, _into: StoragePath) -> EpochStart:
        return EpochStart(quiet={"sites/0": 5})

    begun = begin(trial.home, with_quiet)
    assert trial.divided(state_partitions=8).settle() == begun
    assert (trial.start.state_partitions, trial.start.quiet) == (8, {"sites/0": 5})
    assert trial.divided(state_partitions=4).settle() == begun
    assert trial.start.state_partitions == 4
    assert trial.statuses == []


def test_a_number_of_one_s_own_is_left_alone(trial: Trial) -> None:
    epoch = current_epoch(trial.home)
    commit(epoch)
    assert trial.divided().settle() == epoch
    assert trial.divided(state_partitions=2).settle() == epoch
    assert not start_folder(epoch).exists()


def test_committed_state_is_carried_into_an_epoch_of_the_same_versions(trial: Trial) -> None:
    def rebuilt(_number: int, into: StoragePath) -> EpochStart:
        (into / "later.seed").write_whole(b"not begun yet")
        return EpochStart(
            ask="7",
            at=9,
            firsts={"sites/0": 1},
            offsets={"sites/0": 1},
            seeds={"sites/1": "later.seed", "sites/0": "later.seed"},
            rules={"sites/1": "another rule", "sites/0": "an old rule"},
            quiet={"sites/0": 30},
            ends={"sites/0": 60},
            bounds={"sites/0": [(50, 8)]},
        )

    epoch = begin(trial.home, rebuilt)
    commit(epoch)
    risen = trial.divided(state_partitions=8).settle()
    assert risen == current_epoch(trial.home)
    assert risen.number == epoch.number + 1
    start, folder = trial.start, start_folder(risen)
    assert start == EpochStart(
        ask="7",
        at=9,
        firsts={"sites/0": 1},
        offsets={"sites/0": 40, "sites/1": 7},
        seeds={
            "sites/0": str(folder / "sites-0.seed"),
            "sites/1": str(folder / "later.seed"),
        },
        rules={"sites/1": "another rule", "sites/0": "the rule of then"},
        quiet={"sites/0": 30},
        ends={"sites/0": 60},
        bounds={"sites/0": [(50, 8)]},
        state_partitions=8,
        versions=epoch.number,
    )
    assert (folder / "later.seed").read_bytes() == b"not begun yet"
    assert trial.statuses == ["starting its state goes from 2 partitions to 8"]

    commit(risen)
    again = trial.divided(state_partitions=2).settle()
    assert (again.number, trial.start.versions) == (epoch.number + 2, epoch.number)
    assert trial.start.version_epoch(again) == epoch.number
    assert not epoch.path.exists()  # the last two are kept


def test_state_that_cannot_be_read_keeps_its_number(trial: Trial) -> None:
    epoch = current_epoch(trial.home)
    commit(epoch)
    trial.error = OSError("No space left on device")
    divided = trial.divided(state_partitions=8)
    assert divided.settle() == epoch
    assert "TALLYBOARD_STATE_PARTITIONS=8 is not in force" in divided.refusal
    assert "No space left on device" in divided.refusal
    assert "goes on with 2" in divided.refusal
    trial.error = None
    assert divided.settle() == epoch  # one try for a process
    assert trial.divided(state_partitions=8).settle().number == epoch.number + 1


def test_a_lost_jvm_is_no_refusal(trial: Trial) -> None:
    commit(current_epoch(trial.home))
    trial.error = ConnectionRefusedError("no JVM")
    with pytest.raises(ConnectionError):
        trial.divided(state_partitions=8).settle()


# ---- seeds -------------------------------------------------------------------------------------


class Rows:
    """A state variable, as Spark shows it."""

    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def select(self, *_columns: str) -> Rows:
        return self

    def collect(self) -> list[Any]:
        return self._rows

    def toLocalIterator(self, prefetchPartitions: bool = False) -> Any:  # noqa: N802, N803
        return iter(self._rows)


class MetaRow(NamedTuple):
    """A row of the Python engine's variable of each bucket."""

    key: str
    scenario: str
    clock: int
    offset: int
    live: int


def test_a_seed_holds_what_its_bucket_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    muted = [{"agent": "w1", "until": None, "user": "olga", "reason": "", "id": "4"}]
    state: dict[str, list[Any]] = {
        "meta": [MetaRow("sites/0#3", "rule a", 11, 39, 2), MetaRow("sites/1", "rule b", 0, -1, 0)],
        "mutes": [("sites/0#3", json.dumps(muted))],
        # out of order, which costs a file opened once more
        "assets": [
            ("sites/0#3", "a", b"A", 1),
            ("sites/1", "é", b"E", 1),
            ("sites/0#3", "b", b"", 1),
        ],
        "last": [("sites/1", "é", b"held back")],
    }
    monkeypatch.setattr(transfer, "committed_state", lambda _s, _p, _b, name: Rows(state[name]))
    spark: Any = None
    seeds = write_seeds(spark, "python", LocalPath("/nowhere"), 3, LocalPath(tmp_path))
    assert seeds == {
        "sites/0": Seed("sites-0.seed", "rule a"),
        "sites/1": Seed("sites-1.seed", "rule b"),
    }
    head, entries, last = read_initial_state(str(tmp_path / "sites-0.seed"))
    assert (head.clock, head.offset, head.live) == (11, 39, 2)
    assert [(mute.agent, type(mute)) for mute in head.mutes] == [("w1", Mute)]
    assert (entries, last) == ([("a", b"A"), ("b", b"")], [])
    _, entries, last = read_initial_state(str(tmp_path / "sites-1.seed"))
    assert (entries, last) == ([("é", b"E")], [("é", b"held back")])
