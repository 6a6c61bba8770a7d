"""Reconcile: what the log says, held against the database row for row."""

from __future__ import annotations

import gc
import itertools
import random
import re
import time
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from bus.base import BusError, TopicSpec, Unavailable
from bus.memory import MemoryBus
from dashboard.core.common.times import now_ms
from dashboard.core.job.models import BucketStatus
from dashboard.core.rules import changes, log_replay, reconciliation
from dashboard.core.rules import tasks as rule_tasks
from dashboard.core.rules.changes import ChangeComparison
from dashboard.core.rules.log_replay import PartitionReplay, Snapshots, read_on, take, workspace
from dashboard.core.rules.management.commands import reconcile as command_reconcile
from dashboard.core.rules.models import BucketJudgement
from dashboard.core.rules.reconciliation import Behind, Comparison, Reconciler, Result, aligned
from dashboard.core.states.aggregates import Miscounted, miscounted
from dashboard.core.states.models import (
    AssetState,
    DoubtCount,
    FoldSnapshot,
    StateCount,
    Transition,
)
from dashboard.core.states.queries import doubt_counts
from dashboard.serve.materialiser.worker import Materialiser
from domain.records import Command, Kind, Mute, Report
from domain.scenario import FOLD
from domain.scenario_parser import load_scenarios
from support.kafka.sinks import PlayedJob
from support.run.stack import free_port
from wire.sink import encode_state, state_of_json
from wire.source import encode_mute

pytestmark = pytest.mark.django_db
SCENARIOS = load_scenarios(Path(__file__).parents[3] / "scenarios.toml", demo=True)
START = 1_790_000_000_000
MUTE = "0f8fad5b-d9cb-469f-a165-70867728950e"
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
            state = self.random.choice(["under-attack", "clear", "suspicious", "critical"])
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

    def reconcile(self, patience_s: float = 1, **options: Any) -> Result:
        return Reconciler(
            self.job.bus,
            self.job.topics,
            SCENARIOS,
            self.snapshots,
            lambda: START,
            patience_s=patience_s,
            grace_s=0,
            **options,
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


@pytest.mark.parametrize("from_snapshot", [False, True])
def test_mutes_are_folded_as_all_else_is(world, from_snapshot):
    world.live(60)
    for agent, until in (("waf-1", None), ("waf-2", START + 400_000)):
        value = encode_mute(Mute(agent, until, "olga", "wild", MUTE))
        for partition in range(SCENARIOS["attack"].partitions):
            world.job.command("attack", None, value, partition)
    world.live(60)
    assert AssetState.objects.filter(record__contains='"muted":').exists()
    world.snapshot()
    world.live(60)
    result = world.reconcile(from_snapshot=from_snapshot)
    assert result.differences == []
    bucket_mutes = [
        bucket.mutes for (name, _), bucket in world.job.buckets.items() if name == "attack"
    ]
    assert all("waf-1" in mutes for mutes in bucket_mutes)
    assert {bool(row.mutes) for row in BucketStatus.objects.filter(scenario="attack")} == {True}


def test_a_row_that_moved_on_meanwhile_is_no_difference(world, monkeypatch):
    world.live(50)
    read = Comparison._rows

    def late(self, scenario):
        world.live(30)
        return read(self, scenario)

    monkeypatch.setattr(Comparison, "_rows", late)
    assert world.reconcile().differences == []


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("state", "suspicious"),
        ("severity", 9),
        ("rank", 9),
        ("disputed", "suspicious of it"),
        ("unconfirmed_reason", "nobody knows"),
        ("silent", 77),
        ("doubt", 77),
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
    differences = world.reconcile().differences
    assert [(d.asset, d.kind) for d in differences] == [(row.asset, "differs")]
    assert column in differences[0].fields


def test_a_vote_bent_inside_the_record_is_found(world):
    world.live(60)
    row = AssetState.objects.exclude(record__contains='"votes":[]').filter(purged=False).first()
    assert row
    bent = row.record.replace('"weight":1', '"weight":7')
    assert bent != row.record
    AssetState.objects.filter(pk=row.pk).update(record=bent)
    assert [d.asset for d in world.reconcile().differences] == [row.asset]


def test_a_doubt_bent_inside_the_record_is_found(world):
    world.live(60)
    row = AssetState.objects.filter(record__contains='"doubts":[', purged=False).first()
    assert row
    bent = row.record.replace('"said":"critical"', '"said":"clear"')
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
    differences = {(d.asset, d.kind) for d in world.reconcile().differences}
    assert differences == {(lost, "missing"), ("nobody", "extra")}


def test_kept_counts_that_are_not_those_of_the_rows_are_named(world):
    world.live(120)
    assert world.reconcile().agrees
    (kept,) = StateCount.objects.filter(scenario="attack", state="clear")
    StateCount.objects.filter(pk=kept.pk).update(n=kept.n + 2)
    StateCount.objects.create(scenario="orders", state="lost", n=-1)
    silent = doubt_counts("attack")["silent"]
    DoubtCount.objects.filter(scenario="attack", doubt="silent").update(n=silent + 1)
    result = world.reconcile()
    assert result.differences == []
    assert not result.agrees
    assert result.miscounted == [
        Miscounted("count", kept.n, kept.n + 2, "attack", "clear"),
        Miscounted("count", 0, -1, "orders", "lost"),
        Miscounted("doubt", silent, silent + 1, "attack", "silent"),
    ]
    DoubtCount.objects.filter(scenario="attack", doubt="silent").update(n=silent)
    StateCount.objects.filter(state__in=["clear", "lost"]).delete()
    assert world.reconcile().miscounted == [Miscounted("count", kept.n, 0, "attack", "clear")]


@pytest.mark.parametrize("as_json", [False, True])
def test_each_wrong_number_is_printed(as_json):
    wrong = [
        Miscounted("count", 7, 8, "attack", "clear"),
        Miscounted("names", 20, 0),
        Miscounted("doubt", 3, 0, "attack", "disputed"),
    ]
    out = StringIO()
    command_reconcile.Command(stdout=out)._print(Result(9, 7, 0, [], wrong), as_json=as_json)
    if as_json:
        assert msgspec.json.decode(out.getvalue())["miscounted"][1]["expected"] == 20
    else:
        assert out.getvalue().splitlines() == [
            "kept count of attack/clear: expected 7, found 8",
            "names in the index of their parts: expected 20, found 0",
            "kept count of assets of attack with the doubt disputed: expected 3, found 0",
            "9 records replayed, 7 assets compared, 0 differences, 3 counts on pages wrong",
            (
                "0 changes compared, 0 differences: those of the records that were replayed, as "
                "far as retention keeps changes"
            ),
        ]


@pytest.mark.parametrize("first", [False, True])
def test_a_log_that_needs_a_later_release_is_said_and_makes_no_snapshot(world, first, monkeypatch):
    plain = SCENARIOS["attack"].to_plain() | {"fold": FOLD + 1}
    later = msgspec.json.encode({"type": "scenario", "scenario": plain})
    if first:
        world.job = PlayedJob(MemoryBus(lambda: START), [])
        world.job.bus.ensure_topics(
            TopicSpec(*spec) for spec in world.job.topics.specs(SCENARIOS.values())
        )
    else:
        world.live(20)
    (world.job._send if first else world.job.command)("attack", None, later, 2)
    monkeypatch.setattr(Reconciler, "_wait_for_database", lambda _self, _ends: None)
    with pytest.raises(Behind, match=rf"the log of attack needs version {FOLD + 1} of the fold"):
        world.reconcile()
    world.snapshot()
    rows = FoldSnapshot.objects.filter(scenario="attack")
    assert {row.partition for row in rows} <= {0, 1, 3}


def test_a_count_of_no_asset_is_no_difference(world):
    world.live(60)
    StateCount.objects.create(scenario="orders", state="lost", n=0)
    assert world.reconcile().agrees


@pytest.mark.parametrize("name", ["a", "ünit/9 10.0.0.0%2F8", "x" * 200])
def test_names_that_the_index_of_names_lacks_are_counted(world, name):
    world.live(60)
    names = AssetState.objects.count()
    with transaction.atomic():
        hidden = AssetState(asset=name, **_of_no_matter(purged=True))
        hidden.save()
    assert miscounted() == []
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER states_nameparts_gone")
        hidden.delete()
    assert miscounted() == [Miscounted("names", names, names + 1)]


@pytest.mark.extensive(
    guard="tests/unit/core/test_reconcile.py::test_names_that_the_index_of_names_lacks_are_counted"
)
def test_the_index_is_counted_beyond_what_one_byte_holds(world):
    with transaction.atomic():
        AssetState.objects.bulk_create(
            AssetState(asset=f"asset-{n}", **_of_no_matter(purged=True)) for n in range(20_000)
        )
    assert miscounted() == []
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("INSERT INTO states_nameparts(states_nameparts) VALUES ('delete-all')")
    assert miscounted() == [Miscounted("names", 20_000, 0)]


def test_the_document_says_how_wrong_numbers_are_made_anew(world):
    world.live(60)
    StateCount.objects.update(n=77)
    DoubtCount.objects.update(n=77)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("INSERT INTO states_nameparts(states_nameparts) VALUES ('delete-all')")
    assert {number.kind for number in miscounted()} == {"count", "doubt", "names"}
    document = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    (sql,) = re.findall(r"```sql\n(.*?)```", document, re.DOTALL)
    statements = re.findall(r"^(?:DELETE|INSERT) .*?;", sql, re.DOTALL | re.MULTILINE)
    assert len(statements) == 5
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    assert miscounted() == []


def test_without_an_index_there_is_nothing_to_count(world):
    world.live(20)
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE states_nameparts")
    assert miscounted() == []


def _of_no_matter(**fields: Any) -> dict[str, Any]:
    return {
        "scenario": "orders", "partition": 0, "state": "", "severity": 0, "since": 0,
        "version": "v", "changed_at": 0, "cause_type": "purge", "record": "{}",
    } | fields  # fmt: skip


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


def test_it_begins_at_the_newest_snapshot_where_it_is_told_to(world):
    world.live(80)
    world.snapshot()
    world.live(60)
    world.snapshot()
    world.live(40)
    whole, since = world.reconcile(), world.reconcile(from_snapshot=True)
    assert whole.agrees
    assert since.agrees
    assert since.compared == whole.compared
    ends = world.job.bus.offsets(list(map(world.job.topics.reports, SCENARIOS)))
    reached = {
        (s.scenario, s.partition): s.next_offset for s in FoldSnapshot.objects.order_by("id")
    }
    left = sum(
        end - reached[world.job.topics.scenario_of(topic) or "", partition]
        for (topic, partition), (_, end) in ends.items()
    )
    assert since.records == left < whole.records
    untouched = AssetState.objects.filter(purged=False).order_by("version").first()
    assert untouched
    AssetState.objects.filter(pk=untouched.pk).update(since=5)
    comparison = world.reconcile(from_snapshot=True)
    assert [difference.asset for difference in comparison.differences] == [untouched.asset]


def test_without_any_snapshot_it_begins_at_the_logs_beginning_all_the_same(world):
    world.live(40)
    assert world.reconcile(from_snapshot=True).records == world.reconcile().records > 40


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
    differences = world.reconcile().differences
    assert [set(difference.fields) for difference in differences] == [{"version", "record"}]


def test_after_a_rebuild_everything_is_of_the_new_epoch(world):
    world.live(60)
    before = list(Transition.objects.order_by("pk").values_list("asset", "place", "state"))
    world.job = PlayedJob(world.job.bus, SCENARIOS.values(), epoch=2)
    world.live(0)
    assert world.reconcile().differences == []
    assert {row.version[:6] for row in AssetState.objects.all()} == {"000002"}
    transitions = list(Transition.objects.order_by("pk").values_list("asset", "place", "state"))
    assert transitions[: len(before)] == before


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
    replay = PartitionReplay("attack", 0, SCENARIOS["attack"].partitions)
    with pytest.raises(Unavailable, match="nothing arrives"):
        read_on(world.job.bus, {place: replay}, {place: 10_000}, lambda _d, _t: None, stalled_s=0)


def test_records_deleted_while_they_are_read_are_no_agreement(world):
    world.live(40)
    place = (world.job.topics.reports("attack"), 0)
    world.job.bus.truncate(*place, before=5)
    replay = PartitionReplay("attack", 0, SCENARIOS["attack"].partitions)
    with pytest.raises(BusError, match="deleted while it was read"):
        read_on(world.job.bus, {place: replay}, {place: 9}, lambda _d, _t: None)


def test_a_log_that_is_not_there_is_no_agreement(world):
    world.job.bus = MemoryBus(lambda: START)
    with pytest.raises(Behind, match=r"topics are missing: attack\.reports"):
        world.reconcile()


@pytest.mark.parametrize(
    ("bootstrap", "advice"),
    [(None, "make run"), ("127.0.0.1:{port}", "TALLYBOARD_KAFKA_BOOTSTRAP")],
)
def test_a_broker_that_is_not_there_is_named_soon(
    monkeypatch: pytest.MonkeyPatch, bootstrap: str | None, advice: str
):
    port = free_port()
    given = {"kafka_port": port, "kafka_bootstrap": bootstrap and bootstrap.format(port=port)}
    monkeypatch.setattr(settings, "TALLYBOARD", settings.TALLYBOARD.model_copy(update=given))
    monkeypatch.setattr(command_reconcile, "ANSWERS_S", 1.0)
    begun = time.monotonic()
    with pytest.raises(
        CommandError, match=f"does not answer at 127.0.0.1:{port} .*{advice}"
    ) as error:
        call_command("reconcile")
    assert error.value.returncode == 2
    assert time.monotonic() - begun < 4


# ---- changes ------------------------------------------------------------------------------------


def kept_changes(**fields: Any) -> Any:
    """Return the changes that the database has, in order."""
    return Transition.objects.filter(scenario="attack", **fields).order_by("place")


def named(result: Result) -> list[tuple[str, str, str]]:
    return [(each.asset, each.place, each.kind) for each in result.changes]


@pytest.mark.parametrize("from_snapshot", [False, True])
def test_changes_are_those_of_the_log(world, from_snapshot):
    world.live(120)
    world.snapshot()
    world.live(120)
    result = world.reconcile(from_snapshot=from_snapshot)
    assert result.changes == []
    assert result.agrees
    held = Transition.objects.filter(scenario="attack").count()
    assert (result.changes_compared == held) is not from_snapshot
    assert 10 < result.changes_compared <= held
    assert {row.kind for row in Transition.objects.all()} >= {"change", "unconfirmed"}


def test_a_deleted_change_is_named(world):
    world.live(120)
    gone = kept_changes()[5]
    gone.delete()
    result = world.reconcile()
    assert not result.agrees
    assert named(result) == [(gone.asset, gone.place, "missing")]


@pytest.mark.parametrize(
    ("column", "value"),
    [("at", 1_790_000_000_001), ("previous", "x"), ("state", "x"), ("unconfirmed", None),
     ("kind", "reminder"), ("cause_type", "purge"), ("cause", "{}")],
)  # fmt: skip
def test_a_change_bent_on_purpose_is_named(world, column, value):
    world.live(120)
    bent = kept_changes()[5]
    original = getattr(bent, column)
    setattr(bent, column, value)
    bent.save()
    result = world.reconcile()
    assert named(result) == [(bent.asset, bent.place, "differs")]
    assert result.changes[0].fields == {column: (original, value)}


def test_a_change_that_never_was_is_named(world):
    world.live(120)
    extra = kept_changes()[5]
    extra.pk, extra.place = None, extra.place[:-1] + "7"
    extra.save()
    assert named(world.reconcile()) == [(extra.asset, extra.place, "extra")]


def test_changes_that_retention_may_have_deleted_are_not_missed(world, monkeypatch):
    world.live(120)
    ordered = list(kept_changes().order_by("at"))
    edge = ordered[len(ordered) // 2].at
    monkeypatch.setattr(changes, "history_edge", lambda _scenario, _now: edge)
    older = Transition.objects.filter(at__lt=edge)
    (kept,) = older[:1]
    older.exclude(pk=kept.pk).delete()
    result = world.reconcile()
    assert result.changes == []
    assert result.changes_compared == len([row for row in ordered if row.at >= edge])
    kept_changes(at__gte=edge)[3].delete()
    assert len(world.reconcile().changes) == 1


def test_changes_from_before_what_the_log_holds_are_not_compared(world):
    world.live(80)
    world.snapshot()
    before = Transition.objects.count()
    world.live(80)
    for topic, partition in world.job.bus.offsets([world.job.topics.reports("attack")]):
        snapshot = FoldSnapshot.objects.get(scenario="attack", partition=partition)
        world.job.bus.truncate(topic, partition, snapshot.next_offset)
    result = world.reconcile()
    assert result.changes == []
    assert 0 < result.changes_compared == Transition.objects.count() - before
    kept_changes().first().delete()
    assert world.reconcile().changes == []
    kept_changes().last().delete()
    assert len(world.reconcile().changes) == 1


def test_changes_that_come_meanwhile_are_no_difference(world, monkeypatch):
    world.live(50)
    read = ChangeComparison._rows

    def late(self, *args):
        world.live(30)
        return read(self, *args)

    monkeypatch.setattr(ChangeComparison, "_rows", late)
    assert world.reconcile().changes == []


def test_a_rebuild_that_says_again_what_was_is_no_difference(world):
    """The last record of an asset, in an epoch of its own, makes no second change of it."""
    world.live(120)
    row = AssetState.objects.filter(purged=False).exclude(cause_type="reminder").first()
    assert row
    began = kept_changes(asset=row.asset, kind="change").last()
    assert began.place < row.version[7:]
    began.pk, began.place, began.version = None, row.version[7:], f"000002{row.version[6:]}"
    began.save()
    assert world.reconcile().changes == []
    kept_changes(asset=row.asset, kind="change", version__startswith="000001").last().delete()
    assert world.reconcile().changes == []


def test_what_differs_in_changes_is_printed(world):
    world.live(60)
    gone = kept_changes()[5]
    gone.delete()
    out = StringIO()
    command_reconcile.Command(stdout=out)._print(world.reconcile(), as_json=False)
    output = out.getvalue()
    assert f"attack/{gone.asset}: change to {gone.state} " in output
    assert "is missing" in output
    assert re.search(r"[\d,]+ changes compared, 1 differences", output)


# ---- with bounded memory ------------------------------------------------------------------------


def test_of_very_many_differences_the_first_are_listed(world, monkeypatch):
    world.live(120)
    AssetState.objects.update(since=5)
    Transition.objects.all().delete()
    monkeypatch.setattr(reconciliation, "MOST_LISTED", 2)
    result = world.reconcile()
    assert len(result.differences) == 2
    assert len(result.changes) == 2
    assert result.unlisted == AssetState.objects.count() - 2 > 2
    assert result.compared == AssetState.objects.count()
    out = StringIO()
    command_reconcile.Command(stdout=out)._print(result, as_json=False)
    assert f"{result.unlisted} more assets differ" in out.getvalue()
    alone = Result(1, 1, 0, [], [], unlisted=1)
    assert not alone.agrees


def test_streams_are_read_side_by_side():
    one, other = iter([(1, "a"), (3, "c")]), iter([(2, "B"), (3, "C"), (4, "D")])
    rows = aligned(one, other)
    assert next(rows) == (1, ["a", None])
    assert next(rows) == (2, [None, "B"])
    assert next(other) == (4, "D")  # nothing has been read ahead but the next of each
    assert list(rows) == [(3, ["c", "C"])]


def test_one_bucket_alone_is_judged(world):
    world.live(120)
    rows = AssetState.objects.filter(purged=False)
    row, other = rows[0], rows.exclude(partition=rows[0].partition)[0]
    AssetState.objects.filter(pk__in=[row.pk, other.pk]).update(since=5)
    result = world.reconcile(buckets=[f"attack/{row.partition}"])
    assert [each.asset for each in result.differences] == [row.asset]
    assert result.compared == AssetState.objects.filter(partition=row.partition).count()
    assert result.unjudged == 0


def test_a_bucket_that_is_not_there_is_said():
    with pytest.raises(CommandError, match=r"--bucket: expected one of .*attack/0.*, got nope/7"):
        call_command("reconcile", bucket=["nope/7"])


def test_the_plain_fold_has_one_bucket_in_memory(world, monkeypatch, tmp_path):
    world.live(120)
    kept = []
    read = log_replay.read_on

    def counted(bus, replays, *rest):
        gc.collect()
        alive = [each for each in gc.get_objects() if type(each) is PartitionReplay]
        kept.append(sum(each.bucket is not None for each in alive))
        return read(bus, replays, *rest)

    monkeypatch.setattr(log_replay, "read_on", counted)
    assert world.reconcile().agrees
    assert len(kept) > 10
    assert max(kept) <= 1


@pytest.mark.parametrize(
    ("records", "in_kernel"), [(10, True), (1_000_000, False)], ids=["long", "short"]
)
def test_a_long_log_goes_through_the_kernel(world, monkeypatch, records, in_kernel):
    world.live(40)
    BucketStatus.objects.filter(scenario="attack").update(engine="kernel")
    monkeypatch.setattr(log_replay, "LONG_LOG", records)
    orders = []

    def refuse(order, *_):
        orders.append(order)
        raise log_replay.FoldProblem("no Spark here")

    monkeypatch.setattr(reconciliation, "KernelFold", refuse)
    if not in_kernel:
        assert world.reconcile(kernel=None).agrees
        return
    with pytest.raises(Behind, match="no Spark here"):
        world.reconcile(kernel=None)
    # The other scenarios are carried by the Python engine, as the heartbeats say.
    assert set(orders[0].buckets) == {f"attack/{n}" for n in range(4)}


def test_what_a_killed_run_left_is_deleted(tmp_path):
    left = tmp_path / "left"
    left.mkdir()
    (left / "lock").touch()
    with workspace(tmp_path) as first:
        assert not left.exists()
        (first / "file").touch()
        with workspace(tmp_path) as second:
            assert (first / "file").exists()
        assert not second.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


# ---- the daily sample ---------------------------------------------------------------------------


def judged(world: World, now: int) -> dict[str, str]:
    """The sample of this time is judged: what came of each bucket."""
    rows = reconciliation.sample(SCENARIOS)

    def of(name: str) -> Reconciler:
        own = world.job.bus, world.job.topics, SCENARIOS, world.snapshots, lambda: START
        return Reconciler(*own, patience_s=0, grace_s=0, buckets=[name], totals=False)

    agree = reconciliation.judge(rows, of, lambda: now)
    assert agree is not any(row.problem for row in rows)
    return {f"{row.scenario}/{row.partition}": row.problem for row in rows}


def test_each_bucket_has_its_turn_within_six_days(world):
    world.live(120)
    places = {f"{n}/{at}" for n, each in SCENARIOS.items() for at in range(each.partitions)}
    days = [judged(world, START + day) for day in range(6)]
    assert {name for day in days for name in day} == places
    assert max(map(len, days)) < len(places) / 5
    stored = BucketJudgement.objects.get(scenario="attack", partition=0)
    assert stored.records > 10
    assert stored.compared == AssetState.objects.filter(scenario="attack", partition=0).count()
    assert (
        stored.begun_at
        == stored.ended_at
        == START + max(number for number, day in enumerate(days) if "attack/0" in day)
    )


def test_the_outcome_of_a_bucket_that_differs_is_stored(world):
    world.live(120)
    row = AssetState.objects.filter(scenario="attack", partition=0, purged=False).first()
    assert row
    AssetState.objects.filter(pk=row.pk).update(since=5)
    assert judged(world, START)["attack/0"] == f"{row.asset}: differs"
    assert BucketJudgement.objects.get(scenario="attack", partition=0).differences == 1
    BucketStatus.objects.update(offset=0)
    BucketJudgement.objects.all().delete()
    assert "has not reached the log's end" in judged(world, START)["attack/0"]


@pytest.mark.parametrize(("age_h", "started"), [(22, False), (24, True)])
def test_a_sample_is_judged_once_a_day_in_a_process(monkeypatch, age_h, started):
    commands: list[list[str]] = []
    monkeypatch.setattr(rule_tasks.subprocess, "Popen", commands.append)
    assert rule_tasks.judge_daily()
    begun = now_ms() - age_h * 3_600_000
    BucketJudgement.objects.create(scenario="attack", partition=0, begun_at=begun)
    assert rule_tasks.judge_daily() is started
    assert [command[2:] for command in commands] == [["reconcile", "--sample"]] * (1 + started)
