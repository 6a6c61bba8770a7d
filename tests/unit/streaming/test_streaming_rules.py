"""Scenario records and ticks that the driver appends, on the bus in memory."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from bus.base import TopicSpec
from bus.memory import MemoryBus
from domain.fold import UnknownFoldVersion
from domain.records import Report, ScenarioChange, Tick
from domain.scenario import FOLD, Scenario
from domain.scenario_parser import scenario_from_plain
from streaming.fold.rules import Rules, dump_rule, load_rule, scan
from streaming.job.ticks import Ticker
from streaming.spark.restart_policy import judge
from streaming.state.buckets import BucketId
from streaming.state.storage import LocalPath
from support.run.stack import wait_until
from wire.keys import Key, KeyFile, Ring
from wire.signature import Signer
from wire.source import decode_source, encode_report, encode_scenario
from wire.topics import Topics

TOPICS = Topics("t.")
SITES = scenario_from_plain(
    {
        "name": "sites",
        "partitions": 2,
        "states": [{"name": "bad"}, {"name": "good"}],
        "rule": {"kind": "latest"},
    }
)
OTHER = replace(SITES, min_voters=3)
PLACES = [("t.sites.reports", 0), ("t.sites.reports", 1)]


@pytest.fixture(autouse=True)
def topics(bus: MemoryBus) -> None:
    """The scenario's topics are there."""
    bus.ensure_topics(TopicSpec(*spec) for spec in TOPICS.specs([SITES]))


def rules_in(bus: MemoryBus) -> dict[tuple[str, int], list[Any]]:
    """Every scenario record, as (offset, scenario)."""
    records = scan(bus, TOPICS, bus.offsets(["t.sites.reports"]))
    return {place: [(at, load_rule(text)) for at, text in held] for place, held in records.items()}


def report(bus: MemoryBus, partition: int, count: int = 1) -> None:
    """Append reports."""
    for _ in range(count):
        value = encode_report(Report("a", "w", "bad"))
        bus.producer().send_and_wait(PLACES[0][0], b"a", value, partition=partition)


def test_each_partition_without_a_rule_gets_one(bus: MemoryBus, tmp_path: LocalPath) -> None:
    report(bus, 1)
    first = Rules(bus, TOPICS, tmp_path / "r.json").settle({"sites": SITES})
    assert first == {BucketId("sites", at): dump_rule(SITES) for at in (0, 1)}
    assert rules_in(bus) == {PLACES[0]: [(0, SITES)], PLACES[1]: [(1, SITES)]}


@pytest.mark.parametrize("keep_file", [True, False])
def test_the_same_rule_is_not_appended_again(
    bus: MemoryBus, tmp_path: LocalPath, keep_file: bool
) -> None:
    for _ in range(3):
        Rules(bus, TOPICS, tmp_path / "r.json").settle({"sites": SITES})
        report(bus, 0, 5)
        if not keep_file:
            (tmp_path / "r.json").unlink()
    assert {place: len(held) for place, held in rules_in(bus).items()} == dict.fromkeys(PLACES, 1)


@pytest.mark.parametrize("keep_file", [True, False])
def test_a_changed_rule_is_appended_and_the_first_still_known(
    bus: MemoryBus, tmp_path: LocalPath, keep_file: bool
) -> None:
    path = tmp_path / "r.json"
    Rules(bus, TOPICS, path).settle({"sites": SITES})
    if not keep_file:
        path.unlink()
    first = Rules(bus, TOPICS, path).settle({"sites": OTHER})
    assert set(first.values()) == {dump_rule(SITES)}
    assert rules_in(bus)[PLACES[0]] == [(0, SITES), (1, OTHER)]


def test_the_last_rule_counts_not_any_earlier_one(bus: MemoryBus, tmp_path: LocalPath) -> None:
    for scenario in (SITES, OTHER, SITES):
        Rules(bus, TOPICS, tmp_path / "r.json").settle({"sites": scenario})
    assert [rule for _, rule in rules_in(bus)[PLACES[1]]] == [SITES, OTHER, SITES]


def test_a_rule_that_the_log_has_lost_is_appended_again(
    bus: MemoryBus, tmp_path: LocalPath
) -> None:
    Rules(bus, TOPICS, tmp_path / "r.json").settle({"sites": SITES})
    report(bus, 0, 3)
    bus.truncate(*PLACES[0], before=2)
    Rules(bus, TOPICS, tmp_path / "r.json").settle({"sites": SITES})
    assert [at for at, _ in rules_in(bus)[PLACES[0]]] == [4]


def test_a_file_of_another_log_is_not_believed(bus: MemoryBus, tmp_path: LocalPath) -> None:
    path = tmp_path / "r.json"
    report(bus, 0, 9)
    Rules(bus, TOPICS, path).settle({"sites": SITES})
    fresh = MemoryBus(lambda: 1000)
    fresh.ensure_topics(TopicSpec(*spec) for spec in TOPICS.specs([SITES]))
    Rules(fresh, TOPICS, path).settle({"sites": SITES})
    assert rules_in(fresh) == {place: [(0, SITES)] for place in PLACES}


def test_only_scenario_records_are_taken_for_rules(bus: MemoryBus) -> None:
    bus.producer().send_and_wait(PLACES[0][0], b"a", b'{"type":"report","x":"scenario"}')
    bus.producer().send_and_wait(PLACES[0][0], None, b'{"type":"scenario"}', partition=0)
    assert rules_in(bus) == {place: [] for place in PLACES}
    assert decode_source(None, encode_scenario(SITES), 0) == ScenarioChange(SITES)


def tick_count(bus: MemoryBus, place: tuple[str, int]) -> int:
    """Ticks in a partition."""
    reader = bus.reader({place: 0})
    return sum(
        decode_source(m.key, m.value, 0) == Tick() for m in reader.poll(0.01, max_records=9999)
    )


def test_ticks_reach_every_partition_and_outlive_a_lost_broker(bus: MemoryBus) -> None:
    ticker = Ticker(bus, PLACES, every_ms=10)
    ticker.start()
    wait_until(lambda: all(tick_count(bus, p) >= 3 for p in PLACES), 5, "no ticks")
    bus.stop()
    threading.Event().wait(0.1)
    bus.start()
    before = {place: tick_count(bus, place) for place in PLACES}
    wait_until(lambda: all(tick_count(bus, p) > before[p] + 3 for p in PLACES), 9, "no more ticks")
    ticker.stop()
    after = bus.offsets([PLACES[0][0]])
    threading.Event().wait(0.05)
    assert bus.offsets([PLACES[0][0]]) == after


def test_a_scenario_record_under_another_name_is_no_rule(
    bus: MemoryBus, tmp_path: LocalPath
) -> None:
    stray = encode_scenario(replace(SITES, name="gates"))
    escaped = encode_scenario(OTHER).replace(b'"scenario"', b'"sc\\u0065nario"')
    for value in (stray, escaped):
        bus.producer().send_and_wait(PLACES[0][0], None, value, partition=0)
    first = Rules(bus, TOPICS, tmp_path / "r.json").settle({"sites": SITES})
    assert first[BucketId("sites", 0)] == dump_rule(OTHER)


def test_a_rule_for_a_later_fold_stops_the_job(bus: MemoryBus, tmp_path: LocalPath) -> None:
    """Whoever went on would put an older rule after it, and make something else of the log."""
    later = {**SITES.to_plain(), "fold": FOLD + 1, "states": "in a form of its own"}
    value = json.dumps({"type": "scenario", "scenario": later}).encode()
    bus.producer().send_and_wait(PLACES[0][0], None, value, partition=1)
    ends = bus.offsets(["t.sites.reports"])
    needs = f"sites needs version {FOLD + 1} of the fold"
    with pytest.raises(UnknownFoldVersion, match=needs) as raised:
        Rules(bus, TOPICS, tmp_path / "r.json").settle({"sites": SITES})
    assert bus.offsets(["t.sites.reports"]) == ends
    verdict = judge(f"{type(raised.value).__name__}: {raised.value}")
    assert not verdict.passes
    assert "newer release" in verdict.advice


def test_another_scenarios_rule_for_a_later_fold_is_no_rule_here(
    bus: MemoryBus, tmp_path: LocalPath
) -> None:
    later = {**SITES.to_plain(), "name": "elsewhere", "fold": FOLD + 1}
    value = json.dumps({"type": "scenario", "scenario": later}).encode()
    bus.producer().send_and_wait(PLACES[0][0], None, value, partition=1)
    first = Rules(bus, TOPICS, tmp_path / "r.json").settle({"sites": SITES})
    assert first == {BucketId("sites", at): dump_rule(SITES) for at in (0, 1)}


# ---- signatures ----------------------------------------------------------------------------

SIGNED = replace(SITES, signed_commands=True)


def test_rules_are_signed_and_forged_ones_are_none(bus: MemoryBus, tmp_path: LocalPath) -> None:
    """Also where the file is lost that says where the rules are: the log alone tells."""
    keys = KeyFile(tmp_path / "keys.json").made()
    signer = Signer(keys.ring, lambda: 1000)

    def settled(rule: Scenario, name: str) -> dict[BucketId, str]:
        rules = Rules(bus, TOPICS, tmp_path / name, keys.ring, signer)
        return rules.settle({"sites": rule})

    settled(SIGNED, "one.json")
    forged = encode_scenario(replace(OTHER, signed_commands=False))
    wrong = Signer(lambda: Ring((Key("else", "e" * 43),)), lambda: 1000)
    for value in (forged, wrong.sign(forged, PLACES[0][0], None)):
        bus.producer().send_and_wait(PLACES[0][0], None, value, partition=0)
    end = bus.offsets(["t.sites.reports"])[PLACES[0]]
    assert settled(SIGNED, "two.json") == {
        BucketId("sites", at): dump_rule(SIGNED) for at in (0, 1)
    }
    assert bus.offsets(["t.sites.reports"])[PLACES[0]] == end
    settled(OTHER, "two.json")
    records = scan(bus, TOPICS, bus.offsets(["t.sites.reports"]), keys.ring)
    assert [load_rule(text) for _, text in records[PLACES[0]]] == [SIGNED, OTHER]


def test_a_rule_from_before_signatures_counts(bus: MemoryBus, tmp_path: LocalPath) -> None:
    Rules(bus, TOPICS, tmp_path / "r.json").settle({"sites": SITES})
    keys = KeyFile(tmp_path / "keys.json").made()
    signer = Signer(keys.ring, lambda: 1000)
    first = Rules(bus, TOPICS, tmp_path / "new.json", keys.ring, signer).settle({"sites": SIGNED})
    assert first == {BucketId("sites", at): dump_rule(SITES) for at in (0, 1)}
    assert [rule for _, rule in rules_in(bus)[PLACES[1]]] == [SITES, SIGNED]


def test_a_rule_is_signed_by_the_brokers_clock(bus: MemoryBus, tmp_path: LocalPath) -> None:
    """The job's own is a day ahead: the first is refused, the second holds."""
    keys = KeyFile(tmp_path / "keys.json").made()
    signer = Signer(keys.ring, lambda: 86_401_000)
    rules = Rules(bus, TOPICS, tmp_path / "r.json", keys.ring, signer)
    rules.settle({"sites": SIGNED})
    assert rules.newest == {BucketId("sites", 0): 1, BucketId("sites", 1): 0}
    records = scan(bus, TOPICS, bus.offsets(["t.sites.reports"]), keys.ring)
    assert {place: held[-1][0] for place, held in records.items()} == {PLACES[0]: 1, PLACES[1]: 0}
