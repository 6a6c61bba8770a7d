"""What nobody can read: noticed by starts that get nowhere, set aside, stepped over, left out."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from uuid import UUID

import pytest

from bus.base import ConsumerRecord, TopicSpec
from bus.memory import MemoryBus
from dashboard.core.rules.log_replay import PartitionReplay
from dashboard.core.states.models import NO_TERMS, FoldSnapshot, LogBound, Terms
from domain.quarantine import is_aside
from domain.records import SET_ASIDE, Report
from domain.scenario_parser import load_scenarios
from streaming.state import quarantine
from streaming.state.checkpoint import positions
from streaming.state.quarantine import (
    AHEAD,
    MOST,
    BoundedBatch,
    ends_at,
    jump,
    next_bounded_batch,
    plan_batch,
)
from streaming.state.storage import LocalPath
from support.spark.driver_harness import SCENARIOS, TOPICS, Stage, values
from wire.job import QueryReport
from wire.sink import decode_dead_letter
from wire.source import encode_report, encode_scenario

A, B = ("s.reports", 0), ("s.reports", 1)


def test_the_way_round_comes_in_legs() -> None:
    assert next_bounded_batch({A: 5, B: 9}, {A: [], B: [(2, 8)]}) is None
    assert next_bounded_batch({A: 5, B: 9}, {A: [(5, 7)]}) == BoundedBatch(
        {A: 5, B: 9}, {A: 8}, close=True
    )
    assert next_bounded_batch({A: 0, B: 9}, {A: [(9, 9), (4, 5)]}) == BoundedBatch(
        {A: 4, B: 9}, {A: 6}, close=True
    )
    assert next_bounded_batch({A: 6, B: 9}, {A: [(4, 7)]}) == BoundedBatch(
        {A: 6, B: 9}, {A: 8}, close=True
    )
    far = 10 * MOST
    assert next_bounded_batch({A: 0}, {A: [(far, far)]}) == BoundedBatch({A: MOST}, {}, close=False)
    near = AHEAD + 7
    assert next_bounded_batch({A: 0}, {A: [(near, near)]}) == BoundedBatch({A: 7}, {}, close=False)
    assert next_bounded_batch({A: 7}, {A: [(near, near)]}) == BoundedBatch(
        {A: near}, {A: near + 1}, close=True
    )


def test_what_retention_has_deleted_is_not_looked_through(tmp_path: LocalPath) -> None:
    bus = MemoryBus(lambda: 0)
    bus.ensure_topics([TopicSpec("s.reports", 1, {}), TopicSpec("dead-letters", 1, {})])
    for value in (b"a", b"b", b"c"):
        bus.producer().send_and_wait("s.reports", None, value)
    bus.truncate("s.reports", 0, 2)
    quarantine.set_aside(bus, "dead-letters", tmp_path, {A: 1}, lambda _: "s/0")
    assert quarantine.known(tmp_path) == {}


def test_a_leg_is_planned_and_its_end_is_moved_once_it_is_committed(tmp_path: LocalPath) -> None:
    plan_batch(tmp_path, {A: 4, B: 9}, "{}")
    assert (tmp_path / "offsets" / "0").read_text().splitlines() == [
        "v1", "{}", json.dumps({"s.reports": {"0": 4, "1": 9}})
    ]  # fmt: skip
    assert UUID(json.loads((tmp_path / "metadata").read_text())["id"])
    assert not ends_at(tmp_path, {A: 4, B: 9})
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").touch()
    (tmp_path / "offsets" / ".0.crc").touch()
    assert ends_at(tmp_path, {A: 4, B: 9})

    jump(tmp_path, {A: 6, B: 9})

    assert positions(tmp_path) == {A: 6, B: 9}
    assert not (tmp_path / "offsets" / ".0.crc").exists()
    plan_batch(tmp_path, {A: 8, B: 9}, "other")
    plan_batch(tmp_path, {A: 7, B: 9}, "other")
    assert (tmp_path / "offsets" / "1").read_text().splitlines()[1:] == [
        "{}", json.dumps({"s.reports": {"0": 7, "1": 9}})
    ]  # fmt: skip


def test_starts_at_one_place_are_counted(tmp_path: LocalPath) -> None:
    assert [quarantine.Starts(tmp_path).record("1: a") for _ in range(3)] == [0, 1, 2]
    assert quarantine.Starts(tmp_path).record("1: b") == 0
    quarantine.Starts(tmp_path).forget()
    assert quarantine.Starts(tmp_path).record("1: b") == 0
    (tmp_path / quarantine.STARTS).write_text("{")
    assert quarantine.Starts(tmp_path).record("1: b") == 0


def test_what_was_set_aside_is_kept_once(tmp_path: LocalPath) -> None:
    assert quarantine.known(tmp_path) == {}
    quarantine.remember(tmp_path, {"s/0": [(5, 6)]})
    quarantine.remember(tmp_path, {"s/0": [(1, 2), (5, 6)], "s/1": [(3, 3)]})
    assert quarantine.known(tmp_path) == {"s/0": [(1, 2), (5, 6)], "s/1": [(3, 3)]}
    assert quarantine.in_words(quarantine.known(tmp_path)) == [
        "s/0: offsets 5 to 6 are set aside, and 1 before: see Dead letters",
        "s/1: offsets 3 to 3 are set aside: see Dead letters",
    ]
    (tmp_path / quarantine.FILE).write_text("{")
    with pytest.raises(ValueError, match="UnreadableStart"):
        quarantine.known(tmp_path)


# ---- a driver -----------------------------------------------------------------------------------

REPORTS = TOPICS.reports("sites")


@pytest.fixture
def stage(tmp_path: LocalPath, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A driver, begun by the test, that sets aside what is over 1,000 bytes."""
    bus = MemoryBus(lambda: int(time.time() * 1000))
    made = Stage(tmp_path, bus, monkeypatch)
    made.file.write_text(SCENARIOS)
    monkeypatch.setattr(quarantine, "MOST_UNPACKED", 1000)
    monkeypatch.setattr("streaming.spark.run_loop.FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr("streaming.job.driver.Driver._step_over", lambda *_: None)
    made.begin()
    made.wait_for("running")
    yield made
    made.end()


def fail(stage: Stage, times: int) -> None:
    """The query fails so often without having got anywhere."""
    for _ in range(times):
        running = len(stage.queries)
        stage.queries[-1].error = RuntimeError("it died")
        wait = time.monotonic() + 20
        while len(stage.queries) == running and time.monotonic() < wait:
            time.sleep(0.01)


def letters(stage: Stage) -> list[str]:
    edges = stage.bus.offsets([TOPICS.dead_letters])
    messages = stage.bus.reader({place: begin for place, (begin, _) in edges.items()}).poll(0)
    return [decode_dead_letter(m.key, m.value, m.headers).reason for m in messages]


def test_a_driver_sets_aside_what_its_query_ends_at_again_and_again(
    stage: Stage,
) -> None:
    producer = stage.bus.producer()
    sent = producer.send_and_wait(REPORTS, b"k", b"x" * 2000, partition=1)
    producer.send_and_wait(REPORTS, b"k", b"x" * 900, partition=1)
    fail(stage, 1)
    assert letters(stage) == []
    assert stage.query_reports()[-1].asides == {}

    fail(stage, 2)

    assert letters(stage) == [SET_ASIDE]
    span = (sent.offset, sent.offset)
    assert quarantine.known(stage.folder / "checkpoint") == {"sites/1": [span]}
    stage.wait_for("running")
    report = stage.query_reports()[-1]
    assert report.asides == {"sites/1": (span,)}
    assert "sites/1: offsets" in report.message
    fail(stage, 1)
    assert letters(stage) == [SET_ASIDE], "it is told of once"


def test_a_stop_on_purpose_is_no_death(stage: Stage) -> None:
    starts = stage.folder / "checkpoint" / "kernel" / quarantine.STARTS
    assert starts.exists()
    stage.ask("1", "stop")
    assert not starts.exists()
    assert values(stage.bus, TOPICS.dead_letters) == []


# ---- who folds the log for himself --------------------------------------------------------------


def test_a_fold_leaves_it_out(tmp_path: LocalPath) -> None:
    file = tmp_path / "scenarios.toml"
    file.write_text(SCENARIOS)
    scenario = load_scenarios(file)["sites"]

    def fed(terms: Terms) -> PartitionReplay:
        replay = PartitionReplay("sites", 0, 1, terms)
        lines: list[tuple[bytes | None, bytes]] = [(None, encode_scenario(scenario))]
        lines += [(b"k", encode_report(Report("k", "w", word))) for word in ("good", "bad")]
        for offset, (key, value) in enumerate(lines):
            replay.feed(ConsumerRecord("sites.reports", 0, offset, 1000 + offset, key, value, ()))
        return replay

    assert fed(NO_TERMS).last["k"].cause.offset == 2
    without = fed(Terms(asides=((2, 4),)))
    assert without.last["k"].cause.offset == 1
    assert without.next_offset == 3
    assert is_aside([(2, 4)], 4)
    assert not is_aside([(2, 4)], 5)


@pytest.mark.django_db
def test_who_folds_here_learns_of_it_and_leaves_snapshots_with_it_alone() -> None:
    LogBound.ingest([QueryReport("kernel", 1, "running", 2, asides={"attack/0": ((5, 6),)})])
    LogBound.ingest([QueryReport("kernel", 2, "running", 1, asides={"attack/0": ((1, 1),)})])
    terms = LogBound.terms_of("attack", 0)
    assert terms == Terms((), ((5, 6),))
    before = FoldSnapshot(clock=1, next_offset=5, bounds="[]", asides="[]")
    with_it = FoldSnapshot(clock=1, next_offset=6, bounds="[]", asides="[]")
    without = FoldSnapshot(clock=1, next_offset=9, bounds="[]", asides="[[5,6]]")
    assert [row.fits(terms) for row in (before, with_it, without)] == [
        True,
        False,
        True,
    ]
