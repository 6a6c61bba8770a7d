"""The logic of the benches: payloads, markers, samples, percentiles. No broker and no Spark."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench import drain, growth, live, pauses, recovery, scale
from bench.boards import Board, _Message
from bench.command import engines_of, recorded_arguments
from bench.figures import Delays, percentile
from bench.load import (
    AGENTS,
    MAJORITY,
    SCENARIO,
    STATES,
    Markers,
    backlog,
    everyone,
    fill,
    marker_keys,
    turns,
)
from bench.roles import Samples, Signals, delays_ms, paced, place_of
from bench.stack import BenchProblem, Engine, cpu_seconds, thread_seconds
from bus.base import TopicSpec
from bus.memory import MemoryBus
from domain.fold import Bucket
from domain.records import Answer, Cause, Report, StateRecord
from domain.scenario_parser import load_scenarios
from domain.version import Version
from ops.leftovers import descendants
from wire.partitioner import partition_of
from wire.sink import encode_headers, encode_state, state_of_json
from wire.source import decode_source

NOW = 1_790_000_000_000


# ---- percentiles --------------------------------------------------------------------------


def test_a_percentile_is_a_sample_that_so_many_do_not_exceed():
    samples = [float(number) for number in range(1, 101)]
    assert [percentile(samples, part) for part in (50, 90, 99, 99.9)] == [50, 90, 99, 100]
    assert percentile([7.0], 50) == percentile([7.0], 99.9) == 7


def test_delays_in_any_order():
    delays = Delays.of([300.0, 10.0, 20.0, 30.0])
    assert (delays.count, delays.p50, delays.p99, delays.most, delays.slow) == (4, 20, 300, 300, 25)
    with pytest.raises(ValueError, match="no samples"):
        Delays.of([])


# ---- payloads -----------------------------------------------------------------------------


def test_a_backlog_has_each_asset_and_as_many_reports_as_were_asked_for():
    records = list(backlog(1000, 300))
    assert len(records) == 1000
    assert len({key for key, _ in records}) == len({key for key, _ in records[:300]}) == 300
    reports = [decode_source(key, value, 2**42) for key, value in records]
    assert {report.agent for report in reports if isinstance(report, Report)} == set(AGENTS)
    assert len(reports) == sum(isinstance(report, Report) for report in reports)


def test_everyone_reports_once_on_each_asset():
    records = list(everyone(30, ["a", "b"]))
    reports = [decode_source(key, value, 2**42) for key, value in records]
    pairs = {(report.asset, report.agent) for report in reports if isinstance(report, Report)}
    assert len(records) == len(pairs) == 60
    assert {key for key, _ in records} == {key for key, _ in backlog(30, 30)}


def test_more_assets_than_reports_are_no_error():
    assert len(list(backlog(10, 300))) == 10


def test_each_turn_changes_something_visible(tmp_path: Path):
    path = tmp_path / "scenarios.toml"
    path.write_text(MAJORITY.format(lifetime="10m"))
    bucket = Bucket(load_scenarios(path)[SCENARIO], 0, 1)
    for offset, (key, value) in enumerate(islice(turns([b"a", b"b"]), 60)):
        report = decode_source(key, value, NOW + offset)
        assert len(list(bucket.apply(report, offset, NOW + offset))) == 1


@pytest.mark.parametrize("partitions", [1, 4, 12])
def test_a_marker_for_each_partition(partitions: int):
    places = [partition_of(key, partitions) for key in marker_keys(partitions)]
    assert places == list(range(partitions))


# ---- the log ------------------------------------------------------------------------------


def memory_bus() -> MemoryBus:
    """Two topics of two partitions."""
    bus = MemoryBus(lambda: NOW)
    bus.ensure_topics([TopicSpec(name, 2, {}) for name in ("reports", "states")])
    return bus


def test_fill_counts_what_the_log_holds():
    bus = memory_bus()
    fill(bus, "reports", backlog(500, 50), 500)
    with pytest.raises(BenchProblem, match="500 of 600"):
        fill(bus, "reports", backlog(500, 50), 600)


def answer(bus: MemoryBus, key: bytes, command: str) -> None:
    """A state record that answers a command."""
    record = StateRecord(
        key.decode(), STATES[0], None, NOW, False, Version(1, 9, 0),
        Cause("set", 0, 9, NOW), answer=Answer(command, "applied"),
    )  # fmt: skip
    headers = encode_headers(record)
    bus.producer().send_and_wait("states", key, encode_state(record), headers=headers)


def test_markers_are_answered_once_the_sink_has_come_to_rest():
    bus = memory_bus()
    markers = Markers(bus, "reports", "states", seed=1)
    assert sum(markers.ends.values()) == 2
    assert not markers.answered()
    reader = bus.reader(dict.fromkeys(markers.ends, 0))
    first, second = (
        (message.key or b"", msgspec.json.decode(message.value or b"")["id"])
        for message in reader.poll(1)
    )
    answer(bus, *first)
    assert [markers.answered() for _ in range(3)] == [False] * 3
    answer(bus, *second)
    assert not markers.answered(), "at first it is only noted that something has come"
    assert markers.answered()
    assert markers.answered_at > 0


# ---- samples ------------------------------------------------------------------------------


def samples(*moments: tuple[int, int, float]) -> Samples:
    """Samples of (partition, offset, moment)."""
    made = Samples()
    for each in moments:
        made.add(*each)
    return made


def test_delays_go_by_place_and_take_the_first_that_was_seen():
    sent = samples((0, 1, 10.0), (1, 1, 10.5), (0, 2, 11.0))
    seen = samples((1, 1, 10.6), (0, 1, 10.25), (0, 1, 99.0), (3, 3, 1.0))
    assert sorted(delays_ms(sent, seen)) == pytest.approx([100, 250])


def test_the_warm_up_is_left_out():
    sent = samples((0, 1, 10.0), (0, 2, 11.0), (0, 3, 12.0))
    assert len(sent.since(11.0)) == 2


def test_what_was_forwarded_is_seen_at_its_first_place():
    seen = samples((0, 5, 1.25), (1, 1, 1.5))
    moved = seen.moved({place_of(0, 5): place_of(3, 0)})
    assert delays_ms(samples((3, 0, 1.0)), moved) == [250]
    assert delays_ms(samples((1, 1, 1.0), (0, 5, 1.0)), moved) == [500]


def test_a_missing_state_record_is_a_problem():
    seen = live.SinkRecords(samples((0, 1, 1.0)), [])
    observed = live.Observed(0.0, samples((0, 1, 0.9), (0, 2, 0.9)), seen, Samples())
    with pytest.raises(BenchProblem, match="1 of 2 reports"):
        observed.sink(live.Load(2, 1))
    with pytest.raises(BenchProblem, match="not 200 reports/s"):
        observed.sink(live.Load(200, 1))


def test_paced_ends_when_told_to():
    signals = Signals()
    records = paced(((b"%d" % n, b"") for n in range(1000)), 1e6, signals)
    assert next(records) == (b"0", b"")
    signals.stop.set()
    assert list(records) == []


def test_a_board_counts_newer_rows_after_its_first_snapshot():
    seen = Samples()
    board = Board(4, seen)

    def tell(kind: str, *rows: tuple[str, int], at: float) -> None:
        plain = [{"asset": a, "version": Version(1, o, 0).sortable()} for a, o in rows]
        board.take(msgspec.convert({"type": kind, "seq": 1, "rows": plain}, _Message), at)

    tell("snapshot", ("a", 5), ("b", 6), at=1.0)
    assert board.open
    tell("changes", ("a", 5), ("b", 7), at=2.0)
    tell("snapshot", ("a", 8), ("b", 7), at=3.0)
    places = [partition_of(name, 4) << 48 | offset for name, offset in ((b"b", 7), (b"a", 8))]
    assert seen.first() == dict(zip(places, (2.0, 3.0), strict=True))


# ---- the machine --------------------------------------------------------------------------


def process(proc: Path, pid: int, parent: int, ticks: int) -> None:
    """A process as /proc shows it."""
    (proc / str(pid)).mkdir()
    fields = ["S", str(parent), *["0"] * 9, str(ticks), str(ticks), "0"]
    (proc / str(pid) / "stat").write_text(f"{pid} (java (x) y) {' '.join(fields)}")


def test_processor_time_of_a_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for pid, parent in ((10, 1), (11, 10), (12, 11), (13, 1)):
        process(tmp_path, pid, parent, 50)
    monkeypatch.setattr("os.sysconf", {"SC_CLK_TCK": 100}.get)
    assert sorted(descendants(10, tmp_path)) == [11, 12]
    assert cpu_seconds(10, tmp_path) == pytest.approx(3.0)


def test_engines_are_read():
    assert engines_of("kernel:micro-batch,python") == (
        Engine("kernel", "micro-batch"),
        Engine("python"),
    )
    assert Engine("kernel").settings() == {"ENGINE": "kernel"}
    assert Engine.parse("kernel:real-time").settings()["TRIGGER"] == "real-time"
    with pytest.raises(argparse.ArgumentTypeError, match="expected kernel, kernel:real-time"):
        engines_of("java")


def test_a_result_does_not_tell_where_it_is_kept():
    given = ["--results", "/a", "--engines", "kernel", "--results=/b", "--keep"]
    assert recorded_arguments(given) == ["--engines", "kernel", "--keep"]


# ---- rows ---------------------------------------------------------------------------------


def test_rows_of_a_drain_leave_out_what_no_engine_took():
    run = drain.Drained("python", 300, 20, fill_s=1, start_s=2, s=3, records=5)
    rows = drain.rows_of([run], [drain.Size(2000, 20, 9000), drain.Size(300, 20)])
    assert [row.figures for row in rows[:2]] == [{"python": 100.0}, {"python": 60.0}]
    assert rows[0].command == "python -m bench.drain --reports=300 --assets=20"


def test_a_drain_costs_by_report_and_by_asset():
    run = drain.Drained("kernel", 3_000_000, 20, 1, 2, 3, 5, 6.0, 1.5, disk=4000, memory_mb=0.1)
    rows = drain.costs(drain.Size(3_000_000, 20), [run], "make bench-drain")
    assert [row.figures["kernel"] for row in rows] == [2.0, 0.5, 200.0, 5000.0]


def test_the_processor_time_of_threads_is_found_by_their_names(tmp_path):
    for pid, parent, threads in ((7, 1, ["C2 CompilerThre"]), (8, 7, ["C1 CompilerThre", "main"])):
        (tmp_path / str(pid) / "task").mkdir(parents=True)
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (java) S {parent} 0")
        for number, name in enumerate(threads):
            (tmp_path / f"{pid}/task/{number}").mkdir()
            fields = f"{number} ({name}) S {parent} 0 0 0 0 0 0 0 0 0 30 20 0"
            (tmp_path / f"{pid}/task/{number}/stat").write_text(fields)
    assert thread_seconds(7, "CompilerThre", tmp_path) == pytest.approx(1.0)


def test_a_recovery_counts_by_its_slowest_kill():
    runs = [
        recovery.Recovered("kernel", 10, None, 4.0 + n, state) for n, state in enumerate((6, 9, 7))
    ]
    state, running = recovery.rows_of(runs, [recovery.Size(10, 12.0)])
    assert (state.figures, running.figures) == ({"kernel": 9}, {"kernel": 5.0})


def test_rows_of_the_live_bench_have_targets_under_the_judged_load_alone():
    spread = Delays.of([1.0, 2.0]).plain()
    run = live.Run("kernel", 200, 60, spread, spread, 3.0, spread, spread)
    options = argparse.Namespace(boards=50, misrouted=False)
    plain = live.rows_of([run], [live.SMALL], options)
    assert {row.target for row in plain} == {None}
    judged = live.rows_of([run], [live.Load(200, 60, judged=True)], options)
    assert sum(row.target is not None for row in judged) == 6
    assert len({row.what for row in judged}) == len(judged)


# ---- scale --------------------------------------------------------------------------------


def test_changes_are_newer_than_what_the_board_was_filled_with():
    filled = {record.asset: record for record in scale.states(scale.names(50))}
    assert len(filled) == 50
    assert sum(record.state == STATES[0] for record in filled.values()) == 10
    versions = {asset: record.version for asset, record in filled.items()}
    for key, value in islice(scale.changes(50), 500):
        record = state_of_json(value)
        assert record.asset == key.decode()
        assert record.version > versions[record.asset]
        assert record.since > filled[record.asset].since
        versions[record.asset] = record.version


@pytest.mark.parametrize("assets", [2_000, 1_000_000])
def test_texts_match_few_and_very_many(assets: int):
    texts = scale.texts(assets)
    names = scale.names(assets)[-2_000:]
    for q in texts.narrow:
        assert any(q.lower() in name for name in names)
    assert all(sum(q in name for name in names) > 500 for q in texts.broad)
    assert not any(q in name for name in names for q in texts.none)


def test_every_target_of_the_board_at_scale_is_a_row():
    wanted = scale.texts(1_000)
    filters = {q: [10.0, 20.0] for q in wanted.narrow} | {q: [30.0] for q in wanted.broad}
    filters |= {q: [40.0] for q in wanted.none}
    pages = {"first": [100.0, 400.0], "middle": [50.0], "palette": [60.0]}
    rows = scale.board_rows(1_000, pages, filters, wanted, [5.0, 900.0], "python")
    assert [row.figures[""] for row in rows] == [100, 400, 50, 20, 30, 40, 60, 900]
    assert [row.target for row in rows] == [None, 300, 300, 100, 100, 100, 100, 1_000]


def test_rows_of_a_page_under_changes():
    options = argparse.Namespace(assets=10, changes=100, seconds=2)
    watched = scale.Watched([16.0, 17.0, 140.0], [20.0, 90.0, 60.0], 95.0, 30.0)
    assert [(row.figures[""], row.target) for row in scale.page_rows(watched, options)] == [
        (95, None), (140, 100), (140, None), (30, None), (90, 300),
    ]  # fmt: skip


def test_the_longest_task_is_that_of_a_pages_main_thread():
    def event(name: str, tid: int, **rest: Any) -> dict[str, Any]:
        return {"name": name, "pid": 1, "tid": tid, **rest}

    task = "ThreadControllerImpl::RunTask"
    events = [
        event("thread_name", 1, args={"name": "CrRendererMain"}),
        event("thread_name", 2, args={"name": "Compositor"}),
        event(task, 1, tdur=7_000, dur=90_000),
        event(task, 1, tdur=9_500, dur=9_600),
        event(task, 2, tdur=99_000, dur=99_000),
        event("Paint", 1, tdur=50_000, dur=50_000),
    ]
    assert scale.longest_task_ms(msgspec.json.encode({"traceEvents": events})) == 9.5
    with pytest.raises(BenchProblem, match="no task"):
        scale.longest_task_ms(msgspec.json.encode({"traceEvents": events[:2]}))


def test_a_process_gives_way_with_its_threads_and_its_session():
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    ) as process:
        scale.give_way(process.pid)
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == scale.NICE
        group = Path(f"/proc/{process.pid}/autogroup")
        assert not group.exists() or group.read_text().split()[-1] == str(scale.NICE)
        process.communicate(b"\n")


def test_only_the_numbers_of_boards_that_are_judged_have_a_target():
    assert [scale.delay_target(sockets) for sockets in (500, 1_000, 20)] == [500, 400, None]


def test_memory_at_the_begin_and_the_end_is_that_of_some_seconds():
    memory = scale.Memory(1)
    memory.samples = [(float(second), 100.0 + second) for second in range(60)]
    memory.samples[25] = (25.0, 9_999.0)
    assert memory.since(20) == (125.0, 154.5)
    with pytest.raises(BenchProblem, match="was not seen"):
        memory.since(99)


def test_memory_is_that_of_a_whole_tree(tmp_path: Path):
    for pid, parent in ((10, 1), (11, 10), (13, 1)):
        process(tmp_path, pid, parent, 0)
        (tmp_path / str(pid) / "statm").write_text("9999 512 1 1 0 1 0\n")
    assert scale.resident_mb(10, tmp_path) == pytest.approx(4.0)


# ---- pauses -------------------------------------------------------------------------------


def test_reports_that_wait_together_are_one_pause_as_long_as_the_longest_wait():
    waited = [(0.0, 20.0), (1.0, 101.0), (1.2, 300.0), (1.4, 120.0), (2.0, 15.0), (9.0, 150.0)]
    assert list(pauses.pauses(waited)) == [(1.0, 300.0), (9.0, 150.0)]
    assert list(pauses.pauses([(0.0, pauses.SLOW_MS)])) == []
    assert list(pauses.pauses([])) == []


def test_waits_are_listed_as_the_reports_were_sent():
    sent, seen = {7: 100.5, 8: 100.0}, {8: 100.25, 7: 100.75}
    assert pauses.in_order(sent, seen) == [(0.0, 250.0), (0.5, 250.0)]


# ---- growth -------------------------------------------------------------------------------


def grown(**changes: int) -> growth.Trial:
    """A trial of a report's time of 30 µs for each asset, and some memory and rest."""
    shape = growth.Shape(**changes)
    empty = growth.Cost(s=1.0, cpu_s=3.0, compiling_s=1.0)
    full = growth.Cost(s=2.0, cpu_s=6.0 + 0.03 * shape.assets, compiling_s=4.0)
    return growth.Trial(
        shape, reports=1000, empty=empty, full=full, records=900, disk_mb=1.0,
        memory_mb=100.0 * shape.scenarios, idle_share=0.01 * shape.scenarios,
    )  # fmt: skip


def test_the_time_for_a_report_may_grow_with_the_logarithm_of_the_assets():
    trials = [grown(assets=10), grown(assets=100)]
    rows = {row.what: row for row in growth.rows_of("assets", trials)}
    assert rows["10 assets: processor time for a report"].figures == {"kernel": pytest.approx(300)}
    start = rows["10 assets: processor time of a start with nothing to do"]
    assert start.figures == {"kernel": 2}
    ratio = rows["assets from 10 to 100: times the time for a report"]
    assert ratio.figures["kernel"] == pytest.approx(10)
    assert ratio.target == pytest.approx(2)


def test_what_one_more_scenario_costs_at_rest():
    trials = [grown(scenarios=1), grown(scenarios=3)]
    rows = {row.what: row.figures["kernel"] for row in growth.rows_of("scenarios", trials)}
    assert rows["1 scenario: memory of the job"] == 100
    assert rows["one more scenario at rest, of one core"] == pytest.approx(1)
    assert rows["one more scenario: memory"] == pytest.approx(100)


def test_the_scenarios_of_a_growth_can_be_loaded(tmp_path: Path):
    path = tmp_path / "scenarios.toml"
    path.write_text(growth.Shape(scenarios=2, partitions=8).toml())
    scenarios = load_scenarios(path)
    assert {name: one.partitions for name, one in scenarios.items()} == {"sites-0": 8, "sites-1": 8}


@pytest.mark.parametrize("text", ["", "sites", "assets,sites"])
def test_unknown_parts_of_a_growth_are_refused(text: str):
    with pytest.raises(argparse.ArgumentTypeError, match="expected some of assets,agents"):
        growth.parts_of(text)
