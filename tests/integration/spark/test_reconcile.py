"""Reconcile with the kernel in Spark: it, the plain fold and the database say the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings

from bus.base import ConsumerRecord, TopicPartition
from bus.kafka import KafkaBus
from dashboard.core.common.times import now_ms
from dashboard.core.rules.log_replay import (
    KernelFold,
    LogFold,
    OnProgress,
    PlainFold,
    Snapshots,
    Starts,
    kernel_order,
    take,
    take_in_kernel,
)
from dashboard.core.rules.reconciliation import Behind, Reconciler, Result
from dashboard.core.states.models import AssetState, FoldSnapshot, StateCount, Transition
from dashboard.core.states.queries import sink_offsets
from dashboard.serve.materialiser.worker import Materialiser
from domain.records import Command, Mute, Report
from domain.scenario_parser import load_scenarios
from support.kafka.sinks import PlayedJob
from support.run.stack import QUICK_START, EmbeddedBroker
from support.spark.jobs import read_up_to
from wire.bucket_fold import FoldedRecord, read_emissions
from wire.snapshot import load_snapshot
from wire.source import encode_mute
from wire.topics import Topics

MUTE = "0f8fad5b-d9cb-469f-a165-70867728950e"

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(480), pytest.mark.slow]

SCENARIOS = {
    name: scenario
    for name, scenario in load_scenarios(
        Path(__file__).parents[3] / "scenarios.toml", demo=True
    ).items()
    if name in ("attack", "connectivity")
}


class LoggedJob(PlayedJob):
    """The plain fold as the job, over a real log; it says that it is the kernel."""

    engine = "kernel"

    def __init__(self, bus: KafkaBus, topics: Topics) -> None:
        super().__init__(bus, SCENARIOS.values(), topics=topics)
        self.randomness = random.Random(5)

    def live(self, records: int) -> None:
        """Reports, commands and ticks; then the job and the materialiser catch up."""
        for number in range(records):
            asset = f"sité-{self.randomness.randrange(25)}"
            name = self.randomness.choice(list(SCENARIOS))
            if number % 9 == 0:
                self.command_one(name, asset)
            else:
                words = [spec.name for spec in SCENARIOS[name].states] + ["nobody-knows"]
                agent = f"waf-{self.randomness.randrange(4)}"
                self.put(name, Report(asset, agent, self.randomness.choice(words)))
        self.mute(f"waf-{records % 4}")
        self.tick()
        self.catch_up()

    def mute(self, agent: str) -> None:
        """Mute an agent in every bucket of one scenario."""
        value = encode_mute(Mute(agent, None, "olga", "wild", MUTE))
        for partition in range(SCENARIOS["attack"].partitions):
            self.command("attack", None, value, partition)

    def command_one(self, name: str, asset: str) -> None:
        id_ = f"0b8f7e0c-51a3-4f0e-9d3e-{self.randomness.randrange(10**12):012d}"
        action = self.randomness.choice(("set", "release", "purge"))
        state = SCENARIOS[name].states[0].name if action == "set" else None
        self.put(name, Command(action, asset, id_, "olga", "why", state))  # type: ignore[arg-type]

    def catch_up(self) -> None:
        """The job reads on, and the materialiser up to the end of what it wrote."""
        self.run()
        worker = Materialiser(self.bus, self.topics, SCENARIOS, now_ms)
        written = [self.topics.buckets, *(self.topics.states(name) for name in SCENARIOS)]
        ends = {place: end for place, (_, end) in self.bus.offsets(written).items() if end}
        while any(sink_offsets().get(place, 0) < end for place, end in ends.items()):
            worker.step()
        worker.close()

    def unread(self, topic: str, partition: int, offset: int) -> Iterator[ConsumerRecord]:
        """Yield what is in a partition from an offset on."""
        edges = self.bus.offsets([topic])
        yield from read_up_to(self.bus, {(topic, partition): (offset, edges[topic, partition][1])})


class Judge:
    """Reconcile in all its ways over one log."""

    def __init__(self, job: LoggedJob, folder: Path) -> None:
        self.job, self.folder = job, folder
        self.snapshots = Snapshots(folder / "snapshots", now_ms)

    def reconcile(self, **options: Any) -> Result:
        """Reconcile, by the kernel unless the options say otherwise."""
        options = {"kernel": True, "patience_s": 0, "grace_s": 0, **options}
        own = self.job.bus, self.job.topics, SCENARIOS, self.snapshots, now_ms
        return Reconciler(*own, **options).run()

    def emissions(self, fold: LogFold) -> list[FoldedRecord]:
        """Fold on; what was emitted since. Its progress ends with all records."""
        steps: list[tuple[int, int]] = []
        turn = fold.fold_on(lambda done, total: steps.append((done, total)))
        assert not turn.records or steps[-1] == (turn.records, turn.records)
        return list(read_emissions(turn.files))

    def folds(self, starts: Starts) -> tuple[KernelFold, PlainFold]:
        """Both folds of the same buckets."""
        own = self.job.topics, SCENARIOS, self.snapshots, starts, 7
        order = kernel_order(*own, self.folder / "kernel")
        plain = PlainFold(self.job.bus, *own, self.folder / "plain")
        return KernelFold(order, self.job.topics, self.folder / "kernel.log"), plain


@pytest.fixture
def judge(broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """A log and a database that its job and materialiser have filled."""
    prefix = f"reconcile-{uuid4().hex[:8]}."
    given = {
        "DATA_DIR": tmp_path,
        "KAFKA_BOOTSTRAP": broker.bootstrap,
        "JARS_DIR": broker.jars_dir,
        "TOPIC_PREFIX": prefix,
        "COMMAND_KEYS": settings.TALLYBOARD.command_keys_file,
        "BATCH_QUERY_CORES": 3,
    }
    for name, value in given.items():
        monkeypatch.setenv(f"TALLYBOARD_{name}", str(value))
    monkeypatch.setenv("JDK_JAVA_OPTIONS", QUICK_START)
    job = LoggedJob(KafkaBus({"bootstrap.servers": broker.bootstrap}), Topics(prefix))
    job.live(150)
    return Judge(job, tmp_path)


def starts_of(judge: Judge, *, from_snapshot: bool) -> dict[TopicPartition, FoldSnapshot | None]:
    rows = {
        (judge.job.topics.reports(row.scenario), row.partition): row
        for row in FoldSnapshot.objects.all()
    }
    places = judge.job.bus.offsets(list(map(judge.job.topics.reports, SCENARIOS)))
    return {place: rows[place] if from_snapshot else None for place in places}


@pytest.mark.parametrize("from_snapshot", [pytest.param(False, marks=pytest.mark.extensive), True])
def test_kernel_and_plain_fold_write_the_same_records(judge: Judge, from_snapshot: bool) -> None:
    if from_snapshot:
        take(judge.job.bus, judge.job.topics, SCENARIOS, judge.snapshots, lambda _d, _t: None)
        judge.job.live(60)
    kernel, plain = judge.folds(starts_of(judge, from_snapshot=from_snapshot))
    try:
        first = judge.emissions(plain)
        assert judge.emissions(kernel) == first
        assert {record.restored for record in first} == {from_snapshot, False}
        assert any(record.value is None for record in first)
        judge.job.live(60)
        later = judge.emissions(plain)
        assert judge.emissions(kernel) == later
        assert len(later) > 20
    finally:
        kernel.close()


@pytest.mark.extensive(
    guard="tests/integration/spark/test_reconcile.py::test_kernel_and_plain_fold_write_the_same_records"
)
def test_the_kernels_snapshots_hold_what_the_plain_folds_do(judge: Judge) -> None:
    own = judge.job.bus, judge.job.topics, SCENARIOS
    ignored: OnProgress = lambda _done, _total: None  # noqa: E731
    kept = Snapshots(judge.folder / "of the kernel", now_ms)
    for turn in range(2):  # the second one goes on from the first
        judge.job.live(40)
        rows = take_in_kernel(*own, kept, ignored, judge.folder / str(turn))
        of_kernel = {(row.scenario, row.partition): loaded(kept, row) for row in rows}
        stored = list(FoldSnapshot.objects.all())
        FoldSnapshot.objects.all().delete()
        plain = {
            (row.scenario, row.partition): loaded(judge.snapshots, row)
            for row in take(*own, judge.snapshots, ignored)
        }
        assert of_kernel == plain
        FoldSnapshot.objects.all().delete()
        FoldSnapshot.objects.bulk_create(stored)
    assert any(mutes for *_, mutes, _ in plain.values())
    assert sum(len(assets) for *_, assets, _, _ in plain.values()) > 30
    judge.snapshots = kept
    judge.job.live(60)
    for kernel in (True, False):
        assert judge.reconcile(kernel=kernel, from_snapshot=True).agrees


def loaded(snapshots: Snapshots, row: FoldSnapshot) -> tuple[Any, ...]:
    """What a snapshot's row and file say."""
    bucket, last = load_snapshot((snapshots.folder / row.file).read_bytes(), 1)
    own = bucket.scenario, bucket.clock, bucket.offset, bucket.live
    said = row.clock, row.next_offset, row.assets, row.bounds, row.asides
    return said, own, bucket.assets, dict(bucket.mutes), last


def test_the_kernel_finds_what_was_falsified(judge: Judge) -> None:
    result = judge.reconcile(kernel=False)
    assert result.agrees
    assert result.compared == AssetState.objects.count() > 30
    assert result.changes_compared == Transition.objects.count() > 30

    row = AssetState.objects.filter(purged=False).first()
    assert row
    AssetState.objects.filter(pk=row.pk).update(since=5)
    (count,) = StateCount.objects.filter(scenario="attack", n__gt=0)[:1]
    StateCount.objects.filter(pk=count.pk).update(n=count.n + 2)
    change = Transition.objects.order_by("pk")[7]
    Transition.objects.filter(pk=change.pk).update(previous="x")
    result = judge.reconcile()
    assert [(each.asset, set(each.fields)) for each in result.differences] == [
        (row.asset, {"since"})
    ]
    assert [(each.state, each.found) for each in result.miscounted] == [(count.state, count.n + 2)]
    assert [(each.asset, each.place) for each in result.changes] == [(change.asset, change.place)]
    assert asdict(result) == asdict(judge.reconcile(kernel=False))


def test_a_process_that_ends_says_why_and_what_to_do(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLYBOARD_JARS_DIR", str(judge.folder / "none"))
    with pytest.raises(Behind, match=r"spark-sql-kafka.*--plain folds without Spark"):
        judge.reconcile()
