"""Reconcile: what the log says, held against the database row for row."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from sinks import PlayedJob

from bus.base import BusError, Unavailable
from bus.memory import MemoryBus
from dashboard.board.models import AssetState, Transition
from dashboard.job.models import BucketStatus
from dashboard.materialiser.models import FoldSnapshot
from dashboard.materialiser.reading import read_on
from dashboard.materialiser.reconcile import Behind, Reconciler, Result
from dashboard.materialiser.replay import Replay
from dashboard.materialiser.snapshots import Snapshots, take
from dashboard.materialiser.worker import Materialiser
from domain.records import Command, Kind, Report
from domain.scenario import load_scenarios
from wire.sink import encode_state, state_of_json

pytestmark = pytest.mark.django_db
SCENARIOS = load_scenarios(Path(__file__).parents[2] / "scenarios.toml", demo=True)
START = 1_790_000_000_000
ACTIONS: tuple[Kind, ...] = ("set", "release", "purge")


class World:
    """A played job, its materialiser, and reconcile, over a bus in memory."""

    def __init__(self, folder: Path) -> None:
        clock = itertools.count(START, 700)
        self.job = PlayedJob(MemoryBus(lambda: next(clock)), SCENARIOS.values())
        self.snapshots = Snapshots(folder, lambda: START)
        self.random = random.Random(7)

    def live(self, reports: int) -> None:
        """Reports, commands and ticks; then the job and the materialiser catch up."""
        for _ in range(reports):
            asset = f"asset-{self.random.randrange(6)}"
            self._record(asset)
        self.job.tick()
        self.catch_up()

    def _record(self, asset: str) -> None:
        kind = self.random.random()
        if kind < 0.8:
            state = self.random.choice(["under-attack", "clear", "suspicious"])
            self.job.put("attack", Report(asset, f"waf-{self.random.randrange(4)}", state))
        elif kind < 0.9:
            id_ = f"0b8f7e0c-51a3-4f0e-9d3e-{self.random.randrange(10**12):012d}"
            action = self.random.choice(ACTIONS)
            wanted = "clear" if action == "set" else None
            self.job.put("attack", Command(action, asset, id_, "olga", "why", wanted))
        else:
            self.job.tick()

    def catch_up(self) -> None:
        self.job.run()
        worker = Materialiser(self.job.bus, self.job.topics, SCENARIOS, lambda: START)
        while worker.step():
            pass
        worker.close()

    def snapshot(self) -> None:
        take(self.job.bus, self.job.topics, SCENARIOS, self.snapshots, lambda _d, _t: None)

    def reconcile(self, patience_s: float = 1) -> Result:
        return Reconciler(
            self.job.bus,
            self.job.topics,
            SCENARIOS,
            self.snapshots,
            lambda: START,
            patience_s=patience_s,
            grace_s=0,
        ).run()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_no_difference_is_found_where_there_is_none(world):
    world.live(200)
    result = world.reconcile()
    assert result.differences == []
    assert result.compared == AssetState.objects.count() > 3
    assert result.records > 200


def test_a_row_that_moved_on_meanwhile_is_no_difference(world, monkeypatch):
    world.live(50)
    read = Reconciler._all_rows

    def late(self):
        world.live(30)
        return read(self)

    monkeypatch.setattr(Reconciler, "_all_rows", late)
    assert world.reconcile().differences == []


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("state", "suspicious"),
        ("severity", 9),
        ("since", 1),
        ("unconfirmed", True),
        ("record", "{}"),
        ("purged", True),
        ("version", "000001.0000000000000000000.0000000000000"),
    ],
)
def test_a_row_corrupted_on_purpose_is_found(world, column, value):
    world.live(60)
    row = AssetState.objects.filter(purged=False, state__in=["clear", "under-attack"]).first()
    assert row
    if column == "unconfirmed":
        value = not row.unconfirmed
    setattr(row, column, value)
    row.save()
    found = world.reconcile().differences
    assert [(d.asset, d.kind) for d in found] == [(row.asset, "differs")]
    assert column in found[0].fields


def test_a_vote_bent_inside_the_record_is_found(world):
    world.live(60)
    row = AssetState.objects.exclude(record__contains='"votes":[]').filter(purged=False).first()
    assert row
    bent = row.record.replace('"weight":1', '"weight":7')
    assert bent != row.record
    AssetState.objects.filter(pk=row.pk).update(record=bent)
    assert [d.asset for d in world.reconcile().differences] == [row.asset]


def test_a_missing_and_an_extra_row_are_found(world):
    world.live(60)
    row = AssetState.objects.filter(purged=False).first()
    assert row
    lost = row.asset
    row.asset, row.pk = "nobody", row.pk
    row.save()
    found = {(d.asset, d.kind) for d in world.reconcile().differences}
    assert found == {(lost, "missing"), ("nobody", "extra")}


def test_a_job_that_is_behind_is_said(world):
    world.live(20)
    BucketStatus.objects.update(offset=0)
    with pytest.raises(Behind, match="the job has not reached the log's end"):
        world.reconcile(patience_s=0)


def test_a_materialiser_that_is_behind_is_said(world):
    world.live(20)
    row = AssetState.objects.filter(purged=False).first()
    assert row
    record = state_of_json(row.record)
    world.job.producer.send_and_wait(
        world.job.topics.states("attack"), record.asset.encode(), encode_state(record)
    )
    with pytest.raises(Behind, match="the materialiser has not reached"):
        world.reconcile(patience_s=0)


def test_it_goes_on_from_a_snapshot_where_the_log_begins_later(world):
    world.live(80)
    world.snapshot()
    world.live(80)
    for (topic, partition), (_, end) in world.job.bus.offsets(
        [world.job.topics.reports("attack")]
    ).items():
        snapshot = FoldSnapshot.objects.get(scenario="attack", partition=partition)
        world.job.bus.truncate(topic, partition, min(snapshot.next_offset, end))
    result = world.reconcile()
    assert result.differences == []
    assert result.unjudged == 0
    AssetState.objects.filter(purged=False).update(since=5)
    assert world.reconcile().differences != []


def test_without_a_snapshot_it_says_how_many_it_could_not_judge(world):
    world.live(80)
    shown = AssetState.objects.filter(scenario="attack", purged=False).count()
    topic = world.job.topics.reports("attack")
    for (_, partition), (begin, _) in world.job.bus.offsets([topic]).items():
        world.job.bus.truncate(topic, partition, begin + 1)
    result = world.reconcile()
    assert result.differences == []
    assert result.unjudged == shown


def test_a_damaged_snapshot_is_not_used(world, tmp_path):
    world.live(80)
    world.snapshot()
    for file in tmp_path.glob("*.fold"):
        file.write_bytes(file.read_bytes()[:-1])
    topic = world.job.topics.reports("attack")
    for (_, partition), (begin, _) in world.job.bus.offsets([topic]).items():
        world.job.bus.truncate(topic, partition, begin + 1)
    assert world.reconcile().unjudged > 0


def test_snapshots_go_on_from_the_one_before(world):
    for _ in range(3):
        world.live(40)
        world.snapshot()
    assert FoldSnapshot.objects.filter(scenario="attack", partition=0).count() >= 2
    assert world.reconcile().differences == []


@pytest.mark.parametrize("epoch", [0, 2])
def test_a_row_of_another_epoch_is_found(world, epoch):
    world.live(60)
    row = AssetState.objects.filter(purged=False).first()
    assert row
    row.version = f"{epoch:06d}" + row.version[6:]
    row.record = row.record.replace('"version":"1.', f'"version":"{epoch}.')
    row.save()
    found = world.reconcile().differences
    assert [set(difference.fields) for difference in found] == [{"version", "record"}]


def test_after_a_rebuild_everything_is_of_the_new_epoch(world):
    world.live(60)
    before = list(Transition.objects.order_by("pk").values_list("asset", "place", "state"))
    world.job = PlayedJob(world.job.bus, SCENARIOS.values(), epoch=2)
    world.live(0)
    assert world.reconcile().differences == []
    assert {row.version[:6] for row in AssetState.objects.all()} == {"000002"}
    told = list(Transition.objects.order_by("pk").values_list("asset", "place", "state"))
    assert told[: len(before)] == before


def test_a_snapshot_told_in_an_earlier_epoch_serves_on(world):
    world.live(80)
    world.snapshot()
    topic = world.job.topics.reports("attack")
    for (_, partition), (_, end) in world.job.bus.offsets([topic]).items():
        world.job.bus.truncate(topic, partition, end)
    BucketStatus.objects.update(epoch=2)
    assert world.reconcile().differences == []


def test_a_log_that_does_not_answer_is_no_agreement(world):
    world.live(5)
    place = (world.job.topics.reports("attack"), 0)
    replay = Replay("attack", 0, SCENARIOS["attack"].partitions)
    with pytest.raises(Unavailable, match="nothing arrives"):
        read_on(world.job.bus, {place: replay}, {place: 10_000}, lambda _d, _t: None, stalled_s=0)


def test_records_deleted_while_they_are_read_are_no_agreement(world):
    world.live(40)
    place = (world.job.topics.reports("attack"), 0)
    world.job.bus.truncate(*place, before=5)
    replay = Replay("attack", 0, SCENARIOS["attack"].partitions)
    with pytest.raises(BusError, match="deleted while it was read"):
        read_on(world.job.bus, {place: replay}, {place: 9}, lambda _d, _t: None)


def test_a_log_that_is_not_there_is_no_agreement(world):
    world.job.bus = MemoryBus(lambda: START)
    with pytest.raises(Behind, match=r"topics are missing: attack\.reports"):
        world.reconcile()
