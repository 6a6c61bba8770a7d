"""The stateful processor against the plain fold, on generated histories, without a JVM."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from pyspark.sql.streaming.tws_tester import TwsTester

from domain.asset import next_timer
from domain.fold import Bucket
from domain.records import (
    Command,
    DeadLetter,
    Mute,
    Report,
    StateRecord,
)
from streaming.fold.epochs import EpochStart
from streaming.fold.plan import Plan
from streaming.fold.processor import HEARTBEAT_MS, SourceRow, TallyProcessor, _load_headers
from streaming.fold.rules import dump_rule
from support.histories.batch_feed import BUCKET, feed, row
from support.histories.histories import History, seeded
from wire.asset import load_asset
from wire.forward import first_appended_at, forwarded_from
from wire.job import decode_heartbeat
from wire.keys import KeyFile
from wire.partitioner import partition_of
from wire.signature import Signer
from wire.sink import decode_dead_letter, encode_headers, encode_state
from wire.source import (
    decode_placed,
    encode_command,
    encode_mute,
    encode_report,
    encode_tick,
)

SEEDS = range(100)


def over_empty_state(history: History, partitions: int = 1, epoch: int = 1) -> TwsTester:
    """The processor over an empty state."""
    rules = {BUCKET: dump_rule(history.scenario)}
    return TwsTester(TallyProcessor(Plan("", epoch, {"watch": partitions}, rules)))


def expected(history: History, rows: list[SourceRow]) -> tuple[list[tuple], Bucket]:
    """Topic, key and value of what the plain fold emits, and the bucket after it."""
    bucket = Bucket(history.scenario, 0, 1)
    emissions: list[tuple] = []
    for one in rows:
        record = decode_placed(one.key, one.value, one.time, 0, 1)
        for out in bucket.apply(record, one.offset, one.time):
            if isinstance(out, DeadLetter):
                emissions.append(("dead-letters", one.key, out.reason))
            else:
                value = encode_state(out) if isinstance(out, StateRecord) else None
                emissions.append(("watch.states", out.asset.encode(), value, encode_headers(out)))
    return emissions, bucket


def emitted(out: list[dict[str, Any]]) -> Iterator[tuple]:
    """Sink rows in the form of `expected`, without heartbeats."""
    for record in out:
        headers = _load_headers(record["headers"])
        if record["topic"] == "dead-letters":
            dead = decode_dead_letter(record["key"], record["value"], headers)
            yield ("dead-letters", record["key"], dead.reason)
        elif record["topic"] == "watch.states":
            yield (record["topic"], record["key"], record["value"], headers)


def cut(rows: list[SourceRow], seed: int) -> Iterator[list[SourceRow]]:
    """The rows in batches of random size."""
    chance, rest = random.Random(seed), rows
    while rest:
        size = chance.choice((1, 1, 2, 3, 8, 50))
        yield rest[:size]
        rest = rest[size:]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.spread(10)
def test_any_cut_into_batches_emits_what_the_fold_emits(seed: int) -> None:
    history = seeded(seed)
    rows = [row(entry) for entry in history.entries]
    spark = over_empty_state(history)
    emissions = [item for batch in cut(rows, seed) for item in emitted(feed(spark, batch))]
    wanted, bucket = expected(history, rows)
    assert emissions == wanted
    stored = spark.peekMapState("assets", "watch/0#7")
    assert {name: load_asset(entry[0]) for (name,), entry in stored.items()} == dict(bucket.assets)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.spread(10)
def test_every_timer_is_entered_no_later_than_it_fires(seed: int) -> None:
    history = seeded(seed)
    spark = over_empty_state(history)
    for batch in cut([row(entry) for entry in history.entries], seed):
        feed(spark, batch)
    scenario = expected(history, [row(e) for e in history.entries])[1].scenario
    slots = {
        name: slot
        for (slot,), (names,) in spark.peekMapState("dues", "watch/0#7").items()
        for name in msgspec.json.decode(names)
        if spark.peekMapState("assets", "watch/0#7").get((name,), (b"", None))[1] == slot
    }
    for (name,), (data, slot) in spark.peekMapState("assets", "watch/0#7").items():
        timer = next_timer(load_asset(data), scenario)
        assert slots.get(name) == slot
        if timer is not None:
            assert slot is not None
            assert slot * 1000 <= timer.time


def test_the_generated_histories_have_timers_that_fire() -> None:
    causes = set()
    for seed in SEEDS:
        for _, _, value, *_ in (
            item
            for item in expected(seeded(seed), [row(e) for e in seeded(seed).entries])[0]
            if len(item) > 3 and item[2]
        ):
            causes.add(msgspec.json.decode(value)["cause"]["type"])
    assert {"hold", "vote-expiry", "reminder", "override-end", "scenario"} <= causes
    assert {"mute", "unmute", "mute-end"} <= causes


def test_rows_seen_before_are_passed_over() -> None:
    history = seeded(3)
    rows = [row(entry) for entry in history.entries]
    spark = over_empty_state(history)
    feed(spark, rows)
    assert list(emitted(feed(spark, rows))) == []


ELSEWHERE = next(n for n in map(str, range(99)) if partition_of(n.encode(), 4) == 1)
"""An asset of another partition than the one whose bucket these tests feed."""


def test_a_command_on_another_partition_is_a_dead_letter() -> None:
    spark = over_empty_state(seeded(1), partitions=4)
    value = encode_command(Command("purge", ELSEWHERE, str(uuid4()), "olga"))
    one = SourceRow(ELSEWHERE.encode(), value, 5, 1000, '[{"key":"k","value":"/w=="}]')
    (out,) = feed(spark, [one])
    dead = decode_dead_letter(out["key"], out["value"], _load_headers(out["headers"]))
    assert (dead.reason, dead.topic, dead.offset) == ("wrong-partition", "watch.reports", 5)
    assert dead.headers == (("k", b"\xff"),)


def test_a_report_on_another_partition_is_forwarded_once() -> None:
    spark = over_empty_state(seeded(1), partitions=4)
    value = encode_report(Report(ELSEWHERE, "w1", "bad"))
    one = SourceRow(ELSEWHERE.encode(), value, 5, 1000, '[{"key":"k","value":"/w=="}]')
    (out,) = feed(spark, [one])
    headers = _load_headers(out["headers"])
    assert (out["topic"], out["key"], out["value"]) == ("watch.reports", ELSEWHERE.encode(), value)
    assert forwarded_from(headers) == (0, 5)
    assert first_appended_at(headers) == 1000
    assert headers[3:] == (("k", b"\xff"),)
    again = SourceRow(out["key"], out["value"], 6, 1100, out["headers"])
    (dead,) = feed(spark, [again])
    reason = decode_dead_letter(dead["key"], dead["value"], _load_headers(dead["headers"])).reason
    assert reason == "wrong-partition"


def test_a_report_without_a_key_is_forwarded_with_the_asset_in_its_value() -> None:
    spark = over_empty_state(seeded(1))
    value = b'{"type":"report","asset":"shop","agent":"w1","state":"bad"}'
    (out,) = feed(spark, [SourceRow(None, value, 5, 1000, None)])
    assert (out["topic"], out["key"], out["value"]) == ("watch.reports", b"shop", value)
    taken = feed(spark, [SourceRow(out["key"], out["value"], 6, 1100, out["headers"])])
    (record,) = [
        msgspec.json.decode(row["value"]) for row in taken if row["topic"] != "job.buckets"
    ]
    assert (record["asset"], record["votes"][0]["reported_at"]) == ("shop", 1000)


def test_nothing_is_forwarded_again_while_the_log_is_read_again() -> None:
    rules = {BUCKET: dump_rule(seeded(1).scenario)}
    start = EpochStart(quiet={str(BUCKET): 5})
    spark = TwsTester(TallyProcessor(Plan("", 2, {"watch": 4}, rules, start)))
    value = encode_report(Report(ELSEWHERE, "w1", "bad"))
    rows = [SourceRow(ELSEWHERE.encode(), value, at, 1000 + at, None) for at in (5, 6)]
    (out,) = feed(spark, rows)
    assert forwarded_from(_load_headers(out["headers"])) == (0, 6)


def test_heartbeats_come_on_ticks_at_most_each_second() -> None:
    spark = over_empty_state(seeded(1))
    ticks = [SourceRow(None, encode_tick(), at, 5000 + at * 250, None) for at in range(13)]
    report = SourceRow(b"a", encode_report(Report("a", "w1", "bad")), 13, 8300, None)
    last = SourceRow(None, encode_tick(), 14, 9000, None)
    out = [*feed(spark, ticks), *feed(spark, [report]), *feed(spark, [last])]
    beats = [decode_heartbeat(r["value"]) for r in out if r["topic"] == "job.buckets"]
    times = [beat.log_time for beat in beats]
    assert times == [5000, 6000, 7000, 8000, 9000]
    assert {b - a for a, b in itertools.pairwise(times)} == {HEARTBEAT_MS}
    assert (beats[-1].records, beats[-1].offset, beats[-1].bucket) == (1, 14, "watch/0")


def test_heartbeats_tell_which_mutes_are_in_force() -> None:
    spark = over_empty_state(seeded(1))
    mute = Mute("w1", 8000, "olga", "wild", "0f8fad5b-d9cb-469f-a165-70867728950e")
    first = [
        SourceRow(None, encode_tick(), 0, 5000, None),
        SourceRow(None, encode_mute(mute), 1, 5500, None),
    ]
    later = [SourceRow(None, encode_tick(), 2 + n, 6000 + n * 1000, None) for n in range(3)]
    out = [*feed(spark, first), *feed(spark, later[:1]), *feed(spark, later[1:])]
    values = [r["value"] for r in out if r["topic"] == "job.buckets"]
    assert [decode_heartbeat(value).mutes for value in values] == [(), (mute,), (mute,), ()]
    assert b"mutes" not in values[0]


def test_an_asset_is_read_once_and_written_once_in_a_batch(monkeypatch: Any) -> None:
    spark = over_empty_state(seeded(1))
    calls: list[str] = []
    entries = spark.handle.map_states["assets"]

    def count(name: str) -> None:
        plain = getattr(entries, name)

        def counted(*arguments: Any) -> Any:
            calls.append(name)
            return plain(*arguments)

        monkeypatch.setattr(entries, name, counted)

    count("getValue")
    count("updateValue")
    reports = [
        SourceRow(b"a", encode_report(Report("a", f"w{at % 2}", "bad")), at, 1000 + at, None)
        for at in range(20)
    ]
    feed(spark, reports)
    assert calls == ["getValue", "updateValue"]


def test_signatures_are_looked_at_with_the_keys_of_the_plan(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json").made()
    rule = replace(seeded(1).scenario, name="watch", signed_commands=True)
    plan = Plan("", 1, {"watch": 1}, {BUCKET: dump_rule(rule)}, keys=str(keys.path))
    state = rule.states[0].name
    value = encode_command(Command("set", "a", f"{uuid4()}", "olga", "", state))
    signed = Signer(keys.ring, lambda: 5000).sign(value, "watch.reports", b"a")
    rows = [
        SourceRow(b"a", each, at, 5000, None)
        for at, each in enumerate((value, signed.replace(b"olga", b"evil"), signed))
    ]
    out = feed(TwsTester(TallyProcessor(plan)), rows)
    headers = [dict(_load_headers(row["headers"])) for row in out]
    assert [each.get("reason") for each in headers] == [b"unsigned", b"bad-signature", None]
    assert headers[2]["outcome"] == b"applied"
