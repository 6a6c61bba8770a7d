"""What the worker does by schedule: snapshots once a day, rows and history deleted when old."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

import pytest
from django.conf import settings

from bus.memory import MemoryBus
from dashboard.celery import app
from dashboard.core.common import retention
from dashboard.core.rules import tasks as rule_tasks
from dashboard.core.rules.log_replay import KEPT, Snapshots, take
from dashboard.core.states import models
from dashboard.core.states.models import Answer, AssetState, FoldSnapshot, Transition
from dashboard.operate.administration import tasks as administration_tasks
from dashboard.operate.administration.retention import kept as declared
from domain.records import Report
from domain.scenario_parser import load_scenarios
from support.kafka.sinks import PlayedJob

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).parents[3]
SCENARIOS = load_scenarios(ROOT / "scenarios.toml")
NOW = 1_790_000_000_000
DAY = 86_400_000


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker's clock stands still."""
    for module in (administration_tasks, rule_tasks):
        monkeypatch.setattr(module, "now_ms", lambda: NOW)


def row(asset: str, *, purged_at: int | None) -> None:
    AssetState.objects.create(
        scenario="orders",
        asset=asset,
        partition=0,
        state="",
        severity=0,
        since=0,
        version="v",
        changed_at=0,
        cause_type="purge",
        record="{}",
        purged=purged_at is not None,
        purged_at=purged_at,
    )


def test_purged_rows_are_deleted_after_a_week_and_no_others(monkeypatch):
    monkeypatch.setattr(retention, "PORTION", 2)
    row("shown", purged_at=None)
    row("hidden", purged_at=NOW - 7 * DAY)
    for n in range(5):
        row(f"old-{n}", purged_at=NOW - 7 * DAY - 1 - n)
    assert administration_tasks.apply_retention() == {"purged assets, hidden": 5}
    assert administration_tasks.apply_retention() == {}
    assert set(AssetState.objects.values_list("asset", flat=True)) == {"shown", "hidden"}


def test_history_is_deleted_after_three_months():
    for n, at in enumerate((NOW - 90 * DAY - 1, NOW - 90 * DAY)):
        fields = {"scenario": "orders", "asset": "a", "version": f"v{n}", "at": at}
        Transition.objects.create(place=str(n), cause_type="report", cause="{}", **fields)
        Answer.objects.create(command=str(n), outcome="applied", **fields)
    assert administration_tasks.apply_retention() == {
        "changes of assets": 1,
        "answers to commands": 1,
    }
    assert [t.at for t in Transition.objects.all()] == [NOW - 90 * DAY]
    assert [a.at for a in Answer.objects.all()] == [NOW - 90 * DAY]


def test_what_cannot_be_deleted_hinders_nothing_else(monkeypatch):
    def fail(_now: int) -> int:
        raise OSError

    kept = (retention.Thinning("letters", fail), *models.KEPT)
    monkeypatch.setattr(models, "KEPT", kept)
    row("old", purged_at=1)
    with pytest.raises(ExceptionGroup) as raised:
        administration_tasks.apply_retention()
    assert [type(error) for error in raised.value.exceptions] == [OSError]
    assert not AssetState.objects.exists()


def test_the_newest_are_kept_where_only_so_many_are(monkeypatch):
    monkeypatch.setattr(retention, "PORTION", 2)
    for n in range(7):
        row(f"a{n}", purged_at=NOW - n)
    newest = retention.Retention("assets", AssetState, "purged_at", at_most=3)
    assert newest.apply(NOW) == 4
    assert newest.apply(NOW) == 0
    assert set(AssetState.objects.values_list("asset", flat=True)) == {"a0", "a1", "a2"}


def test_the_operators_list_is_what_is_declared():
    text = (ROOT / "docs" / "operations.md").read_text()
    section = text.partition("## Retention")[2].partition("\n## ")[0]
    lines = re.findall(r"^- (.+?): (.+?)(?: \(|$)", section, re.MULTILINE)
    assert lines == [(each.what, limits_of(each)) for each in declared()]


def test_whatever_a_package_declares_is_applied():
    written = [
        node.func.id
        for path in (ROOT / "dashboard").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    declarations = sum(name in ("Retention", "Thinning") for name in written)
    assert declarations == len(list(declared()))


def limits_of(kept: retention.Retention | retention.Thinning) -> str:
    """Return what the page says of how long, and how many, rows are kept."""
    age = "" if kept.kept_ms is None else f"{kept.kept_ms // DAY} d"
    most = "" if kept.at_most is None else f"at most {kept.at_most:,}"
    return ", ".join(filter(None, (age, most))) or "at the next turn"


@pytest.mark.parametrize(("age", "taken"), [(22, 0), (24, 12)])
def test_snapshots_are_taken_once_a_day(monkeypatch, age, taken):
    monkeypatch.setattr(rule_tasks, "snapshot_now", lambda: 12)
    assert rule_tasks.snapshot_daily() == 12
    FoldSnapshot.objects.create(
        scenario="orders",
        partition=0,
        next_offset=1,
        clock=0,
        taken_at=NOW - age * 3_600_000,
        file="f",
        assets=0,
        digest="d",
    )
    assert rule_tasks.snapshot_daily() == taken


def test_every_scheduled_task_is_there():
    app.loader.import_default_modules()
    named = {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}
    assert named <= set(app.tasks)
    assert "dashboard.operate.administration.tasks.apply_retention" in named


def test_of_snapshots_the_newest_are_kept_with_their_files(tmp_path):
    clock = itertools.count(NOW, 1000)
    job = PlayedJob(MemoryBus(lambda: next(clock)), [SCENARIOS["orders"]])
    snapshots = Snapshots(tmp_path, lambda: NOW)
    for n in range(KEPT + 3):
        job.put("orders", Report(f"order-{n}", "station", "received"))
        job.tick()
        take(job.bus, job.topics, job.scenarios, snapshots, lambda _done, _total: None)
    rows = FoldSnapshot.objects.all()
    assert rows.count() == KEPT * SCENARIOS["orders"].partitions
    assert {path.name for path in tmp_path.iterdir()} == {row.file for row in rows}
    ends = job.bus.offsets([job.topics.reports("orders")])
    newest = {(r.partition): r.next_offset for r in rows.order_by("next_offset")}
    assert newest == {partition: end for (_, partition), (_, end) in ends.items()}


def test_a_snapshot_taken_twice_is_one(tmp_path):
    job = PlayedJob(MemoryBus(lambda: NOW), [SCENARIOS["orders"]])
    snapshots = Snapshots(tmp_path, lambda: NOW)
    for _ in range(2):
        take(job.bus, job.topics, job.scenarios, snapshots, lambda _done, _total: None)
    assert FoldSnapshot.objects.count() == SCENARIOS["orders"].partitions
