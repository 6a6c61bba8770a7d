"""Reset and rebuild: judged, begun whole or not at all, followed, finished after a kill."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from bus.base import BusError, TopicSpec, Unavailable
from bus.memory import MemoryBus, MemoryProducer
from domain.fold import Bucket
from domain.records import LOG_REPLACED, Cause, Report, Tombstone
from domain.scenario import Scenario
from domain.scenario_parser import load_scenarios
from domain.version import Version
from streaming.fold import epochs
from streaming.fold.assignment import AssignmentRefused
from streaming.fold.epochs import EARLIEST, EpochStart, begin, name_logs, start_of
from streaming.fold.plan import Plan
from streaming.fold.rules import dump_rule, rule_before
from streaming.requests import rebuild
from streaming.requests.queue import RequestQueue
from streaming.requests.rebuild import StateRebuild
from streaming.spark.restart_policy import judge
from streaming.state import quarantine, storage
from streaming.state.buckets import known, remember
from streaming.state.checkpoint import current_epoch, drop_old, raise_epoch, start_folder
from streaming.state.restore import read_initial_state
from streaming.state.storage import LocalPath, StoragePath
from support.spark.driver_harness import SCENARIOS, TOPICS
from wire.job import Control, Heartbeat, JobAnswer, encode
from wire.sink import decode_state, encode_headers
from wire.snapshot import dump_snapshot

NOW = 1_790_000_000_000


class Trial:
    """A query without Spark: its folder, its queue, and a log of ten records a partition."""

    def __init__(self, folder: LocalPath) -> None:
        self.folder, self.home = folder, folder / "checkpoint" / "kernel"
        (folder / "scenarios.toml").write_text(SCENARIOS)
        self.scenarios: dict[str, Scenario] = load_scenarios(folder / "scenarios.toml")
        self.bus = MemoryBus(lambda: NOW)
        specs = TOPICS.specs(self.scenarios.values())
        self.bus.ensure_topics(TopicSpec(*spec) for spec in specs)
        for partition in (0, 1):
            self.append(partition, 10)
        (self.home / "epoch-1").mkdir(parents=True)
        (folder / "snapshots").mkdir()
        self.answers: list[JobAnswer] = []
        self.now = NOW
        self.open()

    def append(self, partition: int, number: int) -> None:
        for _ in range(number):
            self.bus.producer().send_and_wait("sites.reports", b"a", b"{}", partition=partition)

    def open(self) -> None:
        """A queue and rebuilds as a new driver makes them."""
        path = self.home / "control.json"
        self.queue = RequestQueue(
            self.bus, TOPICS.control, "kernel", path, lambda: self.now, self.answers.append
        )
        snapshots = self.folder / "snapshots"
        self.rebuilds = StateRebuild(
            self.queue, self.bus, TOPICS, self.home, snapshots, "kernel", lambda: self.now
        )

    def reached(self, epoch: int, *offsets: int) -> None:
        """A batch up to these offsets was committed."""
        checkpoint = self.home / f"epoch-{epoch}"
        for name in ("commits", "offsets"):
            (checkpoint / name).mkdir(parents=True, exist_ok=True)
        topic_offsets = {"sites.reports": {str(at): offset for at, offset in enumerate(offsets)}}
        (checkpoint / "offsets" / "0").write_text(f"v1\n{{}}\n{json.dumps(topic_offsets)}")
        (checkpoint / "commits" / "0").write_text("v1\n{}")

    def ask(self, id_: str = "1", action: Any = "rebuild", **buckets: Any) -> Control:
        named = {name.replace("_", "/"): place for name, place in buckets.items()}
        return Control(id_, "kernel", action, "ada", "a drill", {"buckets": named})

    def carry_out(self, ask: Control) -> EpochStart:
        """Take it on, and begin its epoch."""
        self.rebuilds.judge(ask, self.scenarios)
        self.queue.begin_rebuild(ask)
        self.rebuilds.carry_out(self.scenarios)
        return start_of(current_epoch(self.home))

    def snapshot(self, partition: int, records: int) -> dict[str, Any]:
        """A snapshot of a fold over so many reports; where a bucket begins with it."""
        bucket, last = Bucket(self.scenarios["sites"], partition, 1), {}
        for offset in range(records):
            for out in bucket.apply(Report(f"a{offset}", "w", "bad"), offset, NOW):
                last[out.asset] = out  # type: ignore[union-attr]
        data = dump_snapshot(bucket, last)  # type: ignore[arg-type]
        name = f"sites-{partition}-{records}.fold"
        (self.folder / "snapshots" / name).write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        return {"offset": records, "snapshot": name, "digest": digest}


@pytest.fixture
def trial(tmp_path: LocalPath) -> Trial:
    """A query that nothing was asked of yet."""
    return Trial(tmp_path)


# ---- epochs -----------------------------------------------------------------------------------


def test_an_epoch_begins_above_those_of_all_queries(tmp_path: LocalPath) -> None:
    (tmp_path / "python" / "epoch-7").mkdir(parents=True)
    epoch = begin(tmp_path / "kernel", lambda number, _: EpochStart(f"{number}"))
    assert (epoch.number, start_of(epoch).ask) == (8, "8")
    assert current_epoch(tmp_path / "kernel") == epoch
    assert start_of(raise_epoch(tmp_path / "kernel")) == EpochStart()


@pytest.mark.parametrize("step", ["make", "write", "replace", "folder"])
def test_an_epoch_is_begun_whole_or_not_at_all(
    tmp_path: LocalPath, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    home = tmp_path / "kernel"
    first = begin(home, lambda _number, _into: EpochStart("first"))

    def fail(*_args: Any, **_more: Any) -> Any:
        raise OSError("killed")

    def make(_number: int, into: StoragePath) -> EpochStart:
        (into / "seed").write_whole(b"")
        return fail() if step == "make" else EpochStart("second")

    with monkeypatch.context() as patched:
        if step == "write":
            patched.setattr(os, "fsync", fail)
        elif step == "replace":
            patched.setattr(Path, "replace", fail)
        elif step == "folder":
            patched.setattr(storage, "sync_folder", fail)
        with pytest.raises(OSError, match="killed"):
            begin(home, make)
    assert current_epoch(home) == first
    assert start_of(current_epoch(home)).ask == "first"
    again = begin(home, lambda _number, _into: EpochStart("third"))
    assert (again.number, start_of(again).ask) == (2, "third")
    assert start_folder(again).names() == ["start.json"]


def test_what_another_way_to_an_epoch_finds_is_no_start_of_it(tmp_path: LocalPath) -> None:
    (tmp_path / "kernel" / "start-1").mkdir(parents=True)
    (tmp_path / "kernel" / "start-1" / "start.json").write_text('{"ask":"1"}')
    assert start_of(raise_epoch(tmp_path / "kernel")) == EpochStart()


def test_the_last_two_epochs_are_kept(tmp_path: LocalPath) -> None:
    for _ in range(4):
        begin(tmp_path / "kernel", lambda _number, _into: EpochStart())
    drop_old(tmp_path / "kernel")
    left = sorted(path.name for path in (tmp_path / "kernel").iterdir())
    assert left == ["epoch-3", "epoch-4", "start-3", "start-4"]


# ---- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ({"offset": 11}, "sites/0: offset: expected 0 to 10, as the log is, got 11"),
        ({"offset": -1}, "offset: expected 0 to 10"),
        ({"offset": -3}, "Expected `int` >= -2"),
        ({"offset": 4}, "sites/0: snapshot: expected one, as the log does not begin there"),
        ({"offset": 4, "snapshot": "none.fold"}, "there is no none.fold at the job's"),
        ({"offset": 4, "snapshot": "../secret-key"}, "parameters: Expected `str` matching"),
        ({"offset": 4, "snapshot": ".hidden"}, "parameters: Expected `str` matching"),
        ({"offset": "4"}, "parameters: Expected `int`, got `str`"),
        ({"from": 4}, "parameters: Object contains unknown field `from`"),
    ],
)
def test_what_is_refused(trial: Trial, place: dict[str, Any], why: str) -> None:
    with pytest.raises(AssignmentRefused) as refused:
        trial.rebuilds.judge(trial.ask(sites_0=place), trial.scenarios)
    assert why in str(refused.value)


def test_another_query_s_bucket_is_refused(trial: Trial) -> None:
    with pytest.raises(AssignmentRefused, match="expected those of this query, got orders/0"):
        trial.rebuilds.judge(trial.ask(orders_0={}), trial.scenarios)


def test_a_lost_beginning_needs_a_snapshot_to_be_rebuilt(trial: Trial) -> None:
    trial.bus.truncate("sites.reports", 0, 3)
    with pytest.raises(AssignmentRefused, match="sites/0: snapshot: expected one"):
        trial.rebuilds.judge(trial.ask(), trial.scenarios)
    trial.rebuilds.judge(trial.ask(action="reset"), trial.scenarios)
    trial.rebuilds.judge(trial.ask(sites_0=trial.snapshot(0, 5)), trial.scenarios)
    with pytest.raises(AssignmentRefused, match="offset: expected 3 to 10"):
        trial.rebuilds.judge(trial.ask(sites_0=trial.snapshot(0, 2)), trial.scenarios)


def test_a_partition_that_was_added_needs_no_snapshot(trial: Trial) -> None:
    trial.bus.add_partitions("sites.reports", 3)
    trial.append(2, 10)
    trial.bus.truncate("sites.reports", 2, 3)
    trial.rebuilds.judge(trial.ask(), trial.scenarios)


def test_a_stopped_query_is_to_be_started_first(trial: Trial) -> None:
    trial.queue.accept(Control("s", "kernel", "stop", "bob"))
    with pytest.raises(AssignmentRefused, match="stopped by bob: start it first"):
        trial.rebuilds.judge(trial.ask(), trial.scenarios)


@pytest.mark.parametrize("change", ["digest", "offset", "bucket"])
def test_a_snapshot_that_is_another_is_refused_as_it_is_read(trial: Trial, change: str) -> None:
    place = trial.snapshot(1 if change == "bucket" else 0, 5)
    others: dict[str, dict[str, Any]] = {"digest": {"digest": "0" * 64}, "offset": {"offset": 6}}
    place |= others.get(change, {})
    before = current_epoch(trial.home)
    trial.carry_out(trial.ask(sites_0=place))
    assert current_epoch(trial.home) == before
    assert [answer.outcome for answer in trial.answers] == ["accepted", "refused"]
    assert trial.queue.rebuild is None


# ---- what is begun ----------------------------------------------------------------------------


def test_from_the_beginning(trial: Trial) -> None:
    trial.reached(1, 8, 0)
    start = trial.carry_out(trial.ask())
    assert (start.ask, start.at) == ("1", NOW)
    assert start.offsets == {"sites/0": EARLIEST, "sites/1": EARLIEST}
    assert start.quiet == {"sites/0": 7, "sites/1": -1}
    assert start.ends == {"sites/0": 10, "sites/1": 10}


def test_readers_have_been_where_any_epoch_had_come(trial: Trial) -> None:
    trial.reached(1, 8, 6)
    trial.carry_out(trial.ask())
    trial.reached(2, 3, 9)
    assert trial.carry_out(trial.ask("2")).quiet == {"sites/0": 7, "sites/1": 8}


def test_readers_have_been_where_the_heartbeats_were(trial: Trial) -> None:
    trial.reached(1, 3, 3)
    for partition, epoch, offset in ((0, 1, 5), (0, 1, 7), (1, 0, 9)):
        name = f"sites/{partition}"
        beat = Heartbeat(
            name, "sites", partition, epoch, "d", "h", NOW, offset, 1, 1, 1, 0, 0, "kernel", NOW
        )
        trial.bus.producer().send_and_wait(TOPICS.buckets, name.encode(), encode(beat))
    trial.bus.producer().send_and_wait(TOPICS.buckets, b"?", b"{")
    assert trial.carry_out(trial.ask()).quiet == {"sites/0": 7, "sites/1": 2}


def test_a_checkpoint_that_is_damaged_is_no_end_of_it(trial: Trial) -> None:
    trial.reached(1, 3, 3)
    (trial.home / "epoch-1" / "offsets" / "0").write_text("v1\n{}\n{")
    assert trial.carry_out(trial.ask()).quiet == {"sites/0": -1, "sites/1": -1}


def test_from_a_snapshot(trial: Trial) -> None:
    start = trial.carry_out(trial.ask(sites_0=trial.snapshot(0, 5)))
    assert start.offsets == {"sites/0": 5, "sites/1": EARLIEST}
    assert start.firsts == {"sites/0": 5, "sites/1": 0}
    assert start.quiet == {"sites/0": 4, "sites/1": -1}  # so that what was emitted is renewed
    assert start.rules == {"sites/0": dump_rule(trial.scenarios["sites"])}
    assert Path(start.seeds["sites/0"]).read_bytes()[4] == 1  # the kernel's own version


def test_the_python_engine_s_seed(trial: Trial) -> None:
    trial.rebuilds._engine = "python"
    start = trial.carry_out(trial.ask(sites_0=trial.snapshot(0, 5)))
    head, entries, last = read_initial_state(start.seeds["sites/0"])
    assert (head.offset, head.live, head.clock) == (4, 5, NOW)
    assert (
        [name for name, _ in entries] == [name for name, _ in last] == [f"a{n}" for n in range(5)]
    )
    assert b"2.4.0" in last[-1][1]


def test_a_reset_in_mid_log_has_the_rule_that_was_in_force(trial: Trial) -> None:
    stored = {"sites.reports/0": [[2, "old"], [6, "new"]], "sites.reports/1": [[8, "late"]]}
    (trial.home / "rules.json").write_text(json.dumps(stored))
    ask = trial.ask(action="reset", sites_0={"offset": 5}, sites_1={"offset": 5})
    start = trial.carry_out(ask)
    assert (start.offsets, start.seeds) == ({"sites/0": 5, "sites/1": 5}, {})
    assert start.rules == {"sites/0": "old"}
    assert rule_before(trial.home / "none.json", ("sites.reports", 0), 5) is None


# ---- with a bound on append times ---------------------------------------------------------------


def bounded(trial: Trial, id_: str, bounds: dict[str, Any], **buckets: Any) -> Control:
    ask = trial.ask(id_, **buckets)
    return Control(ask.id, ask.query, ask.action, ask.user, ask.reason,
                   ask.parameters | {"bounds": bounds})  # fmt: skip


@pytest.mark.parametrize(
    ("bounds", "why"),
    [
        ({"orders/0": NOW}, "bounds: expected those of this query, got orders/0"),
        ({"sites/0": NOW + 5_001}, "bounds: expected times that are past"),
        ({"sites/0": 0}, "parameters: Expected `int` >= 1"),
        ({"sites/0": "now"}, "parameters: Expected `int`, got `str`"),
    ],
)
def test_a_bound_that_is_refused(trial: Trial, bounds: dict[str, Any], why: str) -> None:
    with pytest.raises(AssignmentRefused) as refused:
        trial.rebuilds.judge(bounded(trial, "1", bounds), trial.scenarios)
    assert why in str(refused.value)


def test_a_bound_holds_up_to_the_end_of_the_log_as_it_is(trial: Trial) -> None:
    start = trial.carry_out(bounded(trial, "1", {"sites/0": NOW - 5}))
    assert start.bounds == {"sites/0": [(NOW - 5, 10)]}
    plan = Plan("", 2, {"sites": 2}, {}, start)
    assert json.loads(plan.json(real_time=True))["bounds"] == {"sites/0": [[NOW - 5, 10]]}


def test_later_epochs_take_bounds_over_as_long_as_the_log_holds_what_they_are_about(
    trial: Trial,
) -> None:
    checkpoints = trial.home.parent
    remember(checkpoints, trial.carry_out(bounded(trial, "1", {"sites/0": NOW - 5})).bounds)
    trial.append(0, 2)
    both = {"sites/0": NOW - 3, "sites/1": NOW - 4}
    start = trial.carry_out(bounded(trial, "2", both))
    assert start.bounds == {"sites/0": [(NOW - 5, 10), (NOW - 3, 12)], "sites/1": [(NOW - 4, 10)]}
    remember(checkpoints, start.bounds)
    assert trial.carry_out(trial.ask("3")).bounds == start.bounds
    trial.bus.truncate("sites.reports", 0, 10)
    trial.bus.truncate("sites.reports", 1, 10)
    assert trial.carry_out(trial.ask("4", action="reset")).bounds == {
        "sites/0": [(NOW - 3, 12)],
    }


def test_a_snapshot_whose_clock_is_past_the_bound_is_refused(trial: Trial) -> None:
    place = trial.snapshot(0, 5)
    start = trial.carry_out(bounded(trial, "1", {"sites/0": NOW}, sites_0=place))
    assert start.offsets["sites/0"] == 5
    trial.carry_out(bounded(trial, "2", {"sites/0": NOW - 1}, sites_0=place))
    assert trial.answers[-1].outcome == "refused"
    assert trial.answers[-1].why == "sites/0: snapshot: its clock is already past the bound"


def test_bounds_that_cannot_be_read_stop_the_job(trial: Trial) -> None:
    (trial.home.parent / "bounds.json").write_text("[]")
    with pytest.raises(ValueError, match="UnreadableStart") as error:
        trial.carry_out(trial.ask())
    assert not judge(str(error.value)).passes


# ---- a log that was deleted and created again ---------------------------------------------------


def recreate(trial: Trial, records: int) -> None:
    """Delete the topic of reports, create it again, and append to it."""
    trial.bus.delete("sites.reports")
    trial.bus.ensure_topics(TopicSpec(*spec) for spec in TOPICS.specs(trial.scenarios.values()))
    for partition in (0, 1):
        trial.append(partition, records)


def show(trial: Trial, asset: str, *, purged: bool = False) -> None:
    """Have readers seen a state of an asset, or its purge."""
    record = Tombstone(asset, Version(1, 3, 0), Cause("purge", 0, 3, NOW))
    headers = encode_headers(record)
    value = None if purged else b"{}"
    trial.bus.producer().send_and_wait("sites.states", asset.encode(), value, headers=headers)


def lost(trial: Trial) -> dict[str, tuple[Version, str]]:
    """By asset the version and the cause of each purge that the topic of states has got."""
    edges = trial.bus.offsets(["sites.states"])
    reader = trial.bus.reader({place: begin for place, (begin, _) in edges.items()})
    return {
        record.asset: (record.version, record.cause.type)
        for message in reader.poll(0, 1000)
        if message.value is None
        and isinstance(
            record := decode_state(message.key, message.value, message.headers), Tombstone
        )
    }


@pytest.fixture
def replaced(trial: Trial) -> Trial:
    """A query that had reached the eighth record of a log that is gone."""
    name_logs(current_epoch(trial.home), trial.bus.topic_ids(["sites.reports"]))
    trial.reached(1, 8, 8)
    for asset in ("a", "b"):
        show(trial, asset)
    show(trial, "gone", purged=True)
    return trial


@pytest.mark.parametrize("records", [2, 50])
def test_all_of_a_new_log_is_emitted_and_what_it_lacks_is_purged(
    replaced: Trial, records: int
) -> None:
    recreate(replaced, records)
    start = replaced.carry_out(replaced.ask())
    assert start.quiet == {"sites/0": -1, "sites/1": -1}
    assert start.logs == replaced.bus.topic_ids(["sites.reports"])
    epoch = current_epoch(replaced.home)
    purges = lost(replaced)
    assert purges.pop("gone") == (Version(1, 3, 0), "purge")
    assert purges == dict.fromkeys(("a", "b"), (Version(epoch.number - 1, 0, 0), LOG_REPLACED))


def test_a_log_that_is_the_same_keeps_all_that_was_shown(replaced: Trial) -> None:
    assert replaced.carry_out(replaced.ask()).quiet == {"sites/0": 7, "sites/1": 7}
    assert lost(replaced).keys() == {"gone"}


def test_what_was_kept_of_the_old_log_does_not_hold_for_the_new_one(replaced: Trial) -> None:
    folder = replaced.home.parent
    remember(folder, {"sites/0": [(NOW - 5, 10)], "orders/0": [(NOW, 3)]})
    quarantine.remember(folder, {"sites/1": [(2, 3)], "orders/0": [(0, 1)]})
    recreate(replaced, 50)
    assert replaced.carry_out(replaced.ask()).bounds == {}
    assert known(folder).keys() == {"orders/0"}
    assert quarantine.known(folder).keys() == {"orders/0"}


def test_a_snapshot_of_the_old_log_is_refused(replaced: Trial) -> None:
    place = replaced.snapshot(0, 5)
    recreate(replaced, 50)
    with pytest.raises(AssignmentRefused, match="it is of the topic that was deleted"):
        replaced.rebuilds.judge(replaced.ask(sites_0=place), replaced.scenarios)


def test_a_new_log_whose_beginning_is_gone_is_read_as_far_back_as_it_reaches(
    replaced: Trial,
) -> None:
    recreate(replaced, 50)
    replaced.bus.truncate("sites.reports", 0, 3)
    assert replaced.carry_out(replaced.ask()).firsts == {"sites/0": 3, "sites/1": 0}


def test_purges_that_kafka_does_not_take_begin_no_epoch(
    replaced: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    recreate(replaced, 50)
    ask, lose = replaced.ask(), [BusError("timed out"), None]
    replaced.queue.begin_rebuild(ask)
    with monkeypatch.context() as patched:
        patched.setattr(MemoryProducer, "send_all", lambda *_: lose)
        with pytest.raises(Unavailable, match="2 purges of lost states were not sent"):
            replaced.rebuilds.carry_out(replaced.scenarios)
    assert current_epoch(replaced.home).number == 1
    replaced.rebuilds.carry_out(replaced.scenarios)
    assert len(lost(replaced)) == 2 + 1


def test_a_topic_that_a_broker_does_not_name_yet_is_no_other_one(
    replaced: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaced.bus, "topic_ids", lambda *_: {})
    replaced.carry_out(replaced.ask())
    assert lost(replaced).keys() == {"gone"}


def test_a_driver_that_is_killed_amid_the_purges_is_finished_by_the_next(
    replaced: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    recreate(replaced, 50)
    ask = replaced.ask()
    replaced.queue.begin_rebuild(ask)

    def fail(*_args: Any) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(rebuild, "forget_bounds", fail)
        with pytest.raises(OSError, match="killed"):
            replaced.rebuilds.carry_out(replaced.scenarios)
    replaced.open()
    replaced.rebuilds.carry_out(replaced.scenarios)
    epoch = current_epoch(replaced.home)
    assert start_of(epoch).ask == ask.id
    assert all(version.epoch < epoch.number for version, _ in lost(replaced).values())


# ---- until it has caught up -------------------------------------------------------------------


def test_it_is_followed_until_it_has_caught_up(trial: Trial) -> None:
    for _ in range(2):
        raise_epoch(trial.home)
    trial.carry_out(trial.ask())
    epoch = current_epoch(trial.home)
    assert trial.rebuilds.under_way(epoch)
    trial.rebuilds.look(epoch)
    trial.append(0, 5)  # what comes meanwhile is no part of it
    trial.reached(4, 12, 4)
    trial.rebuilds.look(epoch)
    trial.rebuilds.look(epoch)
    trial.reached(4, 15, 10)
    trial.now += 2_400
    trial.rebuilds.look(epoch)
    steps = [(a.step.done, a.step.of) for a in trial.answers if a.step is not None]
    assert steps == [(0, 20), (14, 20), (20, 20)]
    assert trial.answers[-1] == JobAnswer("1", "rebuild", "done", "epoch 4: 20 records in 2 s")
    assert not trial.rebuilds.under_way(epoch)
    assert sorted(path.name for path in trial.home.glob("epoch-*")) == ["epoch-3", "epoch-4"]


def test_a_bucket_that_is_no_longer_read_is_not_waited_for(trial: Trial) -> None:
    trial.carry_out(trial.ask())
    trial.reached(2, 10)
    trial.rebuilds.look(current_epoch(trial.home))
    assert trial.answers[-1].why == "epoch 2: 10 records in 0 s"


@pytest.mark.parametrize("begun", [False, True])
def test_the_next_driver_finishes_it(trial: Trial, begun: bool) -> None:
    ask = trial.ask()
    trial.queue.begin_rebuild(ask)
    if begun:
        trial.rebuilds.carry_out(trial.scenarios)
    trial.open()
    assert trial.queue.rebuilding is not None
    trial.rebuilds.carry_out(trial.scenarios)
    trial.rebuilds.carry_out(trial.scenarios)
    epoch = current_epoch(trial.home)
    assert (epoch.number, start_of(epoch).ask) == (2, "1")
    trial.reached(2, 10, 10)
    trial.rebuilds.look(epoch)
    assert trial.answers[-1].outcome == "done"
    trial.open()
    assert trial.queue.rebuild is None


def test_a_driver_that_is_killed_amid_its_files_is_finished_by_the_next(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = trial.ask(sites_0=trial.snapshot(0, 5), sites_1=trial.snapshot(1, 6))
    trial.queue.begin_rebuild(ask)
    trial.rebuilds.prepare(ask)
    move, moved = Path.replace, list[Path]()

    def once(path: LocalPath, target: Path) -> Path:
        if moved:
            raise OSError("killed")
        moved.append(path)
        return move(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", once)
        with pytest.raises(OSError, match="killed"):
            trial.rebuilds.carry_out(trial.scenarios)
    assert current_epoch(trial.home).number == 1
    trial.open()
    trial.rebuilds.carry_out(trial.scenarios)
    start = start_of(current_epoch(trial.home))
    assert start.offsets == {"sites/0": 5, "sites/1": 6}
    assert all(Path(path).is_file() for path in start.seeds.values())
    assert not (trial.home / "prepared").exists()


def test_another_takes_its_place(trial: Trial) -> None:
    trial.carry_out(trial.ask("1"))
    assert trial.carry_out(trial.ask("2")).ask == "2"
    assert current_epoch(trial.home).number == 3
    outcomes = [(answer.id, answer.outcome) for answer in trial.answers]
    assert outcomes == [("1", "accepted"), ("1", "failed"), ("2", "accepted")]


def test_a_start_that_cannot_be_read_is_no_end_of_it(trial: Trial) -> None:
    trial.carry_out(trial.ask("1"))
    (start_folder(current_epoch(trial.home)) / "start.json").write_whole(b"{")
    with pytest.raises(epochs.UnreadableStart):
        start_of(current_epoch(trial.home))
    assert trial.carry_out(trial.ask("2")).ask == "2"
