"""A source topic that was deleted and created again is another log: the job waits, or reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from bus.base import TopicSpec
from bus.memory import MemoryBus
from domain.records import Report
from domain.scenario_parser import load_scenarios
from streaming.fold.epochs import start_of
from streaming.fold.workload import now_ms
from streaming.state.checkpoint import LogReplaced, check_logs, current_epoch
from streaming.state.storage import LocalPath
from support.spark.driver_harness import SCENARIOS, TOPICS, Stage
from wire.source import encode_report

REPORTS = TOPICS.reports("sites")


@pytest.fixture
def stage(tmp_path: LocalPath, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A driver that has read five records of each partition, and was stopped."""
    made = Stage(tmp_path, MemoryBus(now_ms), monkeypatch)
    made.file.write_text(SCENARIOS)
    made.begin()
    made.wait_for("running")
    append(made, 5)
    reached(made, 6)  # the rule, and five reports
    made.end()
    yield made
    if made.thread.is_alive():
        made.end()


def append(stage: Stage, records: int) -> None:
    """Append so many reports to each partition."""
    report = encode_report(Report("a", "w", "bad"))
    for partition in (0, 1):
        for _ in range(records):
            stage.bus.producer().send_and_wait(REPORTS, b"a", report, partition=partition)


def reached(stage: Stage, offset: int) -> None:
    """A batch up to this offset of both partitions was committed."""
    checkpoint = current_epoch(stage.folder / "checkpoint" / "kernel").path
    for name in ("commits", "offsets"):
        (checkpoint / name).make()
    offsets = json.dumps({REPORTS: {"0": offset, "1": offset}})
    (checkpoint / "offsets" / "0").write_whole(f"v1\n{{}}\n{offsets}".encode())
    (checkpoint / "commits" / "0").write_whole(b"v1\n{}")


def recreate(stage: Stage, records: int) -> None:
    """Delete the topic of reports, create it again, and append to it."""
    stage.bus.delete(REPORTS)
    specs = TOPICS.specs(load_scenarios(stage.file).values())
    stage.bus.ensure_topics(TopicSpec(*spec) for spec in specs)
    append(stage, records)


@pytest.mark.parametrize("records", [0, 3, 50])
def test_the_job_waits_however_long_the_new_log_is(stage: Stage, records: int) -> None:
    recreate(stage, records)
    stage.begin()
    stage.wait_for("waiting")
    said = stage.query_reports()[-1].message
    assert f"{REPORTS}: deleted and created again" in said
    assert "have the job read the new log" in said
    assert len(stage.queries) == 1  # the one before


def test_it_reads_the_new_log_from_its_beginning_once_it_is_asked_to(stage: Stage) -> None:
    recreate(stage, 50)
    stage.begin()
    stage.wait_for("waiting")
    ask = stage.ask_only("1", "rebuild")
    stage.wait_for("catching-up")
    start = start_of(current_epoch(stage.folder / "checkpoint" / "kernel"))
    assert start.ask == ask
    assert start.quiet == {"sites/0": -1, "sites/1": -1}
    assert start.logs == stage.bus.topic_ids([REPORTS])


def test_a_checkpoint_that_knows_no_ids_takes_those_that_there_are(stage: Stage) -> None:
    home = stage.folder / "checkpoint" / "kernel"
    (home / "start-1").delete()  # as an earlier release left it
    stage.begin()
    stage.wait_for("running")
    assert start_of(current_epoch(home)).logs == stage.bus.topic_ids([REPORTS])
    stage.end()
    recreate(stage, 50)
    stage.begin()
    stage.wait_for("waiting")


def test_what_no_batch_has_committed_may_have_been_shown_all_the_same(
    tmp_path: LocalPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Stage(tmp_path, MemoryBus(now_ms), monkeypatch)
    made.file.write_text(SCENARIOS)
    made.begin()
    made.wait_for("running")
    current_epoch(tmp_path / "checkpoint" / "kernel").path.make()
    made.end()
    recreate(made, 3)
    made.begin()
    made.wait_for("waiting")
    made.end()


def test_another_id_is_named_and_a_missing_one_is_not() -> None:
    check_logs({"a": "1", "b": "2"}, {"a": "1", "c": "3"})
    with pytest.raises(LogReplaced, match="a, b: deleted and created again"):
        check_logs({"b": "1", "a": "1", "c": "1"}, {"a": "2", "b": "2", "c": "1"})
