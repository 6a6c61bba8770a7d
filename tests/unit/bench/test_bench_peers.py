"""The comparison with other engines: what counts as equal, and how it is told. Nothing is run."""

from __future__ import annotations

import argparse
import os
import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree as ET

import msgspec
import pytest

from bench.busyness import Busy, Look, Tally, look, printed_busyness
from bench.load import Answers
from bench.peers import __main__ as peers
from bench.peers import parts
from bench.peers.engines import BY_NAME, PEERS, described, peers_of
from bench.peers.footprint import footprint, segments
from bench.peers.outcome import Outcome, differences, outcome
from bench.peers.plot import OURS, plot
from bench.peers.tables import (
    drain_table,
    footprint_table,
    live_table,
    peers_rows,
    peers_tables,
    recovery_table,
)
from bench.report import PLOT
from bench.results import Machine, Result, Row, read
from bench.stack import BenchProblem, Product, memory_mb
from bus.base import TopicSpec
from bus.memory import MemoryBus
from config.archives import read_lock

NOW = 1_790_000_000_000


# ---- outputs ------------------------------------------------------------------------------


def written(*records: tuple[str, str, dict[str, Any]]) -> Outcome:
    """The outcome of a topic with these records: asset, state, and other fields."""
    bus = MemoryBus(lambda: NOW)
    bus.ensure_topics([TopicSpec("states", 2, {})])
    producer = bus.producer()
    for asset, state, more in records:
        vote = {"agent": "a", "state": state, "time": NOW}
        value = {"asset": asset, "state": state, "unconfirmed": False, "votes": [vote], **more}
        producer.send_and_wait("states", asset.encode(), msgspec.json.encode(value))
    return outcome(bus, "states", {})


def test_an_outcome_counts_all_records_and_keeps_each_assets_last():
    output = written(("x", "clear", {}), ("y", "attack", {}), ("x", "attack", {}))
    assert (output.records, output.last) == (3, {"x": "attack a:attack", "y": "attack a:attack"})
    assert output.bytes > 3 * len('{"asset":"x"}')


def test_equal_outcomes_differ_in_nothing_that_follows_from_the_log():
    one, other = written(("x", "clear", {"since": 1})), written(("x", "clear", {"since": 2}))
    assert differences(one, other) == []


@pytest.mark.parametrize(
    "more",
    [
        {"unconfirmed": True},
        {"disputed": "attack"},
        {"votes": []},
        {"votes": [{"agent": "a", "state": "clear", "silent": NOW}]},
        {"votes": [{"agent": "a", "state": "attack"}]},
        {"votes": [{"agent": "a", "state": "clear", "flapping": {"state": "attack"}}]},
        {"doubts": [{"agent": "a"}]},
        {"state": "attack"},
    ],
)
def test_what_readers_see_is_compared(more: dict[str, Any]):
    assert len(differences(written(("x", "clear", {})), written(("x", "clear", more)))) == 1


def test_a_record_too_many_is_a_difference():
    once, twice = written(("x", "clear", {})), written(*[("x", "clear", {})] * 2)
    assert differences(once, twice) == ["1 and 2 records"]


def test_of_many_different_assets_some_are_named():
    many = written(*((f"s{n}", "clear", {}) for n in range(9)))
    lines = differences(Outcome(9), many)
    assert [line.partition(":")[0] for line in lines] == ["s0", "s1", "s2", "6 more assets"]


def test_a_record_without_a_value_is_a_problem():
    bus = MemoryBus(lambda: NOW)
    bus.ensure_topics([TopicSpec("states", 1, {})])
    bus.producer().send_and_wait("states", b"x", None)
    with pytest.raises(BenchProblem, match="without key or value"):
        outcome(bus, "states", {})


def test_answers_of_an_earlier_turn_do_not_count():
    bus = MemoryBus(lambda: NOW)
    bus.ensure_topics([TopicSpec("states", 1, {})])

    def answer() -> None:
        bus.producer().send_and_wait("states", b"x", b"{}", headers=[("command", b"id")])

    answer()
    begin = {place: end for place, (_, end) in bus.offsets(["states"]).items()}
    answers = Answers(bus, "states", [b"id"], begin)
    assert [answers.complete() for _ in range(3)] == [False] * 3
    answer()
    assert [answers.complete() for _ in range(2)] == [False, True]


# ---- what an engine holds -----------------------------------------------------------------


class Place:
    """A copy of the product of which only the folder is there; its process is this one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def segment(self, partition: str, size: int) -> None:
        """Write a segment of a partition, and an index that reserves room."""
        home = self.folder / "broker" / "log" / partition
        home.mkdir(parents=True, exist_ok=True)
        (home / f"{0:020}.log").write_bytes(b"x" * size)
        (home / f"{0:020}.index").write_bytes(b"x" * 1000)

    def pid(self, name: str) -> int:
        """Return this process's id."""
        return os.getpid()


def test_an_engines_durable_copy_is_its_checkpoint_and_its_changelog(tmp_path: Path):
    place = Place(tmp_path)
    place.segment("reports-0", 10_000)
    place.segment("peer-store-changelog-0", 300)
    place.segment("peer-store-changelog-1", 30)
    place.segment("__transaction_state-0", 5_000)
    own = tmp_path / "peer"
    for name, size in (("rocksdb/1.sst", 77), ("saved/chk-1/1.sst", 50), ("saved/_metadata", 5)):
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_bytes(b"x" * size)
    copy, saved = cast("Product", place), own / "saved"
    held = footprint(copy, ["a", "b"], saved, own, ["peer-store-changelog", "gone"])
    assert (held.durable, held.working) == (330 + 55, 77)
    assert held.memory_mb == pytest.approx(2 * memory_mb(os.getpid()), rel=0.1)
    apart = footprint(copy, ["a"], saved, own / "rocksdb")
    assert (apart.durable, apart.working) == (55, 77)
    assert footprint(copy, ["a"], tmp_path / "none", tmp_path / "none").durable == 0


def test_segments_are_told_by_topic_though_one_name_begins_another(tmp_path: Path):
    place = Place(tmp_path)
    for partition in ("reports-0", "reports-1", "reports-late-0"):
        place.segment(partition, 10)
    by_topic = segments(cast("Product", place))
    assert {topic: len(files) for topic, files in by_topic.items()} == {
        "reports": 2, "reports-late": 1,
    }  # fmt: skip


# ---- tables -------------------------------------------------------------------------------


TAKEN = {"begun": "2026-01-02 03:04 UTC", "commit": "abc"}


def drained(engine: str, turn: str, s: float, cpu_s: float) -> dict[str, Any]:
    """A drain of a million reports, as it is kept."""
    figures = {
        "reports": 1_000_000, "assets": 10, "start_s": 5.0, "s": s, "cpu_s": cpu_s,
        "broker_cpu_s": 2.5, "records": 700, "bytes": 3_000_000, "others": 1.5,
    }  # fmt: skip
    labels = {"kind": "drain", "size": "dense", "engine": engine, "turn": turn}
    return {**labels, **figures, **described(engine), **TAKEN}


RUNS = [
    drained("kernel", "first", 10.0, 20.0),
    drained("quix", "", 50.0, 80.0),
    drained("streams-alo", "", 5.0, 10.0),
    drained("kernel", "last", 20.0, 20.0),
]


def test_ratios_are_to_the_mean_of_the_kernels_turns_and_losses_stand_first():
    lines = [line.strip("| ").split(" | ") for line in drain_table(RUNS).splitlines()[4:]]
    assert [line[0] for line in lines] == [
        "kernel, first", "kernel, last", "Kafka Streams, at least once",
        "Quix Streams, at least once",
    ]  # fmt: skip
    assert [line[1] for line in lines] == ["1.33", "0.67", "2.67", "0.27"]
    assert [line[3] for line in lines] == ["1.00", "1.00", "0.50", "4.00"]
    assert lines[2][4:] == ["200,000", "100,000", "10.0", "2.5", "3", "1.5 %"]


def test_a_drain_aims_at_a_ratio_to_its_rival_with_start():
    def rows(runs: list[dict[str, Any]]) -> list[Row]:
        machine = Machine("", 2, 23.5, "", 0, 0)
        return peers_rows(Result("peers", "", "", 1, "", machine, {}, [], runs))

    (row,) = rows([*RUNS, lived("kernel", 4.0)])
    # In 15 and 25 s, and in 10.
    mean = (1_000_000 / 15 + 1_000_000 / 25) / 2
    assert row.figures == {"kernel": pytest.approx(mean / 100_000)}
    assert (row.target, row.more) == (1.2, True)
    assert rows([run for run in RUNS if run["engine"] != "streams-alo"]) == []


def test_disk_and_memory_are_told_for_each_asset_and_the_least_stands_first():
    held = [
        {**RUNS[0], "memory_mb": 1500.0, "durable": 1000, "working": 5},
        {**RUNS[1], "memory_mb": 500.0, "durable": 600, "working": 400},
        {**RUNS[3], "memory_mb": 2500.0, "durable": 3000, "working": 5},
    ]
    lines = [line.strip("| ").split(" | ") for line in footprint_table(held).splitlines()[4:]]
    assert lines == [
        ["Quix Streams, at least once", "0.30", "0.25", "60", "40", "50,000,000", "500 MB"],
        ["kernel, first", "0.50", "0.75", "100", "0", "150,000,000", "1,500 MB"],
        ["kernel, last", "1.50", "1.25", "300", "0", "250,000,000", "2,500 MB"],
    ]
    assert footprint_table(RUNS) == ""  # kept by a run that did not measure it


def test_a_table_of_a_busy_machine_says_so():
    assert "Others had" not in drain_table(RUNS)
    busy = [*RUNS, {**RUNS[1], "others": 45.5}]
    assert "Others had up to 45.5 % of the processors meanwhile" in drain_table(busy)
    assert "Others had" in live_table([{**lived("kernel", 4.0), "others": 11.0}])


def test_a_result_has_settings_and_a_table_for_each_log():
    runs = [*RUNS, *({**run, "size": "sparse"} for run in RUNS)]
    machine = Machine("", 2, 1.0, "", 0, 0, 0, 0)
    text = peers_tables(Result("peers", "", "", 1, "", machine, {}, [], runs))
    assert text.index("| engine | settings |") < text.index("**Dense**") < text.index("**Sparse**")
    assert text.count("| kernel, last |") == 2
    assert all(text.count(described(engine)["settings"]) == 1 for engine in ("kernel", "quix"))


def lived(engine: str, most: float) -> dict[str, Any]:
    """An engine under a load, as it is kept."""
    delays = {"p50": 10.0, "p99": 50.0, "p999": 90.0, "most": most}
    figures = {"rate": 1000, "seconds": 60, "cpu": 40.0, "broker_cpu": 8.0, "others": 0.0}
    labels = {"kind": "live", "engine": engine, "delays": delays}
    return {**labels, **figures, **described(engine), **TAKEN}


def test_the_longest_delay_is_told_beside_the_middle():
    rows = live_table([lived("kernel", 400.0), lived("streams-eos", 200.0)]).splitlines()[4:]
    cells = [row.strip("| ").split(" | ") for row in rows]
    assert cells[0][:5] == ["kernel", "1.00", "1.00", "1.00", "1.00"]
    assert cells[1][:5] == ["Kafka Streams, exactly once", "1.00", "1.00", "0.50", "1.00"]
    assert cells[1][5:9] == ["10 ms", "50 ms", "90 ms", "200 ms"]


def test_what_an_engine_takes_at_rest_is_told_where_it_was_measured():
    measured = {**lived("kernel", 4.0), "idle": 1.75, "memory_mb": 1800.0}
    quick = {**lived("quix", 4.0), "idle": None, "memory_mb": 400.0}
    rows = live_table([measured, quick, lived("streams-eos", 4.0)]).splitlines()[4:]
    assert [row.strip("| ").split(" | ")[11:13] for row in rows] == [
        ["1.75 %", "1,800 MB"], ["–", "400 MB"], ["–", "–"],
    ]  # fmt: skip


def killed(engine: str, first_s: float, all_s: float) -> dict[str, Any]:
    """A recovery, as it is kept."""
    labels = {"kind": "recovery", "engine": engine, "assets": 10}
    return {**labels, "first_s": first_s, "all_s": all_s, **described(engine), **TAKEN}


def test_the_slowest_recovery_counts():
    killings = [killed("kernel", 5, 6), killed("kernel", 4, 8), killed("quix", 2, 4)]
    rows = [line.strip("| ").split(" | ") for line in recovery_table(killings).splitlines()[4:]]
    assert rows == [
        ["kernel", "1.00", "4.0 s", "8.0 s", "2"],
        ["Quix Streams, at least once", "0.50", "2.0 s", "4.0 s", "1"],
    ]


def test_a_table_says_when_it_was_taken_and_is_of_one_run():
    earlier = [{**run, "begun": "before"} for run in (*RUNS, lived("kernel", 1.0))]
    runs = peers.merged(earlier, [drained("kernel", "first", 1.0, 1.0)])
    assert [(run["kind"], run["begun"]) for run in runs] == [
        ("drain", TAKEN["begun"]), ("live", "before"),
    ]  # fmt: skip
    assert "(before, commit `abc`)" in live_table(runs[1:])


def test_the_picture_is_of_the_kept_result():
    kept = read("peers")
    assert kept is None or PLOT.read_text(encoding="utf-8") == plot(kept)


def test_bars_are_as_long_as_their_figures():
    machine = Machine("", 2, 1.0, "", 0, 0, 0, 0)
    runs = [*RUNS, lived("kernel", 400.0), lived("quix", 200.0)]
    svg = ET.fromstring(plot(Result("peers", "", "", 1, "", machine, {}, [], runs)))
    bars = [rect for rect in svg.findall(".//{*}rect") if rect.get("x")]
    widths = [float(bar.get("width") or 0) for bar in bars]
    assert len(bars) == 2 * len(RUNS) + 3 * 2
    assert widths[2] == max(widths[:4])  # Kafka Streams has the highest rate
    assert widths[2] == pytest.approx(2 * widths[0], abs=0.1)
    assert widths[-2] == pytest.approx(2 * widths[-1], abs=0.1)
    assert [bar.get("fill") == OURS for bar in bars[:4]] == [True, False, False, True]


def test_the_picture_has_what_an_engine_holds_takes_at_rest_and_needs_after_a_crash():
    machine = Machine("", 2, 1.0, "", 0, 0, 0, 0)
    runs = [
        {**RUNS[0], "memory_mb": 1500.0, "durable": 1000, "working": 5},
        {**lived("kernel", 4.0), "idle": 1.75},
        killed("kernel", 4, 6),
        killed("kernel", 4, 8),
        killed("quix", 2, 4),
    ]
    svg = ET.fromstring(plot(Result("peers", "", "", 1, "", machine, {}, [], runs)))
    texts = [text.text for text in svg.findall(".//{*}text")]
    assert {"1,500 MB", "1.75 %", "8.0 s", "4.0 s"} <= set(texts)
    assert "6.0 s" not in texts  # of two kills the slower one counts


# ---- options and parts --------------------------------------------------------------------


def options(**given: Any) -> argparse.Namespace:
    """Options, by default as without any."""
    plain = {"peers": None, "quick": False, "reports": None, "assets": None}
    return argparse.Namespace(**{**plain, **given})


def test_the_short_run_takes_fewer_peers_and_one_log():
    assert peers.peers_of_options(options()) == PEERS
    quick = peers.peers_of_options(options(quick=True))
    assert {"streams-alo", "flink-alo"} <= {peer.name for peer in quick} < set(BY_NAME)
    (size,) = peers.sizes_of_options(options(quick=True)).values()
    assert size.reports < peers.SIZES["dense"].reports


def test_options_that_make_no_sense_are_problems():
    with pytest.raises(BenchProblem, match="no peer 'storm': expected streams-alo"):
        peers_of("quix,storm")
    with pytest.raises(BenchProblem, match="go together"):
        peers.sizes_of_options(options(reports=5))


def test_the_locks_have_what_is_asked_for():
    locked = read_lock(parts.LOCK)
    for group, entry in tomllib.loads(parts.PINS.read_text()).items():
        assert set(entry["modules"]) <= set(locked[group])
    wanted = parts.REQUIREMENTS.with_suffix(".in").read_text().strip()
    assert wanted in parts.REQUIREMENTS.read_text()


# ---- how busy the machine was -------------------------------------------------------------


def test_time_that_is_not_the_benchs_own_is_others():
    looks = [Look(100 * n, 60 * n, {"7@1": 40 * n}) for n in range(5)]
    tally = Tally(looks[0])
    for now in looks[1:]:
        tally.add(now)
    assert tally.busy() == Busy(20.0, 20.0)


def test_a_new_process_counts_from_its_start_and_one_that_ended_counts_no_more():
    tally = Tally(Look(0, 0, {"7@1": 500}))
    tally.add(Look(100, 100, {"8@2": 30}))
    assert tally.busy().mean == 70.0


def test_the_busiest_seconds_are_kept():
    worked = [0, *[0] * 10, *[100] * 10, *[0] * 10]
    looks, total = [], 0
    for n, share in enumerate(worked):
        total += share
        looks.append(Look(100 * n, total, {}))
    tally = Tally(looks[0])
    for _, now in pairwise(looks):
        tally.add(now)
    assert tally.busy() == Busy(33.3, 100.0)


def test_what_others_took_is_told_where_nothing_is_kept(capsys: pytest.CaptureFixture[str]):
    with printed_busyness():
        pass
    assert re.fullmatch(
        r"other processes took [0-9.]+ % of the processors' time, "
        r"[0-9.]+ % in the busiest five seconds\.\n",
        capsys.readouterr().out,
    )


def test_the_machine_is_looked_at_as_linux_shows_it(tmp_path: Path):
    (tmp_path / "stat").write_text("cpu  10 20 30 400 50 1 2 3 99 99\ncpu0 1 1 1 1\n")
    for pid, parent in ((10, 1), (11, 10), (12, 1)):
        (tmp_path / str(pid)).mkdir()
        fields = ["S", str(parent), *["0"] * 9, "4", "5", *["0"] * 6, "77"]
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) {' '.join(fields)}")
    assert look(10, tmp_path) == Look(516, 66, {"10@77": 9, "11@77": 9})
