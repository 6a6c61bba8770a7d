"""Bounds on append times: what a broker's clock that was ahead has stamped moves no time.

The same in the fold's readers and in the engine, kept through epochs, and known to who folds here.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.streaming.tws_tester import TwsTester

from bus.base import ConsumerRecord
from bus.memory import MemoryBus
from dashboard.core.job.models import BucketStatus
from dashboard.core.rules.log_replay import PartitionReplay, Snapshots, take
from dashboard.core.rules.reconciliation import Reconciler
from dashboard.core.states.models import FoldSnapshot, LogBound, Terms
from dashboard.serve.materialiser.worker import Materialiser
from domain.bounds import Bound, applied_time
from domain.fold import Bucket
from domain.records import Report, StateRecord, Tick
from domain.scenario import Scenario
from domain.scenario_parser import load_scenarios
from streaming.fold.epochs import EpochStart, begin, bound, start_of
from streaming.fold.plan import Plan
from streaming.fold.processor import TallyProcessor
from streaming.fold.rules import dump_rule
from streaming.state.buckets import in_log, known, merged, remember
from streaming.state.checkpoint import Epoch, current_epoch, raise_epoch
from streaming.state.storage import LocalPath, StoragePath
from support.histories.batch_feed import BUCKET, feed, row
from support.histories.histories import History, seeded
from support.kafka.sinks import PlayedJob
from support.run.stack import wait_until
from support.spark.driver_harness import SCENARIOS as RULES
from support.spark.driver_harness import TOPICS, Stage
from wire.job import Control, QueryReport, encode
from wire.source import decode_placed

SCENARIOS = load_scenarios(Path(__file__).parents[3] / "scenarios.toml", demo=True)
START = 1_790_000_000_000
SECOND, HOUR = 1_000, 3_600_000
AHEAD = 23 * HOUR


@pytest.mark.parametrize(
    ("offset", "time", "says"),
    [(5, 100, 100), (5, 101, 70), (10, 101, 101), (10, 201, 70), (20, 201, 201), (0, 70, 70)],
)
def test_what_is_past_a_bound_counts_when_the_clock_stands(
    offset: int, time: int, says: int
) -> None:
    bounds = [(100, 10), (200, 20)]
    assert applied_time(bounds, offset, time, 70) == says
    assert applied_time([], offset, time, 70) == time


def test_before_the_first_record_it_counts_at_the_bound() -> None:
    assert applied_time([(100, 10)], 0, 500, 0) == 100


# ---- what it comes to ---------------------------------------------------------------------------


def one_rule(folder: LocalPath) -> Scenario:
    (folder / "scenarios.toml").write_text(
        """\
[sites]
partitions = 1
vote_lifetime = "1m"
min_voters = 2
states = [{ name = "bad" }, { name = "good" }]
holds = { good = "30s" }
[sites.rule]
kind = "quorum"
ladder = [{ state = "bad", at_least = 1 }, { state = "good", at_least = 1 }]
"""
    )
    return load_scenarios(folder / "scenarios.toml")["sites"]


def test_time_goes_on_where_it_would_stand_still(tmp_path: LocalPath) -> None:
    """A broker stamps five seconds of reports 23 hours ahead; then its clock is right again."""
    rule = one_rule(tmp_path)
    free, held = Bucket(rule, 0, 1), Bucket(rule, 0, 2)
    shown: dict[int, StateRecord] = {}
    for offset, at in enumerate(range(START, START + 120 * SECOND, 5 * SECOND)):
        wrong = 3 <= offset < 5
        stamped = at + AHEAD if wrong else at
        state = "bad" if offset == 1 else "good"
        record = Report("shop", f"w{offset % 2}", state, at) if offset < 20 else Tick()
        for bucket in (free, held):
            counts = applied_time([(START + 60 * SECOND, 10)], offset, stamped, bucket.clock)
            for out in bucket.apply(record, offset, counts if bucket is held else stamped):
                assert isinstance(out, StateRecord)
                shown[bucket.epoch] = out
    assert free.clock == START + 20 * SECOND + AHEAD
    assert held.clock == START + 115 * SECOND
    assert (shown[2].state, shown[2].unconfirmed) == ("good", False)
    assert shown[2].since == START + 40 * SECOND, "a hold of 30 s from where the clock stood"


# ---- the engine and the readers -----------------------------------------------------------------


def disturbed(history: History) -> tuple[list[int], list[Bound]]:
    """A history's times with a stretch of them ahead, and the bound that is right for it."""
    times = [entry.time for entry in history.entries]
    begin, end = len(times) // 3, len(times) // 2
    highest = max(times)
    return (
        [time + 40 * AHEAD if begin <= at < end else time for at, time in enumerate(times)],
        [(highest, history.entries[len(times) * 2 // 3].offset)],
    )


@pytest.mark.parametrize("batch", [1, 9])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.spread(4)
def test_the_python_engine_and_the_readers_agree(seed: int, batch: int) -> None:
    history = seeded(seed)
    times, bounds = disturbed(history)
    entries = [row(e)._replace(time=at) for e, at in zip(history.entries, times, strict=True)]

    bucket, wanted = Bucket(history.scenario, 0, 4), 0
    for one in entries:
        record = decode_placed(one.key, one.value, one.time, 0, 1)
        at = applied_time(bounds, one.offset, one.time, bucket.clock)
        wanted += len(bucket.apply(record, one.offset, at))

    replay = PartitionReplay("watch", 0, 1, Terms(tuple(bounds)), Bucket(history.scenario, 0, 4))
    for one in entries:
        replay.feed(
            ConsumerRecord("watch.reports", 0, one.offset, one.time, one.key, one.value, ())
        )
    assert replay.bucket is not None
    assert replay.bucket.clock == bucket.clock < max(times)
    assert replay.bucket.assets == bucket.assets

    start = EpochStart(bounds={str(BUCKET): bounds})
    plan = Plan("", 4, {"watch": 1}, {BUCKET: dump_rule(history.scenario)}, start)
    spark = TwsTester(TallyProcessor(plan))
    rows = []
    for at in range(0, len(entries), batch):
        rows += feed(spark, entries[at : at + batch])
    states = {r["key"].decode(): r["value"] for r in rows if r["topic"] == "watch.states"}
    assert states.keys() == replay.last.keys()
    from wire.sink import encode_state

    assert states == {
        name: encode_state(out) if isinstance(out, StateRecord) else None
        for name, out in replay.last.items()
    }
    assert len([r for r in rows if r["topic"] != "job.buckets"]) == wanted


# ---- kept through epochs ------------------------------------------------------------------------


def test_bounds_are_remembered_once_and_merged(tmp_path: LocalPath) -> None:
    assert known(tmp_path) == {}
    remember(tmp_path, {"a/0": [(5, 10)]})
    remember(tmp_path, {"a/0": [(9, 20), (5, 10)], "b/0": [(7, 7)]})
    both = {"a/0": [(5, 10), (9, 20)], "b/0": [(7, 7)]}
    assert known(tmp_path) == merged(both, {}) == both
    assert in_log(both, {"a/0": (10, 30), "b/0": (6, 30)}) == {"a/0": [(9, 20)], "b/0": [(7, 7)]}
    assert in_log(both, {"b/0": (7, 30)}) == {}


def test_writers_beside_each_other_lose_nothing(tmp_path: LocalPath) -> None:
    threads = [
        threading.Thread(target=remember, args=(tmp_path, {f"a/{n}": [(n, n)]})) for n in range(9)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert known(tmp_path) == {f"a/{n}": [(n, n)] for n in range(9)}


def test_an_epoch_without_a_batch_can_be_given_bounds(tmp_path: LocalPath) -> None:
    epoch = raise_epoch(tmp_path / "kernel")
    assert bound(epoch, {"a/0": [(5, 10)]}).bounds == {"a/0": [(5, 10)]}
    assert start_of(epoch) == EpochStart(bounds={"a/0": [(5, 10)]})

    def seeds(_number: int, into: StoragePath) -> EpochStart:
        (into / "a.seed").write_whole(b"x")
        return EpochStart("ask", seeds={"a/0": "a.seed"})

    later = begin(tmp_path / "kernel", seeds)
    given = bound(later, {"a/0": [(6, 11)]})
    assert given.ask == "ask"
    assert Path(given.seeds["a/0"]).read_bytes() == b"x"
    assert given == start_of(later)


@pytest.fixture
def stage(tmp_path: LocalPath, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A driver of sites, not begun, beside an epoch that some other query was given a bound in."""
    made = Stage(tmp_path, MemoryBus(lambda: int(time.time() * 1000)), monkeypatch)
    made.file.write_text(RULES)
    (tmp_path / "checkpoint").mkdir()
    yield made
    made.end()


def reported_bounds(stage: Stage) -> dict[str, object]:
    return {name: list(held) for name, held in stage.query_reports()[-1].bounds.items()}


def test_a_query_that_begins_takes_over_what_is_known_and_tells_it(stage: Stage) -> None:
    mine = {"sites/1": [(START, 10)]}
    remember(stage.folder / "checkpoint", {**mine, "orders/0": [(START, 3)]})
    stage.begin()
    stage.wait_for("running")
    epoch = current_epoch(stage.folder / "checkpoint" / "kernel")
    assert start_of(epoch).bounds == mine
    assert reported_bounds(stage) == mine


def test_a_query_that_has_a_state_keeps_to_its_own(stage: Stage) -> None:
    """Its state rests on them: others come with a rebuild."""
    home = stage.folder / "checkpoint" / "kernel"
    epoch = begin(home, lambda _number, _into: EpochStart("x", bounds={"sites/0": [(5, 9)]}))
    committed(epoch)
    remember(home.parent, {"sites/1": [(START, 10)]})
    stage.begin()
    stage.wait_for("running")
    assert start_of(epoch).bounds == reported_bounds(stage) == {"sites/0": [(5, 9)]}
    assert known(home.parent) == {"sites/0": [(5, 9)], "sites/1": [(START, 10)]}


def committed(epoch: Epoch) -> None:
    """A first batch, of which nothing was read."""
    topic_offsets = {TOPICS.reports("sites"): {"0": 0, "1": 0}}
    (epoch.path / "offsets" / "0").write_whole(f"v1\n{{}}\n{json.dumps(topic_offsets)}".encode())
    (epoch.path / "commits" / "0").write_whole(b"v1\n{}")


def test_an_ask_from_the_console_is_carried_out_and_told(stage: Stage) -> None:
    stage.begin()
    stage.wait_for("running")
    at = int(time.time() * 1000) - SECOND
    end = stage.bus.offsets([TOPICS.reports("sites")])[TOPICS.reports("sites"), 1][1]
    assert stage.ask("1", "rebuild", bounds={"sites/9": at}).outcome == "refused"
    stage.bus.producer().send_and_wait(
        TOPICS.control,
        b"kernel",
        encode(_ask("2", {"bounds": {"sites/1": at}})),
    )
    wanted = {"sites/1": [(at, end)]}
    wait_until(lambda: reported_bounds(stage) == wanted, 20, "the bounds are not told")
    assert reported_bounds(stage) == {"sites/1": [(at, end)]}
    assert known(stage.folder / "checkpoint") == {"sites/1": [(at, end)]}


def _ask(id_: str, parameters: dict[str, object]) -> Control:
    return Control(id_, "kernel", "rebuild", "ada", "a drill", parameters)


# ---- known to who folds here --------------------------------------------------------------------


def progress(epoch: int, **bounds: list[Bound]) -> QueryReport:
    named = {name.replace("_", "/"): tuple(held) for name, held in bounds.items()}
    return QueryReport("kernel", START, "running", epoch, bounds=named)


@pytest.mark.django_db
def test_what_was_told_last_of_a_bucket_is_kept() -> None:
    LogBound.ingest([progress(2, attack_0=[(5, 10)]), progress(3, attack_0=[(5, 10), (9, 20)])])
    assert LogBound.terms_of("attack", 0).bounds == ((5, 10), (9, 20))
    LogBound.ingest([progress(2, attack_0=[(1, 1)], attack_1=[(4, 4)]), progress(4)])
    assert LogBound.terms_of("attack", 0).bounds == ((5, 10), (9, 20))
    assert LogBound.terms_of("attack", 1).bounds == ((4, 4),)
    assert LogBound.terms_of("attack", 2) == Terms()
    assert LogBound.objects.get(pk="attack/0").epoch == 3


@pytest.mark.parametrize(
    ("clock", "had", "fits"),
    [(100, "[]", True), (101, "[]", False), (101, "[[100,10]]", True), (101, "[[100,9]]", False)],
)
def test_a_snapshot_with_a_clock_that_no_longer_counts_does_not_fit(
    clock: int, had: str, fits: bool
) -> None:
    assert FoldSnapshot(clock=clock, bounds=had).fits(Terms(((100, 10),))) is fits
    assert FoldSnapshot(clock=clock, bounds=had).fits(Terms())


class World:
    """A played job, its materialiser, and a broker whose clock a test moves."""

    def __init__(self, folder: LocalPath) -> None:
        self.now, self.wrong = START, 0
        self.bus = MemoryBus(self.clock)
        self.job = PlayedJob(self.bus, SCENARIOS.values())
        self.snapshots = Snapshots(folder, lambda: self.now)

    def clock(self) -> int:
        self.now += 700
        return self.now + self.wrong

    def live(self, reports: int) -> None:
        for n in range(reports):
            state = ("under-attack", "clear", "suspicious")[n % 3]
            report = Report(f"asset-{n % 5}", f"waf-{n % 4}", state, self.now)
            self.job.put("attack", report)
        self.job.tick()
        self.catch_up()

    def catch_up(self) -> None:
        self.job.run()
        worker = Materialiser(self.bus, self.job.topics, SCENARIOS, lambda: self.now)
        while worker.step():
            pass
        worker.close()

    def rebuild(self, bound: int) -> dict[str, list[Bound]]:
        """Begin a new epoch with a bound on every bucket of attack, as the job would."""
        edges = self.bus.offsets([self.job.topics.reports("attack")])
        self.job = PlayedJob(self.bus, SCENARIOS.values(), epoch=2)
        self.job.bounds = {f"attack/{at}": [(bound, end)] for (_, at), (_, end) in edges.items()}
        bounds = {name: tuple(held) for name, held in self.job.bounds.items()}
        record = QueryReport("python", self.now, "running", 2, bounds=bounds)
        self.job.producer.send_and_wait(self.job.topics.progress, b"python", encode(record))
        self.catch_up()
        return self.job.bounds

    def take(self) -> None:
        take(self.bus, self.job.topics, SCENARIOS, self.snapshots, lambda _d, _t: None)

    def agrees(self, *, from_snapshot: bool = False) -> bool:
        result = Reconciler(
            self.bus, self.job.topics, SCENARIOS, self.snapshots, lambda: self.now,
            patience_s=1, grace_s=0, from_snapshot=from_snapshot,
        ).run()  # fmt: skip
        assert result.compared > 3
        return not result.differences


@pytest.mark.django_db
def test_reconcile_and_snapshots_fold_as_the_job_does(tmp_path: LocalPath) -> None:
    world = World(tmp_path)
    world.live(60)
    world.take()
    world.wrong = AHEAD
    world.live(60)
    world.take()
    world.wrong = 0
    world.live(60)
    assert world.agrees()
    ahead = BucketStatus.objects.get(bucket="attack/0").log_time
    assert ahead > world.now + AHEAD - HOUR

    world.rebuild(world.now)
    world.live(60)

    assert BucketStatus.objects.get(bucket="attack/0").log_time <= world.now
    assert world.agrees()
    taken = FoldSnapshot.objects.filter(scenario="attack", partition=0)
    assert max(row.clock for row in taken) > world.now, "there is one that no longer fits"
    assert world.agrees(from_snapshot=True)
    world.take()
    newest = taken.latest("next_offset")
    assert newest.clock <= world.now
    assert json.loads(newest.bounds) == [list(each) for each in world.job.bounds["attack/0"]]
    world.live(30)
    assert world.agrees(from_snapshot=True)
    LogBound.objects.all().delete()
    assert not world.agrees(), "a fold without the bounds comes to other states"
